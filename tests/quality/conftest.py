"""How much the quality suite does."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--holes", type=int, default=24, help="holes of the quality suite, up to 411")
    parser.addoption(
        "--qualities", default="balanced", help="settings it compares, with commas; balanced is one"
    )
