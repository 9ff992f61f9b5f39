"""Which language a document is in, and that each has a grammar that loads late."""

from __future__ import annotations

import subprocess
import sys

import pytest

from midfill_infill import language_for
from midfill_infill.languages import LANGUAGES
from midfill_infill.languages.language import Language
from midfill_infill.lexing import lex
from midfill_infill.syntax import parse


@pytest.mark.parametrize(
    ("language_id", "path", "key"),
    [
        ("python", None, "python"),
        ("javascriptreact", None, "javascript"),
        ("typescriptreact", "/a/b.tsx", "tsx"),
        ("plaintext", "/a/b.RS", "rust"),
        (None, "C:\\src\\a.cpp", "cpp"),
        (None, "/a/b.h", "c"),
        ("cpp", "/a/b.h", "cpp"),
        (None, "/a/Makefile", None),
        ("haskell", "/a/b.hs", None),
        (None, None, None),
        ("", "", None),
    ],
)
def test_language_for(language_id: str | None, path: str | None, key: str | None) -> None:
    assert language_for(language_id, path) == key


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.key)
def test_every_grammar_loads(language: Language) -> None:
    assert parse("", "", "", language) is not None


def test_no_two_languages_claim_the_same() -> None:
    for claims in ("lsp_ids", "suffixes"):
        claimed = [name for language in LANGUAGES for name in getattr(language, claims)]
        assert len(claimed) == len(set(claimed))


def test_importing_the_package_loads_no_grammar() -> None:
    code = "import sys, midfill_infill; print([m for m in sys.modules if 'tree_sitter_' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("key", "text", "inside", "brackets"),
    [
        ("python", "x = '(' + [", None, "["),
        ("python", "x = (  # )", "comment", "("),
        ("python", '"""a\n(', "string", ""),
        ("python", "x = 'it\\'s", "string", ""),
        ("python", "x = 'a\n(", None, "("),
        ("python", "x = foo(\nimport a\ny = [", None, "["),
        ("javascript", "x = `a\n${b(", "string", ""),
        ("javascript", 'x = a.replace(/[("]/g, [', None, "(["),
        ("javascript", "x = a / b / (", None, "("),
        ("rust", "fn f<'a>(x: &'a str) -> Foo<'a> {", None, "{"),
        ("rust", 'let x = r#"a " ( "#; (', None, "("),
        ("rust", "let c = '('; [", None, "["),
        ("cpp", 'auto x = R"(a " ( )"; {', None, "{"),
        ("c", "int x = 1'000; (", None, "("),
        ("c", "/* ( */ f(g[", None, "(["),
        ("go", "x := `a\n(` + f(", None, "("),
        ("java", 'String s = """\n  a " (\n  """ + f(', None, "("),
        ("c", "f( { }", None, "("),
        ("c", "{ f( }", None, ""),
        (None, "it's (", None, "("),
        (None, "'(' + \"[\" {", None, "{"),
    ],
)
def test_strings_comments_and_brackets(
    key: str | None, text: str, inside: str | None, brackets: str
) -> None:
    language = next((language for language in LANGUAGES if language.key == key), None)
    lexed = lex(text, len(text), language)
    assert (lexed.inside.quoted.kind if lexed.inside else None) == inside
    assert "".join(char for _, char in lexed.open_brackets) == brackets
