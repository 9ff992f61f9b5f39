"""The indentation of a line that is still empty: the cursor is at the mark."""

from __future__ import annotations

import pytest

from midfill_infill import Edit, build_canvas, finish, hole_at

MARK = "‸"

SURE = {
    "between equals": ("python", "def f():\n    a = 1\n‸\n    return a\n", "    "),
    "below a head whose body is there": ("python", "if a:\n‸\n        b()\n", "        "),
    "below a docstring": ("python", 'def f():\n    """Says."""\n\n‸\n    return 1\n', "    "),
    "above a deeper line, it must open a block": (
        *("python", "def f():\n    a = 1\n‸\n        return a\n", "    "),
    ),
    "below a call of several lines": ("python", "def f():\n    g(\n  1\n)\n‸\n    h()\n", "    "),
    "below a string of several lines": (
        *("python", 'def f():\n    a = """b\nc"""\n‸\n    return a\n', "    "),
    ),
    "with blank lines around": ("python", "class A:\n\n    a = 1\n\n‸\n\n    b = 2\n", "    "),
    "above a brace": ("go", "func f() {\n\ta := 1\n‸\n}\n", "\t"),
    "between braces' lines": ("java", "class A {\n  int a;\n‸\n  int b;\n}\n", "  "),
    "at the start of a literal": (
        "python",
        "def f():\n    a = {\n‸\n        b: 1,\n    }\n",
        " " * 8,
    ),
    "below a deeper comment": (
        *("python", "def f():\n    a = 1\n        # x\n‸\n    return a\n", "    "),
    ),
    "below a deeper comment with blanks at its end": (
        *("python", "def f():\n    a = 1\n        # x  \n‸\n    return a\n", "    "),
    ),
    "below a comment beside every level": (
        *("python", "def f():\n    a = 1\n  # x\n‸\n    return a\n", "    "),
    ),
    "above a comment in the first column": (
        *("go", "func f() {\n\ta := 1\n‸\n// x\n\n// y\n\treturn a\n}\n", "\t"),
    ),
    "above a comment and a brace": ("go", "func f() {\n\ta := 1\n‸\n// x\n}\n", "\t"),
    "between deeper comments": (
        *("python", "def f():\n    a = 1\n        # x\n‸\n        # y\n    return a\n", "    "),
    ),
    "between comments of several lines": (
        *("c", "{\n    a();\n     /* x\ny */\n‸\n      /* x\n y */\n    b();\n}\n", "    "),
    ),
    "above code behind a comment": ("c", "{\n  a();\n‸\n  /* x */ b();\n}\n", "  "),
    "below a head, above a comment in the body": (
        *("python", "if a:\n‸\n      # x\n    b()\n", "    "),
    ),
    "below a comment on what follows a block": (
        *("python", "def f():\n    if a:\n        b()\n    # x\n‸\n    c()\n", "    "),
    ),
    "below a comment on what opens a block": (
        *("python", "class A:\n    def f():\n        a()\n\n    # x\n‸\n        b()\n", "    "),
    ),
    "the same, below lines that are no code": (
        "python",
        'class A:\n    def f():\n        """a\n  b"""\n# c\n        d()\n    # x\n‸\n        e()\n',
        "    ",
    ),
    "below code behind a string of several lines": (
        *("python", 'def f():\n    a = """b\n        c""" + d\n‸\n    return a\n', "    "),
    ),
    "below a call on a string of several lines": (
        *("python", 'def f():\n    """a\n  b""".c(\n  1\n)\n‸\n    return a\n', "    "),
    ),
    "below a label": ("go", "func f() {\n\tcase 1:  // one\n‸\n\t\tg()\n}\n", "\t\t"),
}
UNSURE = {
    "at the end of a block it may go on or end": ("python", "if a:\n    b()\n‸\nc()\n"),
    "below a comment in the first column": (
        *("python", "def f():\n    a = 1\n# x\n‸\n    return a\n"),
    ),
    "at the end of a block that a comment follows": (
        *("python", "if a:\n    b()\n‸\n    # x\nc()\n"),
    ),
    "at the end of the file, above a comment": ("python", "if a:\n    b()\n‸\n    # x\n"),
    "below nothing but a comment": ("python", "    # x\n‸\n    a\n"),
    "at the end of the file": ("python", "def f():\n    a = 1\n‸\n"),
    "at the file's start": ("python", "‸\n    a\n"),
    "within brackets": ("python", "f(\n    a,\n‸\n    b,\n)\n"),
    "in a string": ("python", 'a = """\n    b\n‸\n    c\n"""\n'),
    "where a person has indented": ("python", "def f():\n    a = 1\n  ‸\n    return a\n"),
    "where blanks stand behind": ("python", "def f():\n    a = 1\n‸  \n    return a\n"),
    "where no line is indented": ("python", "a = 1\n‸\nb = 2\n"),
    "in an empty literal": ("javascript", "function f() {\n  const a = {\n‸\n  };\n}\n"),
    "below the last label": ("c", "{\n  switch (a) {\n  case 1:\n‸\n  }\n}\n"),
    "in a chain of calls": ("javascript", "{\n  a\n‸\n    .b()\n    .c();\n}\n"),
    "in a statement that goes on": ("python", "def f():\n    a = b + \\\n‸\n        c\n"),
    "where the neighbours are aligned far out": (
        *("python", f"if a:\n{' ' * 65}b()\n‸\n{' ' * 65}c()\n"),
    ),
    "in a language that is not known": ("cobol", "a\n    b\n‸\n    c\n"),
}


def _lead(language: str, marked: str) -> str | None:
    cursor = marked.index(MARK)
    text = marked.replace(MARK, "")
    hole = hole_at(text, cursor, language)
    return build_canvas(text, hole, language).place.lead if hole else None


@pytest.mark.parametrize(("language", "marked", "lead"), SURE.values(), ids=SURE)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_sure(language: str, marked: str, lead: str, newline: str) -> None:
    assert _lead(language, marked.replace("\n", newline)) == lead


@pytest.mark.parametrize(("language", "marked"), UNSURE.values(), ids=UNSURE)
def test_unsure(language: str, marked: str) -> None:
    assert _lead(language, marked) == ""


FOUR = "def a():\n    b()\ndef c():\n    d()\n    e()\n    f()\n"  # the file's own indentation
KEPT = {
    "tabs in a file of spaces": FOUR + "def g():\n\th()\n‸\n\ti()\n",
    "a column beside a level": FOUR + "def g():\n   h()\n‸\n   i()\n",
    "below a string that ends in the first column": (
        FOUR + "class G:\n    def h():\n        i = '''j\nk'''\n‸\n        return i\n"
    ),
}


@pytest.mark.parametrize("marked", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("more", ["", "  "])
def test_filters_keep_it(marked: str, more: str) -> None:
    """In whatever blanks and however wide: the line joins its neighbours' block."""
    cursor, text = marked.index(MARK), marked.replace(MARK, "")
    hole = hole_at(text, cursor, "python")
    assert hole
    canvas = build_canvas(text, hole, "python")
    lead = canvas.place.lead
    edit = finish(f"{canvas.heal_left}{lead}{more}x = 1", text, canvas)
    assert isinstance(edit, Edit)
    assert edit.new_text == f"{lead}x = 1"
    compile(edit.apply(text), "", "exec")
