"""The log of a run: a JSON object a line, for every validation.

Owns `log.jsonl`, and that it never says anything twice: a run that resumes takes back what it
wrote after the checkpoint that it goes on from.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midfill_engine.errors import TrainingError


@dataclass(frozen=True, slots=True)
class RunLog:
    """The log at `path`."""

    path: Path

    def add(self, entry: dict[str, Any]) -> str:
        """Append an entry, and be sure that it is on the disk; returns its line."""
        line = json.dumps(entry)
        with self.path.open("a") as stream:
            stream.write(line + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        return line

    def rewind(self, step: int | None) -> None:
        """Drop what was written after a step, or everything where no step was kept.

        Raises:
            TrainingError: there is a log of steps, and none of them was kept.
        """
        if not self.path.exists():
            return
        entries = self._entries()
        if step is None and any(entry["step"] > 0 for entry in entries):
            raise TrainingError(f"{self.path} is of a run whose checkpoint is not there")
        kept = [e for e in entries if step is not None and e["step"] <= step]
        part = self.path.with_suffix(".part")
        part.write_text("".join(json.dumps(entry) + "\n" for entry in kept))
        part.replace(self.path)

    def read(self) -> list[dict[str, Any]]:
        """All entries.

        Raises:
            TrainingError: there is none, or a line is no entry.
        """
        if not self.path.exists():
            raise TrainingError(f"{self.path} is not there: no run has been logged")
        if not (entries := self._entries()):
            raise TrainingError(f"{self.path} is empty: no run has been logged")
        return entries

    def _entries(self) -> list[dict[str, Any]]:
        # A line without its end is one that a crash cut short.
        lines = self.path.read_text().split("\n")[:-1]
        try:
            entries = [dict(json.loads(line)) for line in lines]
            if not all(isinstance(entry["step"], int) for entry in entries):
                raise ValueError("a step is no number")
        except (ValueError, TypeError, KeyError) as error:
            raise TrainingError(f"{self.path} is no log of a run: {error}") from error
        return entries
