"""Strategies that take back or replace what they have committed. Pure.

What bounds them: a canvas of n free positions has no mask left after n steps of either; how
often it is edited after that, their strategy says.
"""

from __future__ import annotations

from typing import Final

from midfill_engine.worker.strategies.step import Moves, Step, surest

_EDIT_THRESHOLD: Final = 0.9


def path_planning(step: Step, level: float) -> Moves:
    """Keep one more position decided after each step: the surest, wherever they are.

    Masks count by the probability of their prediction; what is committed by the probability that
    its token has now, times `level`: below 1 the path is revised more readily. With the linear
    schedule κ, step k of n leaves n - k masks, so the n-th is the last.

    Source: Peng et al. 2025, "Path Planning for Masked Diffusion Model Sampling"
    (arXiv:2502.03540), P2 with self-planning.
    """
    count = len(step.masked)
    scores = [
        step.confidences[i] if masked else level * step.standing_confidences[i]
        for i, masked in enumerate(step.masked)
    ]
    kept = set(sorted(range(count), key=lambda i: -scores[i])[: step.number + 1])
    commits = tuple(i for i in step.masks if i in kept)
    remasks = tuple(i for i in range(count) if i not in kept and not step.masked[i])
    if step.masks and not commits:  # everything kept stands already: take the surest mask as well
        commits = surest(step, step.confidences, 1)
    return Moves(commits, remasks)


def token_editing(step: Step, level: float) -> Moves:
    """Commit every mask at or above `level`, or else the surest; replace what is outvoted.

    A committed token is replaced where another now has a probability above 0.9.

    Source: Bie et al. 2026, "LLaDA2.1: Speeding Up Text Diffusion via Token Editing"
    (arXiv:2602.08676), the joint threshold of mask-to-token and token-to-token moves.
    """
    sure = tuple(i for i in step.masks if step.confidences[i] >= level)
    if step.masks and not sure:
        sure = surest(step, step.confidences, 1)
    edits = tuple(
        i
        for i, masked in enumerate(step.masked)
        if not masked
        and step.tokens[i] != step.standing[i]
        and step.confidences[i] > _EDIT_THRESHOLD
    )
    return Moves((*sure, *edits))
