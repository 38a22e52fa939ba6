"""The optimizer and the learning rate of a recipe."""

import math

import torch

from ..networks.network import Network
from ..registry.schema import Optimizer, Schedule


def make_optimizer(spec: Optimizer, network: Network) -> torch.optim.Optimizer:
    """Return a recipe's optimizer over all trainable parameters, at its full learning rate."""
    weights = [p for p in network.parameters() if p.requires_grad]
    if spec.name == "adam":
        b1, b2 = spec.betas
        return torch.optim.Adam(weights, spec.lr, (b1, b2), weight_decay=spec.weight_decay)
    if spec.name == "rmsprop":
        return torch.optim.RMSprop(weights, spec.lr, spec.alpha, momentum=spec.momentum, weight_decay=spec.weight_decay)
    return torch.optim.SGD(weights, spec.lr, spec.momentum, weight_decay=spec.weight_decay)


def schedule(spec: Schedule, step: int, total: int) -> float:
    """Return the factor of the learning rate at a step (0-based) of `total`: a linear warm-up, then the decay.

    One-cycle (Smith & Topin 2018) rises and falls along a cosine; with a warm-up of 0 it rises for 30 % of the steps.
    """
    one_cycle = spec.name == "one-cycle"
    warmup = (spec.warmup or math.ceil(0.3 * total)) if one_cycle else spec.warmup
    if step < warmup:
        rise = (step + 1) / warmup
        return (1 - math.cos(math.pi * rise)) / 2 if one_cycle else rise
    if spec.name == "constant":
        return 1.0
    past = min(1.0, (step - warmup) / max(1, total - warmup))
    fall = (1 - past) ** spec.power if spec.name == "polynomial" else (1 + math.cos(math.pi * past)) / 2
    return spec.final_factor + (1 - spec.final_factor) * fall
