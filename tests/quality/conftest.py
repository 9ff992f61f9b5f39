"""How many holes the quality suite takes."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--holes", type=int, default=24, help="holes of the quality suite, up to 411")
