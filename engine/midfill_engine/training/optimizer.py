"""AdamW, the schedule and the running average, over one flat vector.

Owns the state that a checkpoint must hold besides the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from midfill_engine.training.config import TrainConfig


@dataclass(slots=True)
class Optimizer:
    """Moments and average of `parameters`, all [n] float32. `step` counts updates done."""

    parameters: Tensor
    first: Tensor
    second: Tensor
    average: Tensor
    step: int = 0

    @classmethod
    def fresh(cls, parameters: Tensor) -> Optimizer:
        return cls(
            parameters,
            torch.zeros_like(parameters),
            torch.zeros_like(parameters),
            parameters.clone(),
        )

    def update(self, gradient: Tensor, config: TrainConfig, seconds: float = 0.0) -> float:
        """One AdamW step in place, `seconds` into the run; the gradient's norm before clipping."""
        norm = float(gradient.norm())
        if norm > config.clip_norm:
            gradient.mul_(config.clip_norm / norm)
        self.step += 1
        beta1, beta2 = config.betas
        self.first.lerp_(gradient, 1 - beta1)
        self.second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        scale = (self.second / (1 - beta2**self.step)).sqrt_().add_(1e-8)
        rate = learning_rate(config, self.step, seconds)
        self.parameters.mul_(1 - rate * config.weight_decay)
        self.parameters.addcdiv_(self.first, scale, value=-rate / (1 - beta1**self.step))
        keep = min(config.average, (1 + self.step) / (10 + self.step))
        self.average.lerp_(self.parameters, 1 - keep)
        return norm


def learning_rate(config: TrainConfig, step: int, seconds: float = 0.0) -> float:
    """Warm up, stay, and from `decay_from` on fall linearly to a tenth. Steps count from 1."""
    rate = config.learning_rate * min(1.0, step / config.warmup_steps)
    now = step if config.seconds is None else seconds
    if config.decay_from is not None and now > config.decay_from:
        rate *= max(0.1, 1 - 0.9 * (now - config.decay_from) / config.decay_for)
    return rate
