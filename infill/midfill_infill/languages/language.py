"""What we state about a programming language: plain data, no code of its own.

Owns the shape of these facts and the patterns that several languages share. Does not know which
languages there are, and imports no grammar: it is named here and loaded by `syntax`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Quoted:
    """A stretch of text in which brackets and keywords mean nothing.

    `body` matches from its first character up to its end marker, however far that is; `end`
    matches the marker, and is "" for a comment that runs to the end of its line. Both are regular
    expressions without capturing groups, and possessive, so that no text makes them slow.
    """

    kind: Literal["string", "comment"]
    first: str  # the one character it begins with
    body: str
    end: str


@dataclass(frozen=True, slots=True)
class Language:
    """The facts of one language."""

    key: str
    lsp_ids: tuple[str, ...]  # values of `languageId` in the Language Server Protocol
    suffixes: tuple[str, ...]  # of file names, lower case
    grammar: tuple[str, str]  # module, and the function in it that gives the grammar
    blocks: Literal["indentation", "braces"]
    quoted: tuple[Quoted, ...]  # in the order in which they are tried
    line_comment: str
    indent_unit: str  # for a file that shows none of its own
    header: str = ""  # blocks by indentation: what a statement that owns one begins with
    never_in_brackets: str = ""  # a line that begins so proves that no bracket is open


_LINE = r"(?:[^{mark}\\\n\r]++|\\(?:\r\n|[\s\S])?)*+"

DOUBLE_QUOTES = Quoted("string", '"', '"' + _LINE.format(mark='"'), '"')
SINGLE_QUOTES = Quoted("string", "'", "'" + _LINE.format(mark="'"), "'")
# A character literal. Elsewhere the mark is a lifetime, a label or a separator of digits.
CHARACTER = Quoted("string", "'", r"(?<![0-9])'(?:[^'\\\n\r]|\\[^\n\r][^'\\\n\r]{0,8})(?=')", "'")
BACKTICKS = Quoted("string", "`", r"`(?:[^`\\]++|\\[\s\S]?)*+", "`")
RAW_BACKTICKS = Quoted("string", "`", r"`[^`]*+", "`")
TRIPLE_DOUBLE = Quoted("string", '"', r'"""(?:[^"\\]++|\\[\s\S]?|"(?!""))*+', '"""')
TRIPLE_SINGLE = Quoted("string", "'", r"'''(?:[^'\\]++|\\[\s\S]?|'(?!''))*+", "'''")
HASH_COMMENT = Quoted("comment", "#", r"#[^\n\r]*+", "")
SLASH_COMMENT = Quoted("comment", "/", r"//[^\n\r]*+", "")
BLOCK_COMMENT = Quoted("comment", "/", r"/\*(?:[^*]++|\*(?!/))*+", r"\*/")
# Between slashes, where an operand may stand; else a slash divides.
REGEX = Quoted(
    "string",
    "/",
    r"(?:(?<=[(,=:\[!&|?{;])|(?<=[(,=:\[!&|?{;] ))/(?![*/ ])"
    r"(?:[^/\\\[\n\r]++|\\[^\n\r]|\[(?:[^\]\\\n\r]++|\\[^\n\r])*+\])++(?=/)",
    "/",
)
# Of a language that we do not know: only what is surely a string, for prose has apostrophes.
GUESSED_STRINGS = (
    Quoted("string", '"', r'(?<!\w)"[^"\n\r]*+(?=")', '"'),
    Quoted("string", "'", r"(?<!\w)'[^'\n\r]*+(?=')", "'"),
)
