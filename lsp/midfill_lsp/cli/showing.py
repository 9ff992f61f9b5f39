"""How `midfill fill` shows what it found: the whole file, a diff, JSON, or in the file itself."""

import argparse
import difflib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from midfill_engine.protocol import FillResult
from midfill_infill import Canvas
from midfill_lsp.cli.places import place_at
from midfill_lsp.cli.source import Source, to_bytes, write_atomically
from midfill_lsp.errors import OutputError
from midfill_lsp.filling import Candidate

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


def show(
    arguments: argparse.Namespace,
    source: Source,
    canvas: Canvas,
    candidates: Sequence[Candidate],
    result: FillResult,
) -> None:
    """Show the best candidate in the way that was asked for.

    Raises:
        OutputError: the file could not be written.
    """
    filled = candidates[0].edit.apply(source.text)
    if arguments.write:
        before = to_bytes(source, source.text)
        write_atomically(Path(source.name), to_bytes(source, filled), instead_of=before)
    elif arguments.json:
        _put(json.dumps(described(source, canvas, candidates, result), indent=2).encode() + b"\n")
    elif arguments.diff:
        _put("".join(unified_diff(source, filled)).encode())
    else:
        _put(to_bytes(source, filled))


def unified_diff(source: Source, filled: str) -> Iterator[str]:
    """The lines of a diff that `patch` takes: to it, as to it alone, only LF ends a line."""
    name = source.shown_name.lstrip("/")
    before, after = _LINE.findall(source.text), _LINE.findall(filled)
    for line in difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def described(
    source: Source, canvas: Canvas, candidates: Sequence[Candidate], result: FillResult
) -> dict[str, Any]:
    """Everything about an answer. Lines and columns are as on the command line."""
    return {
        "file": source.name,
        "language": canvas.language,
        "hole": {"kind": canvas.hole.kind, **_span(canvas.hole.start, canvas.hole.end, source)},
        "candidates": [
            {
                **_span(candidate.edit.start, candidate.edit.end, source),
                "newText": candidate.edit.new_text,
                "confidence": candidate.fill.confidence,
                "score": candidate.fill.score,
            }
            for candidate in candidates
        ],
        "atDeadline": result.at_deadline,
        "stats": asdict(result.stats),
    }


def _span(start: int, end: int, source: Source) -> dict[str, Any]:
    return {
        "start": asdict(place_at(start, source.text)),
        "end": asdict(place_at(end, source.text)),
    }


def _put(data: bytes) -> None:
    """Bytes to stdout: what a terminal's encoding makes of line ends and letters is not ours."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"stdout: cannot be written: {error.strerror}") from error
