"""Whose turn it is: what somebody waits for goes first, and no client lives at another's cost.

Owns the account of rows that each client has been served, and the three choices that follow from
it: which request comes in next, which goes back to make room for it, and which take part in a
pass. Knows nothing of models, contexts and clocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from midfill_engine.protocol import DraftEvent, Failure, FillRequest, FillResult


@dataclass(slots=True, eq=False)
class Ticket:
    """A request on its way in, and where its answer goes."""

    request: FillRequest
    reply: Callable[[DraftEvent | FillResult | Failure], None]
    received: float  # on the scheduler's clock, in seconds
    client: int = 0  # tells those apart that must not starve one another
    cancelled: bool = False  # set from any thread; seen before the next pass

    @property
    def deadline(self) -> float:
        """On the same clock."""
        return self.received + self.request.deadline_ms / 1000


@dataclass(slots=True)
class Turns:
    """The account of what each client with requests has been served."""

    _served: dict[int, int] = field(default_factory=dict)  # rows, by client

    def meet(self, tickets: Iterable[Ticket]) -> None:
        """Take note of who has requests now.

        Who comes anew is level with whoever has had least: an idle hour earns nothing.
        """
        clients = {ticket.client for ticket in tickets}
        least = min((self._served[c] for c in clients if c in self._served), default=0)
        self._served = {client: self._served.get(client, least) for client in clients}

    def book(self, ticket: Ticket, rows: int) -> None:
        """Rows of a pass that were a request's."""
        self._served[ticket.client] += rows

    def next_in(self, waiting: Sequence[Ticket], running: Iterable[Ticket]) -> Ticket | None:
        """Which of the waiting requests is started next."""
        has = Counter(ticket.client for ticket in running)
        return min(waiting, key=lambda t: self._rank(t, has[t.client]), default=None)

    def gives_way(self, newcomer: Ticket, running: Sequence[Ticket]) -> Ticket | None:
        """Which request has to go back, so that the newcomer can be started; None: it waits.

        One that nobody waits for gives way to one that somebody waits for. Among equals it is the
        newest of the client that has most, if that has at least two more than the newcomer's.
        """
        background = [t for t in running if not t.request.interactive]
        if newcomer.request.interactive and background:
            return max(background, key=lambda t: t.received)
        has = Counter(ticket.client for ticket in running)
        crowd = [
            t
            for t in running
            if t.request.interactive == newcomer.request.interactive
            and has[t.client] >= has[newcomer.client] + 2
        ]
        return max(crowd, key=lambda t: (has[t.client], t.received), default=None)

    def in_pass(self, rows: Mapping[Ticket, int], room: int, now: float) -> list[Ticket]:
        """Which requests take part in a pass with room for so many rows; at least one does.

        The client that has been served least goes first, each time anew, and of its requests the
        one that is due first. What nobody waits for stands back while there is anything else,
        until it is late.
        """
        first = [t for t in rows if t.request.interactive or t.deadline < now] or list(rows)
        left = sorted(first, key=lambda t: t.deadline)
        served = dict(self._served)
        taken: list[Ticket] = []
        while left:
            ticket = min(left, key=lambda t: served[t.client])
            if taken and rows[ticket] > room:
                break
            left.remove(ticket)
            taken.append(ticket)
            served[ticket.client] += rows[ticket]
            room -= rows[ticket]
        return taken

    def _rank(self, ticket: Ticket, running: int) -> tuple[bool, int, int, float]:
        served = self._served[ticket.client]
        return (not ticket.request.interactive, running, served, ticket.received)
