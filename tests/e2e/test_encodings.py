"""What an editor holds after a fill, in all three position encodings."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types
from support.editor import Encoding, editor
from support.homes import Home, new_home
from support.wordy_model import write_line_breaking_model

ENCODINGS = (Encoding.Utf8, Encoding.Utf16, Encoding.Utf32)
LINE_ENDS = ("\n", "\r\n")
SELECTIONS = (
    "x = 'é🎉漢' + «value»\n",
    "def f(a):\n    return '👩‍👩‍👧', «a + 1»  # 漢字\n",
    "print('漢字 🎉', «1», '🎉')\n",
    "# 🎉\ndef f(a):\n    «pass»\n\n\nprint('漢')\n",
    "names = ['🎉', «'漢',\n         '字'»]\nlast = '🎉'",
    "s = '🎉漢«字🎉»漢'\n",
)
CARETS = (
    "x = 'é🎉漢' + ▸\ny = '🎉'\n",
    "print('漢字 🎉', ▸)\n",
    "print('漢字 🎉', va▸)\n",
    "def f(a):\n    return '👩‍👩‍👧' + a.▸\n\n\nf('漢')",
)


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_selections_are_filled_and_nothing_else_is(
    shared_home: Home, encoding: Encoding
) -> None:
    async with editor(shared_home, encoding=encoding) as ed:
        for number, marked in enumerate(SELECTIONS):
            for line_end in LINE_ENDS:
                before, selected, after = _parts(marked.replace("\n", line_end), "«", "»")
                uri = f"file:///project/{number}{len(line_end)}.py"
                buffer = ed.open(before + selected + after, uri=uri)
                result = await ed.fill(len(before), len(before + selected), uri=uri)
                assert result == {"applied": True}, (marked, result)
                _check_outside(buffer.text, before, after)
                assert _inside(buffer.text, before, after) not in (selected, "")
        assert not ed.messages


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_completions_go_in_at_the_caret(shared_home: Home, encoding: Encoding) -> None:
    async with editor(shared_home, encoding=encoding) as ed:
        for number, marked in enumerate(CARETS):
            for line_end in LINE_ENDS:
                before, after = marked.replace("\n", line_end).split("▸")
                uri = f"file:///project/{number}{len(line_end)}.py"
                buffer = ed.open(before + after, uri=uri)
                items = await ed.complete(len(before), uri=uri)
                assert items, marked
                caret = buffer.position(len(before))
                for item in items:
                    assert item.range == types.Range(caret, caret)
                assert items[0].range is not None
                assert isinstance(items[0].insert_text, str)
                buffer.replace(items[0].range, items[0].insert_text)
                assert buffer.text == before + items[0].insert_text + after


async def test_lines_of_a_fill_end_as_those_of_the_file_do(tmp_path: Path) -> None:
    with new_home(write_line_breaking_model(tmp_path)) as home:
        async with editor(home) as ed:
            for number, line_end in enumerate(LINE_ENDS):
                marked = "漢字:\n🎉 «one\nor more\nlines» 🎉\n漢字\n".replace("\n", line_end)
                before, selected, after = _parts(marked, "«", "»")
                uri = f"file:///project/{number}.txt"
                buffer = ed.open(before + selected + after, uri=uri, language="plaintext")
                result = await ed.fill(len(before), len(before + selected), uri=uri)
                assert result == {"applied": True}
                _check_outside(buffer.text, before, after)
                lines = _inside(buffer.text, before, after).split(line_end)
                assert len(lines) > 1
                assert "".join(lines).isprintable()  # no other line end is among them


def _parts(marked: str, opening: str, closing: str) -> tuple[str, str, str]:
    before, _, rest = marked.partition(opening)
    selected, _, after = rest.partition(closing)
    return before, selected, after


def _check_outside(text: str, before: str, after: str) -> None:
    assert text.encode().startswith(before.encode())
    assert text.encode().endswith(after.encode())
    assert len(text) >= len(before) + len(after)


def _inside(text: str, before: str, after: str) -> str:
    return text[len(before) : len(text) - len(after)]
