"""What tells workers apart, and that there is one at a socket."""

from __future__ import annotations

import os
from pathlib import Path

from midfill_engine import endpoint as endpoint_module
from midfill_engine.endpoint import build, claim, endpoint_for


def test_the_build_stays_when_our_files_are_touched() -> None:
    """Or else an update in place would have one process start worker after worker."""
    before = build()
    module = Path(endpoint_module.__file__)
    moment = module.stat().st_mtime_ns
    try:
        module.touch()
        assert build() == before
    finally:
        os.utime(module, ns=(moment, moment))


def test_only_one_has_the_claim_until_it_lets_go(private_dirs: Path) -> None:
    endpoint = endpoint_for("embedded", "auto")
    first = claim(endpoint)
    assert first is not None
    assert claim(endpoint) is None
    other = claim(endpoint_for("embedded", "int8"))
    assert other is not None
    other.close()
    first.close()
    again = claim(endpoint)
    assert again is not None
    again.close()
