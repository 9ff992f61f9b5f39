"""int8 products on processors of several kinds, which oneDNN is told to take this one for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from midfill_engine.model.linear import best_format

# With the largest numbers there are, so that whatever can overflow does; as pairs of both signs.
# Sums stay below 2^24 with ZERO's share in them: exact however a kernel takes that off again.
_SCRIPT = """
import torch
from midfill_engine.model.linear import LEVELS, ZERO, make_linear

torch.manual_seed(0)
for rows, width, out in ((2, 576, 960), (8, 1024, 576), (52, 576, 3072)):
    weight = torch.randint(-127, 128, (out, width)).float()
    weight[:4] = 127
    weight[2:4] = -127
    weight[:, 0] = 127  # so that all scales are 1
    x = torch.randint(-LEVELS, LEVELS + 1, (rows, width))
    x[0], x[1] = LEVELS, -LEVELS
    product = make_linear(weight, "int8").product((x + ZERO).to(torch.uint8))
    exact = x.double() @ weight.double().t()
    assert torch.equal(product.double(), exact), (product - exact).abs().max()
"""


@pytest.mark.parametrize("isa", ["AVX2", "AVX2_VNNI", "AVX512_CORE", "AVX512_CORE_VNNI", "ALL"])
def test_products_are_exact_and_fast_on_older_processors(isa: str) -> None:
    """oneDNN names what it runs; its reference code, a hundred times slower, is called `ref`."""
    if best_format() != "int8":
        pytest.skip("int8 weights are for x86 processors with AVX2")
    run = subprocess.run(
        [sys.executable, "-I", "-c", _SCRIPT],
        env=os.environ | {"ONEDNN_MAX_CPU_ISA": isa, "ONEDNN_VERBOSE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    lines = [line.split(",") for line in run.stdout.splitlines() if ",exec,cpu," in line]
    products = [fields for fields in lines if "inner_product" in fields or "matmul" in fields]
    kinds = {fields[fields.index("cpu") + 2] for fields in products}
    assert kinds
    assert not [kind for kind in kinds if "ref" in kind], kinds
