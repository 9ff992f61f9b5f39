"""Which model a name or a directory means, where it runs, and how its weights are held.

Owns that choice. A person may make it for the device, with `MIDFILL_DEVICE`.
"""

from __future__ import annotations

import os
from typing import Final

import psutil
import torch

from midfill_engine.checkpoint import is_checkpoint, read_checkpoint
from midfill_engine.client import WeightChoice
from midfill_engine.errors import ModelUnsupported
from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.full_attention import FullAttentionModel
from midfill_engine.model.linear import WeightFormat, best_format
from midfill_engine.paths import model_dir

_DEVICE: Final = "MIDFILL_DEVICE"
_BESIDES: Final = 1.25  # times the weights: what a model takes in all


def load_model(model: str, weights: WeightChoice) -> EmbeddedModel | FullAttentionModel:
    """Read a model and run it once: the first pass of a process takes several times as long.

    Raises:
        ModelMissing, ModelCorrupt, ModelUnsupported: it is not usable as asked.
    """
    directory = model_dir(model)
    if is_checkpoint(directory):
        device = _device("cuda" if torch.cuda.is_available() else "cpu")
        held = _checkpoint_format(read_checkpoint(directory).parameters, device)
        loaded: EmbeddedModel | FullAttentionModel = FullAttentionModel.load(
            directory, held if weights == "auto" else weights, device
        )
    else:
        device = _device("cpu")
        fast: WeightFormat = best_format() if device == "cpu" else "bfloat16"
        loaded = EmbeddedModel.load(model, fast if weights == "auto" else weights, device)
    loaded.warm_up()
    return loaded


def _device(default: str) -> str:
    """Where models run: `$MIDFILL_DEVICE`, else `default`."""
    device = os.environ.get(_DEVICE) or default
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise ModelUnsupported(f"{_DEVICE}={device}: there is no such device") from error
    if kind not in ("cpu", "cuda"):
        raise ModelUnsupported(f"{_DEVICE}={device}: models run on cpu and on cuda")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ModelUnsupported(f"{_DEVICE}={device}: torch finds no CUDA device here")
    return device


def _checkpoint_format(parameters: int, device: str) -> WeightFormat:
    """bfloat16 on a graphics card; on the CPU float32, which is faster there, if it has room."""
    if device != "cpu":
        return "bfloat16"
    roomy = psutil.virtual_memory().available > _BESIDES * 4 * parameters
    return "float32" if roomy else "bfloat16"
