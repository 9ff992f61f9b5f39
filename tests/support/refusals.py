"""How a model that is not usable is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from midfill_engine.errors import ModelError


def check_refused(call: Callable[[], object], kind: type[ModelError], *words: str) -> None:
    """The call raises an error of just one line, which has all the words."""
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message
