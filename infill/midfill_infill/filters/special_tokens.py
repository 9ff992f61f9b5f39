"""Filter: what is no text at all. A model's sentinels, control characters, broken characters."""

from __future__ import annotations

import re
from typing import Final

from midfill_infill.canvas import Canvas

_SENTINEL: Final = re.compile(
    r"<[|｜][\w/▁-]{1,40}[|｜]>"  # <|endoftext|> and its kin, with bars of either width
    r"|<fim_(?:prefix|middle|suffix|pad)>|<(?:PRE|SUF|MID|EOT|pad|unk)>"
    r"|<(?:repo_name|reponame|file_sep|filename|gh_stars|empty_output)>"
    r"|<issue_(?:start|comment|closed)>|<commit_(?:before|msg|after)>"
    r"|<jupyter_(?:start|text|code|output|script)>"
)
# Controls, marks that reverse the direction of text, and what broken UTF-8 decodes to.
_NO_TEXT: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffd\ufffe\uffff"
    "\ud800-\udfff]"
)


def special_tokens(fill: str, canvas: Canvas) -> str | None:
    """Cut the fill where the first of them stands; line ends become "\\n"."""
    text = fill.replace("\r\n", "\n").replace("\r", "\n")
    for unwanted in (_SENTINEL, _NO_TEXT):
        if found := unwanted.search(text):
            text = text[: found.start()]
    return text
