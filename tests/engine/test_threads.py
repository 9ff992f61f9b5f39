"""How many threads a pass uses."""

from __future__ import annotations

from contextlib import suppress

import pytest

from midfill_engine.worker.threads import ThreadChooser


class Machine:
    """A processor whose passes take as long as it says, by threads; after a change twice that."""

    def __init__(self, seconds: dict[int, float]) -> None:
        self.seconds, self.now, self.threads = seconds, 0.0, 0
        self.before = 0  # threads of the last pass
        self.history: list[int] = []

    def set_threads(self, count: int) -> None:
        self.threads = count

    def run(self, chooser: ThreadChooser, passes: int, rows: int = 30) -> None:
        for _ in range(passes):
            with chooser.measured(rows):
                waking = 2 if self.threads != self.before else 1
                self.now += waking * self.seconds[self.threads] * (rows + 50) / 80
                self.before = self.threads
                self.history.append(self.threads)

    def chooser(self, most: int) -> ThreadChooser:
        return ThreadChooser(most, self.set_threads, lambda: self.now)


def test_one_processor_has_no_choice() -> None:
    machine = Machine({1: 1.0})
    machine.run(machine.chooser(1), 20)
    assert set(machine.history) == {1}


def test_all_threads_where_they_are_fastest_and_trials_become_rare() -> None:
    machine = Machine({1: 1.5, 2: 1.0})
    machine.run(machine.chooser(2), 300)
    assert machine.history.count(1) <= 18
    assert machine.history[-40:].count(1) <= 2


def test_fewer_where_other_programs_want_the_processors() -> None:
    machine = Machine({1: 1.0, 2: 3.0})
    chooser = machine.chooser(2)
    machine.run(chooser, 10)
    assert chooser.threads == 1


def test_follows_the_machine_at_once_when_it_becomes_busy() -> None:
    machine = Machine({1: 1.5, 2: 1.0})
    chooser = machine.chooser(2)
    machine.run(chooser, 200)
    machine.seconds = {1: 1.8, 2: 4.0}
    machine.run(chooser, 5)
    assert chooser.threads == 1


def test_and_when_it_becomes_idle_again() -> None:
    machine = Machine({1: 1.0, 2: 3.0})
    chooser = machine.chooser(2)
    machine.run(chooser, 200)
    machine.seconds = {1: 0.9, 2: 0.6}
    machine.run(chooser, 70)
    assert chooser.threads == 2


@pytest.mark.parametrize("best", [1, 2, 4, 6])
def test_finds_the_best_of_many(best: int) -> None:
    machine = Machine({n: 1.0 + abs(n - best) / 10 for n in (1, 2, 4, 6)})
    chooser = machine.chooser(6)
    machine.run(chooser, 120)
    assert chooser.threads == best


def test_the_rows_of_a_pass_do_not_count_against_its_threads() -> None:
    machine = Machine({1: 1.2, 2: 1.0})
    chooser = machine.chooser(2)
    for rows in (10, 200, 10, 400, 30, 300, 5, 250) * 10:
        machine.run(chooser, 1, rows)
    assert chooser.threads == 2


def test_a_pass_that_fails_teaches_nothing() -> None:
    machine = Machine({1: 1.2, 2: 1.0})
    chooser = machine.chooser(2)
    with suppress(ValueError), chooser.measured(10):
        machine.now += 1000
        raise ValueError
    machine.run(chooser, 100)
    assert chooser.threads == 2


def test_what_runs_between_passes_has_the_chosen_number_too() -> None:
    machine = Machine({1: 1.5, 2: 1.0})
    chooser = machine.chooser(2)
    machine.run(chooser, 20)
    assert machine.threads == chooser.threads
