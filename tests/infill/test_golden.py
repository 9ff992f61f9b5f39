"""Each filter by itself, and all in order, on the cases in `golden/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from midfill_infill import FILTERS, Dropped, Filter


@pytest.mark.parametrize("apply", FILTERS, ids=lambda apply: apply.__name__)
def test_filter(
    apply: Filter, marked: Callable[..., Any], check_golden: Callable[..., None]
) -> None:
    def run(case: dict[str, Any]) -> list[str] | None:
        canvas = marked("\n".join(case["text"]), case["language"]).canvas
        got = apply("\n".join(case["fill"]), canvas)
        return None if got is None else got.split("\n")

    check_golden(apply.__name__, run)


def test_finish(marked: Callable[..., Any], check_golden: Callable[..., None]) -> None:
    def run(case: dict[str, Any]) -> list[str] | dict[str, str]:
        got = marked("\n".join(case["text"]), case["language"]).fill("\n".join(case["fill"]))
        return {"dropped": got.reason} if isinstance(got, Dropped) else got.split("\n")

    check_golden("finish", run)
