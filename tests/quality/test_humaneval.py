"""What the embedded model gets right of a few of HumanEval's missing lines.

One check from end to end, through a real worker. `midfill eval` is the measurement.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from midfill_engine.progress import silent
from midfill_lsp.evaluation.figures import against
from midfill_lsp.evaluation.running import Size, choose, run
from midfill_lsp.evaluation.systems import BASE

HOLES = 24

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.timeout(3600),
    pytest.mark.usefixtures("embedded_dir"),
]


def test_ranked_drafts_beat_the_base(tmp_path: Path) -> None:
    chosen = choose(Size(humaneval=HOLES, held_out=0, complete=0), 0, tmp_path, lambda line: None)
    evaluation = asyncio.run(run(chosen.problems, ("balanced",), "embedded", silent))
    outcomes = evaluation.outcomes
    found = against(outcomes["balanced"], outcomes[BASE])
    assert found.passed is not None
    print(f"\n{HOLES} holes, pass@1: {found.passed}")
    assert found.passed.difference.value > 0
