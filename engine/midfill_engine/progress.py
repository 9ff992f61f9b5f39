"""How long work tells how far it is. Knows nothing of who shows it."""

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""`(done, total, what)`, called often; total is 0 while it is not known."""


def silent(done: int, total: int, what: str) -> None:
    """A `Progress` that shows nothing."""
