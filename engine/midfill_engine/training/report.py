"""What goes with an adapter that is kept: how it was trained, and on what.

Owns the form of that report: a curve, tables, and the manifest of the corpus. All of it is read
from the run's log, the adapter's own metadata and the corpus's manifest.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from midfill_engine.adapter_file import AdapterInfo, read_info
from midfill_engine.errors import TrainingError, TrainingFailed
from midfill_engine.training.corpus import MANIFEST, Corpus
from midfill_engine.training.run_log import RunLog

_ADAPTER: Final = "adapter-best.safetensors"
_FIGURES: Final = {  # by the log's name
    "masked": "masked view",
    "left_edge": "left edge",
    "causal_token": "causal view",
}
_HELD_OUT: Final = """\
Cross-entropy in nats, on windows of packages that nothing was learnt from. Masked view: all masked
tokens. Left edge: the first of them, where all before it is known. Causal view: the tokens of the
hole from left to right, with the suffix."""
_MOST_ROWS: Final = 24

Entry = dict[str, Any]


def write_report(run: Path, corpus: Path, out: Path) -> None:
    """Write README.md, curve.svg and manifest.json of the run in `run` into the folder `out`.

    Raises:
        TrainingError: there is no log of validations, or the corpus is not that of the run.
        TrainingFailed: matplotlib is not installed.
        ModelMissing, ModelCorrupt: there is no adapter, or it is damaged.
    """
    entries = RunLog(run / "log.jsonl").read()
    steps = [entry for entry in entries if entry["kind"] == "step"]
    if not steps:
        raise TrainingError(f"{run / 'log.jsonl'} has no validation after the start")
    sha256 = Corpus.open(corpus).sha256
    if sha256[:12] != steps[-1]["corpus"]:
        raise TrainingError(f"{corpus} is {sha256[:12]}; the run's is {steps[-1]['corpus']}")
    info = read_info(run / _ADAPTER)
    manifest = json.loads((corpus / MANIFEST).read_bytes())
    out.mkdir(parents=True, exist_ok=True)
    draw_curve(entries, out / "curve.svg")
    shutil.copyfile(corpus / MANIFEST, out / MANIFEST)
    (out / "README.md").write_text(_readme(out.name, entries, info, manifest))


def draw_curve(entries: Sequence[Entry], path: Path) -> None:
    """Draw held-out losses over hole tokens, the base's and the start's as horizontal lines.

    Raises:
        TrainingFailed: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise TrainingFailed("a curve needs matplotlib: pip install 'midfill[plots]'") from error
    steps = [entry for entry in entries if entry["kind"] == "step"]
    unit, name = _unit(steps[-1]["hole_tokens"])
    figure = Figure(figsize=(7.2, 8.4), layout="constrained")
    axes = figure.subplots(len(_FIGURES), 1, sharex=True)
    for ax, (key, title) in zip(axes, _FIGURES.items(), strict=True):
        curve = [(0, _one(entries, "start", key)), *((e["hole_tokens"], e[key]) for e in steps)]
        x, y = zip(*[(t / unit, v) for t, v in curve if v is not None], strict=True)
        ax.plot(x, y, color="#1f6fb2", linewidth=1.6, marker="o", markersize=3)
        low, high = min(y), max(y)
        for kind, colour in (("base", "#b2421f"), ("start", "#777777")):
            value = _one(entries, kind, key)
            if value is None:
                continue
            in_reach = value < high + 2 * (high - low + 0.05)
            if in_reach:
                ax.axhline(value, color=colour, linestyle="--", linewidth=1)
            where = "" if in_reach else " (above)"
            ax.plot([], [], color=colour, linestyle="--", linewidth=1,
                    label=f"{kind}: {value:.3f}{where}")  # fmt: skip
        ax.plot([], [], color="#1f6fb2", marker="o", markersize=3, label=f"now: {y[-1]:.3f}")
        ax.set_title(title, fontsize=10, loc="left")
        ax.set_ylabel("cross-entropy, nats", fontsize=9)
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(fontsize=8, frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 1))
    axes[-1].set_xlabel(f"hole tokens learnt from, {name}", fontsize=9)
    with mpl.rc_context({"svg.hashsalt": "midfill", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def _unit(most: int) -> tuple[float, str]:
    return (1e6, "millions") if most >= 2e6 else (1e3, "thousands")


def _one(entries: Sequence[Entry], kind: str, key: str) -> float | None:
    return next((entry.get(key) for entry in entries if entry["kind"] == kind), None)


def _readme(
    name: str, entries: Sequence[Entry], info: AdapterInfo, manifest: dict[str, Any]
) -> str:
    recipe = info.recipe
    facts = {
        "adapter": f"`{info.sha256}` (of its tensors), rank {info.rank}",
        "base": f"`{info.base_sha256}` (of its GGUF)",
        "started from": f"`{recipe['started_from']}`" if recipe["started_from"] else "the base",
        "steps": f"{recipe['steps']:,}",
        "hole tokens learnt from": f"{recipe['hole_tokens']:,}",
        "corpus": f"`{manifest['sha256']}`, {manifest['tokens']:,} tokens",
    }
    parts = [
        f"# {name}",
        "![Held-out losses over hole tokens](curve.svg)",
        _table(("what", ""), list(facts.items())),
        "## Held-out losses",
        _HELD_OUT,
        _table(
            ("", "steps", "hole tokens", "hours", *_FIGURES.values()),
            [_row(entry) for entry in _thinned(entries)],
        ),
        "## Settings",
        _table(("setting", "value"), [(f"`{k}`", f"`{v}`") for k, v in recipe["settings"].items()]),
        "## Packages",
        _table(
            ("package", "version", "licence", "files", ""),
            [
                (p["name"], p["version"], p["licence"], p["files"], "held out" * p["validation"])
                for p in manifest["packages"]
            ],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _thinned(entries: Sequence[Entry]) -> list[Entry]:
    """The base, the start, and no more than some validations, the last among them."""
    steps = [entry for entry in entries if entry["kind"] == "step"]
    every = -(-len(steps) // _MOST_ROWS)
    return [e for e in entries if e["kind"] != "step"] + steps[::-1][::every][::-1]


def _row(entry: Entry) -> tuple[object, ...]:
    kind = "" if entry["kind"] == "step" else entry["kind"]
    figures = (f"{entry[key]:.3f}" if key in entry else "" for key in _FIGURES)
    hours = f"{entry['train_seconds'] / 3600:.1f}"
    return (kind, entry["step"], f"{entry['hole_tokens']:,}", hours, *figures)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
