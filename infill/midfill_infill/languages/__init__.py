"""Which languages we have facts about, and how one is told from another.

Owns the list. An unknown language is no error: it is None, and holes in it are made from lines
and brackets alone.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from midfill_infill.languages.c import C
from midfill_infill.languages.cpp import CPP
from midfill_infill.languages.go import GO
from midfill_infill.languages.java import JAVA
from midfill_infill.languages.javascript import JAVASCRIPT
from midfill_infill.languages.language import Language
from midfill_infill.languages.python import PYTHON
from midfill_infill.languages.rust import RUST
from midfill_infill.languages.tsx import TSX
from midfill_infill.languages.typescript import TYPESCRIPT

LANGUAGES: Final[tuple[Language, ...]] = (
    PYTHON,
    JAVASCRIPT,
    TYPESCRIPT,
    TSX,
    GO,
    RUST,
    JAVA,
    C,
    CPP,
)
_BY_ID: Final = {name: lang for lang in LANGUAGES for name in (lang.key, *lang.lsp_ids)}
_BY_SUFFIX: Final = {suffix: lang for lang in LANGUAGES for suffix in lang.suffixes}


def language_for(language_id: str | None, path: str | None = None) -> str | None:
    """Our key for a language: by the editor's language id, else by the file's name, else None."""
    by_id = _BY_ID.get(language_id) if language_id else None
    by_path = _BY_SUFFIX.get(PurePath(path).suffix.lower()) if path else None
    found = by_id or by_path
    return found.key if found else None


def facts_for(language_id: str | None) -> Language | None:
    """The facts of a language, by our key or an editor's language id."""
    return _BY_ID.get(language_id) if language_id else None
