"""The embedded model: a causal base, and the denoiser that an adapter makes of it.

Owns how a model directory becomes two sets of weights, and what goes in and out of them: ids to
embeddings, hidden states to logits. Both sets share the head, which is also the embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from midfill_engine.calibration import Calibration, load_calibrations
from midfill_engine.errors import ModelUnsupported
from midfill_engine.model import transformer
from midfill_engine.model.adapter import Adapter
from midfill_engine.model.linear import FLOAT_TYPES, Linear, WeightFormat, make_linear
from midfill_engine.model.slab import Slab
from midfill_engine.model.transformer import LayerWeights, Segment, Weights
from midfill_engine.model.vocabulary import EMPTY, END_OF_TEXT, MASK, Vocabulary
from midfill_engine.model_files import (
    PROJECTIONS,
    ModelConfig,
    load_weights,
    read_config,
)
from midfill_engine.paths import adapter_path, model_dir


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedModel:
    """Everything that is needed to encode, denoise and score."""

    config: ModelConfig
    vocabulary: Vocabulary
    base: Weights
    denoiser: Weights
    adapter_io: Tensor  # [3, hidden]: embeddings of mask and empty, output row of empty
    calibrations: Mapping[str, Calibration]  # of the fills' confidences, by quality
    weights: WeightFormat

    @classmethod
    @torch.inference_mode()
    def load(cls, model: str, weights: WeightFormat, device: str = "cpu") -> EmbeddedModel:
        """Read a model by name or directory.

        Raises:
            ModelMissing, ModelCorrupt, ModelUnsupported: the files are not usable, or not so.
        """
        if weights == "int8" and device != "cpu":
            raise ModelUnsupported(f"int8 weights run on the CPU only, not on {device}")
        directory = model_dir(model)
        config = read_config(directory)
        vocabulary = Vocabulary.load(directory, device)
        adapter = Adapter.load(adapter_path(model), config, device)
        tensors = {
            name: torch.from_numpy(values).to(device) for name, values in load_weights(directory)
        }
        head = make_linear(tensors.pop("model.embed_tokens.weight"), weights, keep_rows=True)
        pairs = [
            _layer(config, tensors, adapter, index, weights)
            for index in range(config.num_hidden_layers)
        ]
        norm = tensors["model.norm.weight"]
        io = torch.stack((adapter.mask_embedding, adapter.empty_embedding, adapter.empty_output))
        dtype = _float_type(weights)
        return cls(
            config,
            vocabulary,
            Weights(config, tuple(base for base, _ in pairs), norm.to(dtype), head),
            Weights(
                config,
                tuple(adapted for _, adapted in pairs),
                adapter.norm(norm).to(dtype),
                head,
            ),
            io.to(dtype),
            load_calibrations(adapter_path(model)),
            weights,
        )

    @property
    def device(self) -> str:
        """Where it runs: "cpu" or "cuda:0"."""
        return str(self.adapter_io.device)

    def new_slab(self, capacity: int) -> Slab:
        """An empty slab where this model can use it."""
        return Slab.empty(self.config, capacity, self.device, self.adapter_io.dtype)

    def run_base(
        self, ids: Sequence[int], positions: Tensor, segments: Sequence[Segment]
    ) -> Tensor:
        """Hidden states of the base: [N, hidden] for N packed ids."""
        packed = torch.tensor(ids, device=self.device)
        return self._forward(self.base, self._embed(packed), positions.to(self.device), segments)

    def run_denoiser(
        self, ids: Sequence[int], positions: Tensor, segments: Sequence[Segment]
    ) -> Tensor:
        """Hidden states of the denoiser: [N, hidden]; ids may be mask or empty."""
        packed = torch.tensor(ids, device=self.device)
        x = self._embed(packed)
        x[packed == MASK] = self.adapter_io[0]
        x[packed == EMPTY] = self.adapter_io[1]
        return self._forward(self.denoiser, x, positions.to(self.device), segments)

    def base_logits(self, hidden: Tensor) -> Tensor:
        """[N, hidden] → [N, V] float32"""
        return self.base.head(hidden).float()

    def denoiser_logits(self, hidden: Tensor) -> Tensor:
        """[N, hidden] → [N, V] float32; tokens without text are ruled out, but for *empty*."""
        logits = self.denoiser.head(hidden).float()
        logits.index_fill_(1, self.vocabulary.never, -torch.inf)
        logits[:, EMPTY] = hidden @ self.adapter_io[2]
        return logits

    @torch.inference_mode()
    def warm_up(self) -> None:
        """One small pass of each kind, for what libraries set up on first use."""
        rows = 32
        segment = Segment(self.new_slab(rows), rows, 0, 0, None)
        positions = torch.arange(rows)
        self.base_logits(self.run_base([END_OF_TEXT] * rows, positions, [segment]))
        self.denoiser_logits(self.run_denoiser([MASK] * rows, positions, [segment]))

    @property
    def _forward(self) -> Callable[[Weights, Tensor, Tensor, Sequence[Segment]], Tensor]:
        if self.weights != "int8":
            return transformer.forward
        from midfill_engine.model import fused  # loads what it has compiled

        return fused.forward

    def _embed(self, ids: Tensor) -> Tensor:
        return self.base.head.rows(ids)


def _layer(
    config: ModelConfig,
    tensors: dict[str, Tensor],
    adapter: Adapter,
    index: int,
    weights: WeightFormat,
) -> tuple[LayerWeights, LayerWeights]:
    """One layer of the base and of the denoiser. Takes its tensors out of `tensors`."""
    prefix = f"model.layers.{index}."
    base = {letter: tensors.pop(f"{prefix}{name}.weight") for letter, name in PROJECTIONS.items()}
    adapted = {letter: adapter.matrix(w, index, letter) for letter, w in base.items()}
    norms = (
        tensors.pop(prefix + "input_layernorm.weight"),
        tensors.pop(prefix + "post_attention_layernorm.weight"),
    )
    return (
        _assemble(base, norms, weights),
        _assemble(adapted, adapter.layer_norms(*norms, index), weights),
    )


def _assemble(
    matrices: dict[str, Tensor], norms: tuple[Tensor, Tensor], weights: WeightFormat
) -> LayerWeights:
    def linear(letters: str) -> Linear:
        return make_linear(torch.cat([matrices[letter] for letter in letters]), weights)

    attention, feed_forward = (norm.to(_float_type(weights)) for norm in norms)
    return LayerWeights(
        attention, linear("qkv"), linear("o"), feed_forward, linear("gu"), linear("d")
    )


def _float_type(weights: WeightFormat) -> torch.dtype:
    """What activations are held in."""
    return FLOAT_TYPES.get(weights, torch.float32)
