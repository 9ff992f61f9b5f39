"""The embedded model: a causal base, and the denoiser that an adapter makes of it.

Owns how a model directory becomes two sets of weights, and what goes in and out of them: ids to
embeddings, hidden states to logits. Both sets share the head, which is also the embedding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from midfill_engine.calibration import Calibration, load_calibrations
from midfill_engine.model.adapter import Adapter
from midfill_engine.model.linear import Linear, WeightFormat, make_linear
from midfill_engine.model.slab import Slab
from midfill_engine.model.transformer import LayerWeights, Segment, Weights, forward
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

    @classmethod
    @torch.inference_mode()
    def load(cls, model: str, weights: WeightFormat) -> EmbeddedModel:
        """Read a model by name or directory.

        Raises:
            ModelMissing, ModelCorrupt, ModelUnsupported: the files are not usable.
        """
        directory = model_dir(model)
        config = read_config(directory)
        vocabulary = Vocabulary.load(directory)
        adapter = Adapter.load(adapter_path(model), config)
        tensors = {name: torch.from_numpy(value) for name, value in load_weights(directory)}
        head = make_linear(tensors.pop("model.embed_tokens.weight"), weights, keep_rows=True)
        pairs = [
            _layer(config, tensors, adapter, index, weights)
            for index in range(config.num_hidden_layers)
        ]
        norm = tensors["model.norm.weight"]
        return cls(
            config,
            vocabulary,
            Weights(config, tuple(base for base, _ in pairs), norm, head),
            Weights(config, tuple(adapted for _, adapted in pairs), adapter.norm(norm), head),
            torch.stack((adapter.mask_embedding, adapter.empty_embedding, adapter.empty_output)),
            load_calibrations(adapter_path(model)),
        )

    def run_base(
        self, ids: Sequence[int], positions: Tensor, segments: Sequence[Segment]
    ) -> Tensor:
        """Hidden states of the base: [N, hidden] for N packed ids."""
        return forward(self.base, self._embed(torch.tensor(ids)), positions, segments)

    def run_denoiser(
        self, ids: Sequence[int], positions: Tensor, segments: Sequence[Segment]
    ) -> Tensor:
        """Hidden states of the denoiser: [N, hidden]; ids may be mask or empty."""
        packed = torch.tensor(ids)
        x = self._embed(packed)
        x[packed == MASK] = self.adapter_io[0]
        x[packed == EMPTY] = self.adapter_io[1]
        return forward(self.denoiser, x, positions, segments)

    def base_logits(self, hidden: Tensor) -> Tensor:
        """[N, hidden] → [N, V]"""
        return self.base.head(hidden)

    def denoiser_logits(self, hidden: Tensor) -> Tensor:
        """[N, hidden] → [N, V], in which tokens without text are ruled out, but for *empty*."""
        logits = self.denoiser.head(hidden)
        logits.index_fill_(1, self.vocabulary.never, -torch.inf)
        logits[:, EMPTY] = hidden @ self.adapter_io[2]
        return logits

    @torch.inference_mode()
    def warm_up(self) -> None:
        """One small pass of each kind, for what libraries set up on first use."""
        rows = 32
        segment = Segment(Slab.empty(self.config, rows), rows, 0, 0, None)
        positions = torch.arange(rows)
        self.base_logits(self.run_base([END_OF_TEXT] * rows, positions, [segment]))
        self.denoiser_logits(self.run_denoiser([MASK] * rows, positions, [segment]))

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

    return LayerWeights(norms[0], linear("qkv"), linear("o"), norms[1], linear("gu"), linear("d"))
