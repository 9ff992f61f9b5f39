"""What people complained about in other tools must not happen here. One test each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from midfill_infill import Dropped

Check = Callable[..., None]


def test_a_bracket_typed_ahead_is_not_doubled(check: Check) -> None:
    check("def foo($0)", "def foo(bar: str)", fill="bar: str):")


def test_what_follows_in_mid_word_does_not_leak(check: Check) -> None:
    check("prin$0t(x)", "print_all_print(x)", fill="t_all_prin")
    check("prin$0t(x)", Dropped("empty"), fill="")


def test_text_just_below_is_not_repeated(check: Check) -> None:
    below = "def f(a):\n    $0\n    return compute(a)\n"
    check(below, Dropped("repeated_lines"), fill="return compute(a)")


def test_several_lines_stop_at_the_text_below(check: Check) -> None:
    check(
        "def f(a):\n«    pass\n»    return compute(a)\n",
        "def f(a):\n    a += 1\n    return compute(a)\n",
        fill="a += 1\n    return compute(a)\n",
    )


def test_indentation_is_not_off_by_one(check: Check) -> None:
    check(
        "def f():\n    x\n\ndef g():$0\n",
        "def f():\n    x\n\ndef g():\n    a\n    b\n",
        fill="\n     a\n   b",
    )


def test_no_stray_blank_in_front(check: Check) -> None:
    check("def f():\n    x = 1\n    $0\n", "def f():\n    x = 1\n    y = 2\n", fill=" y = 2")
    check("foo($0)", "foo(bar)", fill=" bar")


def test_tabs_do_not_become_spaces(check: Check) -> None:
    check(
        "func f() {\n\tx()\n}\n\nfunc g() {$0\n}\n",
        "func f() {\n\tx()\n}\n\nfunc g() {\n\tif a {\n\t\tb()\n\t}\n}\n",
        fill="\n    if a {\n        b()\n    }",
        language="go",
    )


@pytest.mark.parametrize("text", ["μ", "Привет", "漢字", "😀", "e\u0301", "👩‍👩‍👧"])
def test_no_crash_on_any_script(check: Check, text: str) -> None:
    check(f"s = '{text}'\nt = $0  # {text}\n", f"s = '{text}'\nt = s  # {text}\n", fill="s")
    check(f"s = '{text}$0'\n", f"s = '{text}{text}'\n", fill=text)


def test_no_carriage_returns_are_lost_or_added(check: Check) -> None:
    check(
        "def f():$0\r\n\r\nx\r\n", "def f():\r\n    a\r\n    b\r\n\r\nx\r\n", fill="\n    a\n    b"
    )
    check("def f():$0\n\nx\n", "def f():\n    a\n    b\n\nx\n", fill="\r\n    a\r\n    b")


def test_a_mixed_file_stays_as_it_is(check: Check) -> None:
    check("a\rb\r\nc = $0\nd\r\n", "a\rb\r\nc = 1\nd\r\n", fill="1")


def test_accepting_deletes_nothing_that_was_typed(check: Check) -> None:
    check("foo($0  )  \n", "foo(bar  )  \n", fill="bar")
    check("x = $0;", "x = 5;", fill="5;", language="c")


@pytest.mark.parametrize(
    "sentinel", ["<|endoftext|>", "<fim_middle>", "<｜fim▁end｜>", "<|im_end|>", "<file_sep>", "\0"]
)
def test_sentinels_never_reach_the_text(check: Check, sentinel: str) -> None:
    check("x = $0\n", "x = 1\n", fill=f"1{sentinel}junk")
    check("x = $0\n", Dropped("empty"), fill=sentinel)


def test_a_byte_order_mark_stays_in_front(check: Check) -> None:
    check("\ufeff$0\n", "\ufeffimport os\n", fill="import os")


def test_only_sound_code_is_shown(check: Check) -> None:
    check("def f():\n    return $0\n", Dropped("left_open"), fill="foo(1, [2")
    check("def f():\n    return $0\n", Dropped("parse_check"), fill="1 2 3")


@pytest.mark.parametrize(
    ("language", "text", "kept", "dropped"),
    [
        ("python", "$0\n    a()\nexcept E:\n    b()\n", "try:", "b = v"),
        ("python", "$0\n    1: 2,\n}\n", "t = {", "t = 1"),
        ("python", "x = f($0\n", "a)", "a"),
        ("python", "x = f($0\n", "a,", "a, b"),  # more may follow in a new line
        ("javascript", "$0\n  hour: n,\n};\n", "const a = {", "const a"),
        ("go", "$0\n\tswitch f {\n\t}\n}\n", "func g() {", "var g int"),
    ],
)
def test_what_the_code_lacks_is_not_left_out(
    check: Check, language: str, text: str, kept: str, dropped: str
) -> None:
    check(text, text.replace("$0", kept), fill=kept, language=language)
    check(text, Dropped("parse_check"), fill=dropped, language=language)


@pytest.mark.parametrize(
    ("language", "text", "fill"),
    [
        ("javascript", "function f(a) {\n  const x = $0\n", "a + 1;"),
        ("javascript", "function f(a) {\n  const x = $0\n\nfunction g() {\n}\n", "a + 1;"),
        ("typescript", "interface A {\n  a: $0\n", "string;"),
        ("typescript", "export class A {\n  private a: $0\n", "string;"),
        ("go", "package a\n\nfunc f(a int) int {\n\treturn $0\n", "a + 1"),
        ("go", "package a\n\ntype T struct {\n\tA $0\n", "int"),
        ("java", "class A {\n  int f(int a) {\n    return $0\n\n  int g() {\n  }\n}\n", "a + 1;"),
        ("python", "f(\n    a,\n    $0\n", "b"),
        ("python", "CONFIG = {\n    'a': 1,\n    'b': $0\n", "2"),
    ],
)
def test_brackets_that_a_person_closes_later_are_no_reason_to_offer_nothing(
    check: Check, language: str, text: str, fill: str
) -> None:
    check(text, text.replace("$0", fill), fill=fill, language=language)


def test_no_blanks_are_left_at_line_ends(check: Check) -> None:
    check("def f():$0\n", "def f():\n    a\n\n    b\n", fill="\n    a  \n    \n    b   \n  \n")


def test_nothing_is_offered_instead_of_a_loop(check: Check) -> None:
    check("x = $0\n", Dropped("loop"), fill="self.x.self.x.self.x.self.x.self.x.self.x")
