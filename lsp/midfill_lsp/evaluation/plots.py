"""The figures of an evaluation as plots, one file for each.

Owns what they look like. Needs matplotlib, which is an extra.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import PercentFormatter

from midfill_lsp.evaluation.figures import (
    FIGURES,
    Figure,
    Outcomes,
    calibration,
    exact_by,
    excesses,
)
from midfill_lsp.evaluation.outcomes import Outcome
from midfill_lsp.evaluation.statistics import Estimate
from midfill_lsp.evaluation.systems import BASE

_SIZE_INCHES: Final = (7.2, 3.8)
_DPI: Final = 144
# Okabe and Ito's colours, which most who see colours differently can tell apart.
_COLOURS: Final = {BASE: "#999999", "fast": "#56b4e9", "balanced": "#0072b2", "best": "#d55e00"}
_INK: Final = "#333333"
_MOST_EXCESS: Final = 40  # characters; what is beyond is shown at the edge

TITLES: Final = {
    "right.png": "How often the best fill is right",
    "languages.png": "Exact by language, held out",
    "kinds.png": "Exact by kind of hole, held out",
    "reliability.png": "Confidence, and how often fills are exact",
    "lengths.png": "Length of fills against what was taken out",
    "tokens.png": "Tokens per denoising step",
}


def draw_plots(outcomes: Mapping[str, Outcomes], directory: Path) -> list[Path]:
    """Write all plots that there are figures for; returns their paths.

    Raises:
        OSError: a file cannot be written.
    """
    painters: dict[str, Callable[[Axes, Mapping[str, Outcomes]], bool]] = {
        "right.png": _right,
        "languages.png": lambda axes, of: _exact_by(axes, of, lambda one: one.language),
        "kinds.png": lambda axes, of: _exact_by(axes, of, lambda one: one.kind),
        "reliability.png": _reliability,
        "lengths.png": _lengths,
        "tokens.png": _tokens,
    }
    written = []
    for name, paint in painters.items():
        canvas = Canvas(figsize=_SIZE_INCHES, dpi=_DPI, layout="constrained")
        axes = canvas.add_subplot()
        if paint(axes, outcomes):
            _tidy(axes, TITLES[name])
            canvas.savefig(directory / name, metadata={"Software": None})
            written.append(directory / name)
    return written


def _tidy(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=11, color=_INK, pad=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#bbbbbb")
    axes.tick_params(colors=_INK, labelsize=9, length=0)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    legend = axes.get_legend()
    if legend is not None:
        legend.set_frame_on(False)


def _named(group: str, label: str) -> Figure:
    return next(f for f in FIGURES if f.group.startswith(group) and f.label == label)


def _right(axes: Axes, outcomes: Mapping[str, Outcomes]) -> bool:
    figures = {
        "HumanEval\nexact": _named("HumanEval", "exact"),
        "HumanEval\npass@1": _named("HumanEval", "pass@1"),
        "HumanEval\nany fill passes": _named("HumanEval", "any fill passes"),
        "held-out\nexact": _named("held-out", "exact"),
        "held-out\nany fill exact": _named("held-out", "any fill exact"),
    }
    return _bars(
        axes,
        {
            system: {label: estimate for label, figure in figures.items()
                     if (estimate := figure.of(of)) is not None}
            for system, of in outcomes.items()
        },
    )  # fmt: skip


def _exact_by(axes: Axes, outcomes: Mapping[str, Outcomes], key: Callable[[Outcome], str]) -> bool:
    return _bars(axes, {system: exact_by(of, key) for system, of in outcomes.items()})


def _bars(axes: Axes, shares: Mapping[str, Mapping[str, Estimate]]) -> bool:
    """Groups of bars with their intervals: one group for each label, one bar for each system."""
    labels = list(dict.fromkeys(label for of in shares.values() for label in of))
    width = 0.8 / len(shares)
    for number, (system, of) in enumerate(shares.items()):
        known = [(place, of[label]) for place, label in enumerate(labels) if label in of]
        values = [estimate.value for _, estimate in known]
        axes.bar(
            [place + (number - (len(shares) - 1) / 2) * width for place, _ in known],
            values,
            width * 0.9,
            yerr=[
                [max(e.value - e.low, 0) for _, e in known],
                [max(e.high - e.value, 0) for _, e in known],
            ],
            color=_COLOURS[system],
            error_kw={"ecolor": "#555555", "elinewidth": 1, "capsize": 2},
            label=_label(system),
        )
    counts = [next(of[label].n for of in shares.values() if label in of) for label in labels]
    texts = [f"{label}\n(n = {n})" for label, n in zip(labels, counts, strict=True)]
    axes.set_xticks(range(len(labels)), texts)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=9, ncols=len(shares), loc="lower right", bbox_to_anchor=(1, 1))
    return bool(labels)


def _reliability(axes: Axes, outcomes: Mapping[str, Outcomes]) -> bool:
    axes.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=1, linestyle="--")
    found = {name: calibration(of) for name, of in outcomes.items()}
    for system, of in found.items():
        if of.error is None:
            continue
        axes.errorbar(
            [part.confidence for part in of.bins],
            [part.right.value for part in of.bins],
            yerr=[
                [max(part.right.value - part.right.low, 0) for part in of.bins],
                [max(part.right.high - part.right.value, 0) for part in of.bins],
            ],
            color=_COLOURS[system],
            marker="o",
            markersize=4,
            linewidth=1.4,
            elinewidth=0.8,
            label=f"{_label(system)}: ECE {of.error:.3f}, {of.fills} fills",
        )
    axes.set_xlabel("confidence", fontsize=9, color=_INK)
    axes.set_ylabel("exact", fontsize=9, color=_INK)
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    if any(of.fills for of in found.values()):
        axes.legend(fontsize=9, loc="upper left")
        return True
    return False


def _lengths(axes: Axes, outcomes: Mapping[str, Outcomes]) -> bool:
    """The share of fills up to each length error; a step up at 0 is a fill of the right length."""
    drawn = False
    for system, of in outcomes.items():
        errors = sorted(max(-_MOST_EXCESS, min(_MOST_EXCESS, e)) for e in excesses(of))
        if not errors:
            continue
        drawn = True
        axes.ecdf(errors, color=_COLOURS[system], linewidth=1.6,
                  label=f"{_label(system)} (n = {len(errors)})")  # fmt: skip
    axes.axvline(0, color="#bbbbbb", linewidth=1, linestyle="--")
    axes.set_xlim(-_MOST_EXCESS, _MOST_EXCESS)
    axes.set_xlabel(
        f"characters too many (below 0: too few; beyond {_MOST_EXCESS} at the edge)",
        fontsize=9,
        color=_INK,
    )
    axes.set_ylabel("fills up to there", fontsize=9, color=_INK)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    if drawn:
        axes.legend(fontsize=9, loc="upper left")
    return drawn


def _tokens(axes: Axes, outcomes: Mapping[str, Outcomes]) -> bool:
    figure = _named("cost", "tokens per step")
    found = {name: figure.of(of) for name, of in outcomes.items()}
    known = {name: estimate for name, estimate in found.items() if estimate is not None}
    for place, (system, estimate) in enumerate(known.items()):
        error = [[estimate.value - estimate.low], [estimate.high - estimate.value]]
        axes.bar(place, estimate.value, 0.6, yerr=error, color=_COLOURS[system],
                 error_kw={"ecolor": "#555555", "elinewidth": 1, "capsize": 3})  # fmt: skip
        axes.text(place + 0.34, estimate.value, f"{estimate.value:.2f}", fontsize=9, va="center")
    axes.set_xticks(range(len(known)), [_label(system) for system in known])
    axes.set_xlim(-0.6, len(known) - 0.3)
    axes.set_ylabel("tokens of the best fill, per step", fontsize=9, color=_INK)
    return bool(known)


def _label(system: str) -> str:
    return "base, left to right" if system == BASE else system
