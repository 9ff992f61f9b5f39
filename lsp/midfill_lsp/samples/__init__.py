"""The file that `midfill demo` and `midfill bench` work on when none is named, and its holes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

SAMPLE: Final = Path(__file__).parent / "stock.py"


@dataclass(frozen=True, slots=True)
class SampleHole:
    """What to cut out of the sample. `before + removed` stands in it exactly once."""

    what: str  # for a heading
    before: str
    removed: str
    at_cursor: bool  # ask for ghost text where it was; else have a selection filled


HOLES: Final = (
    SampleHole("an expression, at the cursor", "        return ", "len(self._items)", True),
    SampleHole("a statement, selected", "        ", "item.count -= count", False),
    SampleHole(
        "a block, at the cursor",
        "        if count <= 0:",
        '\n            raise ValueError("the count must be positive")',
        True,
    ),
)
