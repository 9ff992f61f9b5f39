"""Masked-diffusion models with full attention: transformers' own classes, without a causal mask.

Owns how a checkpoint becomes a model, what stands around a canvas, and the pass over several
canvases of any length at once: packed into one row, each attending to its own context alone.
Knows nothing of requests. No code of a checkpoint is ever run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from midfill_engine.checkpoint import TRANSFORMERS_MISSING, Checkpoint, read_checkpoint
from midfill_engine.errors import ModelCorrupt, ModelUnsupported
from midfill_engine.model.attention import Block, attention
from midfill_engine.model.checkpoint_vocabulary import load_vocabulary
from midfill_engine.model.dual_cache import DualCache
from midfill_engine.model.linear import FLOAT_TYPES, WeightFormat
from midfill_engine.model.vocabulary import EMPTY, MASK, Vocabulary

ATTENTION: Final = "midfill_packed"  # our name in transformers' registry of attention functions
PASS_ROWS: Final = 8192  # what has room beside 7 billion parameters on a card of 24 GB


@dataclass(frozen=True, slots=True)
class Frame:
    """The fixed ids around a canvas, whatever begins and ends a text included."""

    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Canvas:
    """Ids in a frame, masks among them, and the positions whose tokens are to be predicted."""

    frame: Frame
    ids: Sequence[int]  # as the vocabulary has them
    wanted: Sequence[int]  # positions in `ids`
    cache: DualCache | None = None  # None: exact, everything runs


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One canvas's rows in a pass."""

    rows: slice
    cache: DualCache | None
    stores: bool  # the pass fills the cache, else it reads it
    outside: Tensor | None  # which of the rows a filled cache keeps


class FullAttentionModel:
    """A checkpoint of one of `families`, ready to run."""

    def __init__(
        self, checkpoint: Checkpoint, backbone: Any, vocabulary: Vocabulary, weights: WeightFormat
    ) -> None:
        self.checkpoint = checkpoint
        self.vocabulary = vocabulary
        self.weights = weights
        self.device = str(backbone.device)
        self._backbone = backbone
        special = checkpoint.special
        framed = checkpoint.family.framed
        start = special.bos if special.bos is not None else special.eos
        theirs = {ours: real for real, ours in vocabulary.moved.items()}
        self._start = (start,) if framed else ()
        self._end = (special.eos,) if framed else ()
        self._theirs = theirs
        moved = sorted(theirs.items())
        self._ours_moved = torch.tensor([ours for ours, _ in moved], device=self.device)
        self._theirs_moved = torch.tensor([real for _, real in moved], device=self.device)
        ruled_out = set(vocabulary.never.tolist()) - set(vocabulary.length_moves)
        if vocabulary.expand is None:
            ruled_out.discard(EMPTY)
        self._ruled_out = torch.tensor(sorted(ruled_out), device=self.device)

    @classmethod
    @torch.inference_mode()
    def load(cls, directory: Path, weights: WeightFormat, device: str) -> FullAttentionModel:
        """Read a checkpoint.

        Raises:
            ModelMissing, ModelCorrupt, ModelUnsupported: it is not usable; the message says why.
        """
        if weights == "int8":
            raise ModelUnsupported("a checkpoint is run in float32 or bfloat16, not in int8")
        checkpoint = read_checkpoint(directory)
        if find_spec("transformers") is None:
            raise ModelUnsupported(f"{directory}: {TRANSFORMERS_MISSING}")
        vocabulary = load_vocabulary(checkpoint, device)
        backbone = _backbone(checkpoint, FLOAT_TYPES[weights], device)
        return cls(checkpoint, backbone, vocabulary, weights)

    @property
    def bytes_per_token(self) -> int:
        """What the keys and values of one token take."""
        return self.checkpoint.key_value_numbers * FLOAT_TYPES[self.weights].itemsize

    def open(self, prefix: Sequence[int], suffix: Sequence[int]) -> Frame:
        """What stands around every canvas between `prefix` and `suffix`, as the vocabulary has
        them."""
        return Frame(
            (*self._start, *self._real(prefix)),
            (*self._real(suffix), *self._end),
        )

    def rows(self, canvas: Canvas) -> int:
        """How many rows the next pass over a canvas has."""
        if self._reads_cache(canvas):
            return self._lead + len(canvas.ids)
        return len(canvas.frame.before) + len(canvas.ids) + len(canvas.frame.after)

    def logits(self, canvases: Sequence[Canvas]) -> list[Tensor]:
        """One pass over all canvases, or several where they have more than `PASS_ROWS` rows.

        Returns:
            For each, [wanted, V] float32 in the vocabulary's order. Tokens without text are ruled
            out, but for *empty*, or the length moves where the model has them.
        """
        groups: list[list[Canvas]] = [[]]
        room = PASS_ROWS
        for canvas in canvases:
            rows = self.rows(canvas)
            if rows > room and groups[-1]:
                groups.append([])
                room = PASS_ROWS
            groups[-1].append(canvas)
            room -= rows
        return [part for group in groups for part in self._pass(group)]

    def _pass(self, canvases: Sequence[Canvas]) -> list[Tensor]:
        ids: list[int] = []
        positions: list[int] = []
        outputs: list[int] = []
        parts = []
        for canvas in canvases:
            part, part_ids, part_positions, first = self._part(canvas, len(ids))
            parts.append(part)
            outputs += [len(ids) + first + i for i in canvas.wanted]
            ids += part_ids
            positions += part_positions
        hidden = self._backbone.model(
            input_ids=torch.tensor([ids], device=self.device),
            position_ids=torch.tensor([positions], device=self.device),
            use_cache=False,
            packed=parts,
        ).last_hidden_state[0]
        every = self._backbone.lm_head(hidden[torch.tensor(outputs, device=self.device)])
        return list(torch.split(self._ordered(every), [len(c.wanted) for c in canvases]))

    @torch.inference_mode()
    def warm_up(self) -> None:
        """One small pass, for what libraries set up on first use."""
        self.logits([Canvas(self.open([], []), [MASK] * 8, range(8))])

    def _part(self, canvas: Canvas, start: int) -> tuple[_Part, Sequence[int], Sequence[int], int]:
        """A canvas's rows: ids, positions, and the row that predicts its position 0.

        A step that reads the cache runs the canvas alone, and in a shifted model the row before
        it, whose output is its first prediction.
        """
        frame, cache = canvas.frame, canvas.cache
        real = self._real(canvas.ids)
        length = len(frame.before)
        lead = self._lead
        stop = length + len(real)
        if cache is not None and self._reads_cache(canvas):
            cache.grow_older()
            ids: Sequence[int] = (*frame.before[length - lead :], *real)
            rows = slice(start, start + len(ids))
            return _Part(rows, cache, False, None), ids, range(length - lead, stop), 0
        ids = (*frame.before, *real, *frame.after)
        outside = None
        if cache is not None:
            cache.start_anew(canvas.ids, MASK)
            kept = [*range(length - lead), *range(stop, len(ids))]
            outside = torch.tensor(kept, device=self.device)
        rows = slice(start, start + len(ids))
        return _Part(rows, cache, True, outside), ids, range(len(ids)), length - lead

    @property
    def _lead(self) -> int:
        """How many rows before a canvas predict its positions."""
        return 1 if self.checkpoint.family.shifted else 0

    def _reads_cache(self, canvas: Canvas) -> bool:
        return canvas.cache is not None and not canvas.cache.is_due(canvas.ids, MASK)

    def _real(self, ids: Sequence[int]) -> list[int]:
        """Ids as the checkpoint has them."""
        return [self._theirs.get(i, i) for i in ids]

    def _ordered(self, logits: Tensor) -> Tensor:
        """Columns as the vocabulary has them."""
        ordered = logits[:, : self.vocabulary.size].float()
        if len(self._ours_moved):
            ordered[:, self._ours_moved] = logits[:, self._theirs_moved].float()
        ordered.index_fill_(1, self._ruled_out, -torch.inf)
        return ordered


def _backbone(checkpoint: Checkpoint, dtype: torch.dtype, device: str) -> Any:
    """Transformers' model with the checkpoint's weights."""
    import transformers

    family = checkpoint.family
    config = backbone_config(checkpoint)
    model_class: Any = {
        "qwen2": transformers.Qwen2ForCausalLM,
        "llama": transformers.LlamaForCausalLM,
    }[family.backbone]
    register_attention()
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    backbone, report = model_class.from_pretrained(
        checkpoint.directory,
        config=config,
        dtype=dtype,
        key_mapping=dict(family.renames) or None,
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
        attn_implementation=ATTENTION,
        output_loading_info=True,
    )
    lacking = sorted(report["missing_keys"]) + sorted(map(str, report["mismatched_keys"]))
    if lacking:
        raise ModelCorrupt(f"{checkpoint.directory}: not loaded: {', '.join(lacking[:3])}")
    return backbone.to(device).eval()


def backbone_config(checkpoint: Checkpoint) -> Any:
    """Transformers' configuration of a checkpoint's backbone, without a causal mask."""
    import transformers

    config_class = {"qwen2": transformers.Qwen2Config, "llama": transformers.LlamaConfig}
    config = config_class[checkpoint.family.backbone](**checkpoint.config)
    config.is_causal = False
    return config


def register_attention() -> None:
    """Make our attention known to transformers, which hands it the pass's parts."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, _attend)


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed: Sequence[_Part],
    **_: Any,
) -> tuple[Tensor, None]:
    """One layer's attention: query [1, H, N, D], key and value [1, Hkv, N, D] → [1, N, H, D]."""
    blocks = []
    for part in packed:
        keys, values = key[0, :, part.rows], value[0, :, part.rows]
        count = keys.shape[1]
        if part.cache is not None and part.stores:
            part.cache.keys.append(keys[:, part.outside])
            part.cache.values.append(values[:, part.outside])
        elif part.cache is not None:
            layer = module.layer_idx
            keys = torch.cat((part.cache.keys[layer], keys), 1)
            values = torch.cat((part.cache.values[layer], values), 1)
        blocks.append(Block(count, keys, values))
    return attention(query[0].transpose(0, 1), blocks)[None], None
