"""Result, which every analysis returns: arrays with named axes, and the setting of the computation. Does not import torch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import StorageError

Tick = str | int | float


@dataclass(frozen=True)
class Axis:
    """One dimension of an array: its name, and the label of each index (tick)."""

    name: str
    ticks: tuple[Tick, ...]

    @classmethod
    def counted(cls, name: str, count: int) -> Self:
        """Return an axis with the ticks 1, 2, ..., count, since the papers count layers and time steps from one."""
        return cls(name, tuple(range(1, count + 1)))


@dataclass(frozen=True)
class Array:
    """Numbers with named axes.

    values: float64, one dimension for each axis. unit: the unit of the values, "" for pure numbers. log: True if the values
    span decades and should be drawn on a logarithmic scale. Raises ValueError if the values do not fit the axes.
    """

    values: NDArray[np.float64]
    axes: tuple[Axis, ...]
    unit: str = ""
    log: bool = False

    def __post_init__(self) -> None:
        sizes = tuple(len(axis.ticks) for axis in self.axes)
        if self.values.shape != sizes:
            raise ValueError(f"The values have the shape {self.values.shape}, but the axes have {sizes} ticks.")

    def axis(self, name: str) -> Axis:
        """Return the axis called `name`. Raises KeyError if the array has no such axis."""
        return {axis.name: axis for axis in self.axes}[name]

    def at(self, **ticks: Tick) -> "Array":
        """Return the slice at one tick of each named axis, such as `lattice.mean.at(loss="last", step=10)`.

        Raises KeyError for an axis or a tick that the array does not have.
        """
        values, axes = np.asarray(self.values), list(self.axes)
        for name, tick in ticks.items():
            dimension = next((i for i, axis in enumerate(axes) if axis.name == name), None)
            if dimension is None or tick not in axes[dimension].ticks:
                raise KeyError(f"the array has no {name}={tick!r}; its axes: {', '.join(axis.name for axis in axes)}")
            values = np.asarray(values.take(axes[dimension].ticks.index(tick), axis=dimension))
            del axes[dimension]
        return Array(values, tuple(axes), self.unit, self.log)

    def parts(self, dimensions: int) -> "list[tuple[str, Array]]":
        """Return (title, slice) for every slice that keeps the last `dimensions` axes. The title has the others' ticks."""
        outer = self.axes[: max(0, len(self.axes) - dimensions)]
        names, places = [axis.name for axis in outer], product(*(axis.ticks for axis in outer))
        chosen = [dict(zip(names, ticks, strict=True)) for ticks in places]
        return [(", ".join(f"{name} {tick}" for name, tick in c.items()), self.at(**c)) for c in chosen]

    def to_json(self) -> dict[str, Any]:
        """Return JSON data with values of six significant digits; infinite values and NaN become null."""
        numbers = [float(f"{v:.6g}") if np.isfinite(v) else None for v in self.values.ravel()]
        return {
            "axes": {axis.name: list(axis.ticks) for axis in self.axes}, "unit": self.unit, "log": self.log,
            "values": np.array(numbers, dtype=object).reshape(self.values.shape).tolist(),
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the array for which `to_json` returned `data`, with NaN for null."""
        axes = tuple(Axis(name, tuple(ticks)) for name, ticks in data["axes"].items())
        values = np.array(data["values"], dtype=np.float64)
        return cls(values.reshape([len(axis.ticks) for axis in axes]), axes, data["unit"], data["log"])


def histograms(
    samples: Sequence[NDArray[Any]], bins: int, usual_range: tuple[float, float]
) -> tuple[NDArray[np.float64], Axis]:
    """Return (shares, axis): the share of each sample's values in bins of equal width, (samples, bins), and the bins' axis.

    The bins cover `usual_range` or, if any value lies outside it, the range from the smallest value to the largest. The
    axis is called "from", and its ticks are the left edges of the bins. Infinite values and NaN are in no bin.
    """
    finite = [v[np.isfinite(v)] for v in samples]
    low = min((float(v.min()) for v in finite if v.size), default=usual_range[0])
    high = max((float(v.max()) for v in finite if v.size), default=usual_range[1])
    if usual_range[0] <= low and high <= usual_range[1]:
        low, high = usual_range
    elif high <= low:
        high = low + 1
    shares = np.array([np.histogram(f, bins, (low, high))[0] / v.size for f, v in zip(finite, samples, strict=True)])
    return shares, Axis("from", tuple(float(f"{edge:.4g}") for edge in np.linspace(low, high, bins + 1)[:-1]))


@dataclass(frozen=True)
class Result:
    """What an analysis returns: arrays by name. The arrays are attributes too, such as `result.mean`.

    setting: what was analysed and how, as short names and values for a caption. lines: sentences that summarise the
    numbers. summarised: names of the arrays that need not be printed, because `lines` has all their numbers.
    """

    setting: Mapping[str, Any]
    arrays: Mapping[str, Array]
    lines: tuple[str, ...] = ()
    summarised: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Array:
        arrays: Mapping[str, Array] = self.__dict__.get("arrays", {})
        if name not in arrays:
            raise AttributeError(f"The result has no array {name!r}; it has: {', '.join(arrays)}.")
        return arrays[name]

    @property
    def caption(self) -> str:
        """The setting as one line of text: names and values, separated by semicolons."""
        return "; ".join(f"{key} {value}" for key, value in self.setting.items())

    def only(self, *names: str) -> Self:
        """Return a copy of the result with only the arrays called `names`."""
        return replace(self, arrays={name: self.arrays[name] for name in names})

    def to_json(self) -> dict[str, Any]:
        """Return JSON data from which `from_json` restores the result, except for `summarised`."""
        arrays = {name: array.to_json() for name, array in self.arrays.items()}
        return {"setting": dict(self.setting), "lines": list(self.lines), **arrays}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the result for which `to_json` returned `data`."""
        arrays = {key: Array.from_json(value) for key, value in data.items() if key not in ("setting", "lines")}
        return cls(data["setting"], arrays, tuple(data["lines"]))


def read_results(path: Path) -> dict[str, Result]:
    """Return {title: result} of a JSON file: the results in its list "shown" or, without that list, its only result, titled "".

    Raises StorageError if the file cannot be read or does not contain results.
    """
    try:
        data = json.loads(path.read_bytes())
        return {p["title"]: Result.from_json(p["result"]) for p in data.get("shown", [{"title": "", "result": data}])}
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}).") from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError(f"{path} is damaged: it does not contain results. Restore it from git.") from error
