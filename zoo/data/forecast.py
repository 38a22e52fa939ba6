"""Chaotic series to forecast, generated: a window of the past, and the values that come some steps after it.

Every split is a separate series, whose initial value numpy's RandomState draws. It is integrated in Python's float64 by
additions, products and quotients alone, which IEEE 754 rounds alike on every machine. cards/lock.json has the digests.
"""

from collections import deque
from functools import cache
from typing import NamedTuple

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from .base import SEEDS, Split, SplitName, TaskData
from .originals import verify_generated

TRANSIENT = 1000
"""Number of samples that are dropped from the beginning of a series, before it reaches its attractor."""
TAU, DELAYED = 17, 170
"""The delay of the Mackey-Glass equation, in units of time and in steps of 0.1."""


class Series(NamedTuple):
    """The mean and the standard deviation, to four digits, of the training series, with which all splits are standardised."""

    mean: float
    std: float


class Forecast(TaskData):
    """Layouts, one for each series: `mackey-glass` and `lorenz`. Inputs and targets are standardised, so errors are normalised.

    `mackey-glass` (Mackey & Glass 1977): dx/dt = 0.2 x(t - 17) / (1 + x(t - 17)^10) - 0.1 x, a sample at every unit of time.
    `lorenz` (Lorenz 1963): x of dx/dt = 10 (y - x), dy/dt = x (28 - z) - y, dz/dt = x y - 8 z / 3, a sample every 0.02.
    Both are integrated by the Runge-Kutta method of order 4, with steps of 0.1 and of 0.01.
    """

    by_layout = {"mackey-glass": Series(0.9302, 0.2262), "lorenz": Series(0.0774, 7.911)}
    layouts = by_layout

    def read(self, name: SplitName) -> Split:
        n, steps, horizons, layout = getattr(self.dataset, name), self.task.steps, self.task.horizons, self.task.layout
        samples = series(layout, SEEDS[name], n + steps + max(horizons) - 1)
        digests = verify_generated(self.dataset, f"{layout}-{name}", samples)
        mean, std = self.by_layout[layout]
        values = (torch.from_numpy(samples) - mean) / std
        targets = torch.stack([values[steps - 1 + horizon :][:n] for horizon in horizons], 1)
        return Split(values[: n + steps - 1].unfold(0, steps, 1), targets, digests, _prepare)


def _prepare(raw: Tensor) -> Tensor:
    """Turn values, (batch, time), into the input of a network, (batch, time, 1)."""
    return raw[..., None]


@cache
def series(layout: str, seed: int, count: int) -> NDArray[numpy.float32]:
    """Return `count` samples of a series, (count,), little-endian float32. The TRANSIENT samples before them are dropped.

    layout: one of Forecast.layouts. seed: of the initial value.
    """
    random = numpy.random.RandomState(seed)
    integrate = mackey_glass if layout == "mackey-glass" else lorenz
    return numpy.array(integrate(random, TRANSIENT + count)[TRANSIENT:], "<f4")


def mackey_glass(random: numpy.random.RandomState, count: int) -> list[float]:
    """Return `count` samples of x of the Mackey-Glass equation (see Forecast), from t = 1 on.

    All values of x up to t = 0 are one number, drawn from 0.5 to 1.5. The delayed value at the middle of an integration step
    is the mean of the delayed values at the two ends of the step.
    """
    x = 0.5 + float(random.random_sample())
    past, h, samples = deque([x] * (DELAYED + 1), DELAYED + 1), 0.1, []
    for _ in range(count):
        for _ in range(DELAYED // TAU):
            first, last = _growth(past[0]), _growth(past[1])
            middle = _growth((past[0] + past[1]) / 2)
            k1 = first - 0.1 * x
            k2 = middle - 0.1 * (x + h / 2 * k1)
            k3 = middle - 0.1 * (x + h / 2 * k2)
            k4 = last - 0.1 * (x + h * k3)
            x += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            past.append(x)
        samples.append(x)
    return samples


def _growth(delayed: float) -> float:
    """Return 0.2 v / (1 + v^10) for v = `delayed`. v^10 is computed by products, since pow may differ in the last bit."""
    square = delayed * delayed
    fourth = square * square
    return 0.2 * delayed / (1 + fourth * fourth * square)


def lorenz(random: numpy.random.RandomState, count: int) -> list[float]:
    """Return `count` samples of x of Lorenz's equations. x and y begin with values from -10 to 10, z with one from 15 to 35."""
    x, y, z = ((random.random_sample(3) - 0.5) * 20 + [0, 0, 25]).tolist()
    h, samples = 0.01, []
    for _ in range(count):
        for _ in range(2):
            a = _flow(x, y, z)
            b = _flow(x + h / 2 * a[0], y + h / 2 * a[1], z + h / 2 * a[2])
            c = _flow(x + h / 2 * b[0], y + h / 2 * b[1], z + h / 2 * b[2])
            d = _flow(x + h * c[0], y + h * c[1], z + h * c[2])
            x, y, z = (
                v + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4) for v, k1, k2, k3, k4 in zip((x, y, z), a, b, c, d, strict=True)
            )
        samples.append(x)
    return samples


def _flow(x: float, y: float, z: float) -> tuple[float, float, float]:
    """Return the derivatives (dx/dt, dy/dt, dz/dt) of Lorenz's equations."""
    return 10 * (y - x), x * (28 - z) - y, x * y - 8 * z / 3
