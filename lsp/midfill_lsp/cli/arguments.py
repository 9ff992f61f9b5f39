"""What several subcommands take on the command line, and how each says that it is wrong.

Imports nothing heavy before a value is parsed: every command starts by building all parsers.
"""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from midfill_lsp.cli.places import Place

QUALITIES: Final = ("fast", "balanced", "best")  # as the protocol has them, whose import is slow
T = TypeVar("T")


def add_model(parser: argparse.ArgumentParser) -> None:
    """The option that says which model is meant."""
    parser.add_argument(
        "--model", default="embedded", metavar="M", help="a fetched model's name, or a directory"
    )


def one_place(text: str) -> "Place":
    """`LINE:COL`."""
    from midfill_lsp.cli.places import parse_place

    return _parsed(parse_place, text)


def place_range(text: str) -> "tuple[Place, Place]":
    """`L:C-L:C`."""
    from midfill_lsp.cli.places import parse_range

    return _parsed(parse_range, text)


def positive(unit: str, *, most_digits: int) -> Callable[[str], int]:
    """A parser of a number of so many `unit` that is not zero."""

    def parse(text: str) -> int:
        number = text.isascii() and text.isdigit() and len(text) <= most_digits
        if not (number and int(text) > 0):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {unit}")
        return int(text)

    return parse


def _parsed(parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
