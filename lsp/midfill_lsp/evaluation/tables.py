"""The figures of an evaluation as tables: of text for a terminal, of Markdown for a file.

Owns their wording. Knows nothing of how figures are got.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from midfill_lsp.evaluation.figures import (
    FIGURES,
    Outcomes,
    Unit,
    against,
    calibration,
    exact_by,
    times,
)
from midfill_lsp.evaluation.outcomes import Outcome
from midfill_lsp.evaluation.statistics import Comparison, Estimate
from midfill_lsp.evaluation.systems import BASE

NOTHING: Final = "-"


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, and rows of as many cells as there are columns; the first is the label."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(outcomes: Mapping[str, Outcomes]) -> list[Table]:
    """All tables: one column for each system, the base first."""
    return [
        *_figures(outcomes),
        _against_base(outcomes),
        _calibrations(outcomes),
        _times(outcomes),
        _exact_by("exact by language", outcomes, lambda one: one.language),
        _exact_by("exact by kind of hole", outcomes, lambda one: one.kind),
    ]


def markdown(table: Table) -> str:
    """The table, without its title."""
    lines = [table.columns, tuple("---" for _ in table.columns), *table.rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _figures(outcomes: Mapping[str, Outcomes]) -> list[Table]:
    groups = dict.fromkeys(figure.group for figure in FIGURES)
    return [
        Table(
            group,
            ("", *outcomes),
            tuple(
                (figure.label, *(_cell(figure.of(of), figure.unit) for of in outcomes.values()))
                for figure in FIGURES
                if figure.group == group
            ),
        )
        for group in groups
    ]


def _against_base(outcomes: Mapping[str, Outcomes]) -> Table:
    others = {name: against(of, outcomes[BASE]) for name, of in outcomes.items() if name != BASE}
    rows = (
        ("HumanEval, exact", *(_compared(found.exact) for found in others.values())),
        ("HumanEval, pass@1", *(_compared(found.passed) for found in others.values())),
        ("held-out, exact", *(_compared(found.held_out_exact) for found in others.values())),
    )
    return Table("points above the base, on the same holes", ("", *others), rows)


def _calibrations(outcomes: Mapping[str, Outcomes]) -> Table:
    found = [calibration(of) for of in outcomes.values()]
    errors = [NOTHING if one.error is None else f"{one.error:.3f}" for one in found]
    fills = [str(one.fills) for one in found]
    rows = (("expected calibration error", *errors), ("fills offered", *fills))
    return Table("confidence, outside HumanEval", ("", *outcomes), rows)


def _times(outcomes: Mapping[str, Outcomes]) -> Table:
    spreads = [times(of) for of in outcomes.values()]
    rows = tuple(
        (
            label,
            *(NOTHING if s is None else f"{getattr(s, name):.0f} ms" for s in spreads),
        )
        for label, name in (("p50", "p50_ms"), ("p95", "p95_ms"))
    )
    return Table("time of a fill (this machine, as busy as it was)", ("", *outcomes), rows)


def _exact_by(title: str, outcomes: Mapping[str, Outcomes], key: Callable[[Outcome], str]) -> Table:
    found = {system: exact_by(of, key) for system, of in outcomes.items()}
    names = sorted({name for shares in found.values() for name in shares})
    rows = tuple(
        (name, *(_cell(shares.get(name), "share") for shares in found.values())) for name in names
    )
    return Table(f"held-out packages, {title}", ("", *outcomes), rows)


def _cell(estimate: Estimate | None, unit: Unit) -> str:
    if estimate is None:
        return NOTHING
    value, low, high = estimate.value, estimate.low, estimate.high
    match unit:
        case "share":
            return f"{100 * value:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
        case "characters":
            return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"
        case "count" | "similarity":
            return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def share_text(estimate: Estimate | None) -> str:
    """A share as a cell has it."""
    return _cell(estimate, "share")


def _compared(found: Comparison | None) -> str:
    if found is None:
        return NOTHING
    value, low, high = (
        100 * part for part in (found.difference.value, found.difference.low, found.difference.high)
    )
    return (
        f"{value:+.1f} [{low:+.1f}, {high:+.1f}], "
        f"{found.gained} won, {found.lost} lost, p = {found.p:.2g}"
    )
