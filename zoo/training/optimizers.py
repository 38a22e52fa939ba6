"""The optimizer and the learning rate of a recipe."""

import math

import torch

from ..networks.network import Network
from ..registry.schema import Optimizer, Schedule


def make_optimizer(spec: Optimizer, network: Network) -> torch.optim.Optimizer:
    """The optimizer of a recipe over all trainable parameters; its rate is set before every step."""
    weights = [p for p in network.parameters() if p.requires_grad]
    if spec.name == "adam":
        b1, b2 = spec.betas
        return torch.optim.Adam(weights, spec.lr, (b1, b2), weight_decay=spec.weight_decay)
    if spec.name == "rmsprop":
        return torch.optim.RMSprop(weights, spec.lr, spec.alpha, momentum=spec.momentum, weight_decay=spec.weight_decay)
    return torch.optim.SGD(weights, spec.lr, spec.momentum, weight_decay=spec.weight_decay)


def schedule(spec: Schedule, step: int, total: int) -> float:
    """The multiple of the learning rate for step (0-based) of `total`: linear warm-up, then the decay.

    One-cycle rises along a cosine and, as its authors do (Smith & Topin 2018), falls along one; with a warm-up of 0
    it takes 30 % of the run to rise.
    """
    cycle = spec.name == "one-cycle"
    warmup = (spec.warmup or math.ceil(0.3 * total)) if cycle else spec.warmup
    if step < warmup:
        rise = (step + 1) / warmup
        return (1 - math.cos(math.pi * rise)) / 2 if cycle else rise
    if spec.name == "constant":
        return 1.0
    past = min(1.0, (step - warmup) / max(1, total - warmup))
    fall = (1 - past) ** spec.power if spec.name == "polynomial" else (1 + math.cos(math.pi * past)) / 2
    return spec.final_factor + (1 - spec.final_factor) * fall
