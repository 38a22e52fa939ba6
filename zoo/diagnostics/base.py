"""What every analysis returns: arrays whose axes have names, and the setting in which they were computed. No torch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import StorageError

Tick = str | int | float


@dataclass(frozen=True)
class Axis:
    """One dimension of an array: its name, and the label of each position along it."""

    name: str
    ticks: tuple[Tick, ...]

    @classmethod
    def counted(cls, name: str, count: int) -> Self:
        """Return an axis with the ticks 1, 2, ..., count, since the papers count layers and time steps from one."""
        return cls(name, tuple(range(1, count + 1)))


@dataclass(frozen=True)
class Array:
    """Numbers with named axes.

    values: float64, one dimension for each axis. unit: of the values, "" for pure numbers. log: True if the values span
    decades and should be drawn on a logarithmic scale. Raises ValueError if the values do not fit the axes.
    """

    values: NDArray[np.float64]
    axes: tuple[Axis, ...]
    unit: str = ""
    log: bool = False

    def __post_init__(self) -> None:
        sizes = tuple(len(axis.ticks) for axis in self.axes)
        if self.values.shape != sizes:
            raise ValueError(f"values of shape {self.values.shape} do not fit axes of {sizes}")

    def axis(self, name: str) -> Axis:
        """Return the axis called `name`; raise KeyError if the array has no such axis."""
        return {axis.name: axis for axis in self.axes}[name]

    def at(self, **ticks: Tick) -> "Array":
        """Return the slice at one tick of each axis named, such as `lattice.mean.at(loss="last", step=10)`.

        Raises KeyError for an axis or a tick that the array does not have.
        """
        values, axes = np.asarray(self.values), list(self.axes)
        for name, tick in ticks.items():
            dimension = next((i for i, axis in enumerate(axes) if axis.name == name), None)
            if dimension is None or tick not in axes[dimension].ticks:
                raise KeyError(f"{name}={tick!r}")
            values = np.asarray(values.take(axes[dimension].ticks.index(tick), axis=dimension))
            del axes[dimension]
        return Array(values, tuple(axes), self.unit, self.log)

    def parts(self, dimensions: int) -> "list[tuple[str, Array]]":
        """Return every slice along the last `dimensions` axes, with a title: its ticks on the other axes."""
        outer = self.axes[: max(0, len(self.axes) - dimensions)]
        places = [
            dict(zip((a.name for a in outer), ticks, strict=True)) for ticks in product(*(a.ticks for a in outer))
        ]
        return [(", ".join(f"{name} {tick}" for name, tick in p.items()), self.at(**p)) for p in places]

    def to_json(self) -> dict[str, Any]:
        """Return JSON data with values of six significant digits; infinite values and NaN become null."""
        numbers = [float(f"{v:.6g}") if np.isfinite(v) else None for v in self.values.ravel()]
        return {
            "axes": {axis.name: list(axis.ticks) for axis in self.axes}, "unit": self.unit, "log": self.log,
            "values": np.array(numbers, dtype=object).reshape(self.values.shape).tolist(),
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the array that `to_json` described, with NaN for null."""
        axes = tuple(Axis(name, tuple(ticks)) for name, ticks in data["axes"].items())
        values = np.array(data["values"], dtype=np.float64)
        return cls(values.reshape([len(axis.ticks) for axis in axes]), axes, data["unit"], data["log"])


def histograms(
    samples: Sequence[NDArray[Any]], bins: int, usual_range: tuple[float, float]
) -> tuple[NDArray[np.float64], Axis]:
    """Return the share of each sample's values in bins of equal width, (samples, bins), and the axis of the bins.

    The bins cover `usual_range` or, if any value lies outside it, the range from the smallest value to the largest. The
    axis is called "from", and its ticks are the left edges of the bins.
    """
    low, high = min(float(v.min()) for v in samples), max(float(v.max()) for v in samples)
    if usual_range[0] <= low and high <= usual_range[1]:
        low, high = usual_range
    elif high <= low:
        high = low + 1
    shares = np.array([np.histogram(v, bins, (low, high))[0] / v.size for v in samples])
    return shares, Axis("from", tuple(float(f"{edge:.4g}") for edge in np.linspace(low, high, bins + 1)[:-1]))


@dataclass(frozen=True)
class Result:
    """Base of all results. A subclass adds arrays as fields and sums them up in `lines`."""

    setting: Mapping[str, Any]
    """What was analysed and how, as short names and values for a caption."""

    paper: ClassVar[str] = ""
    """Key in registry.yaml of the paper that defines the analysis."""
    section: ClassVar[str] = ""
    """Sections, equations and figures of that paper."""
    summarised: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays whose every number is in `lines`."""

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays by the names of their fields."""
        return {f.name: v for f in fields(self) if isinstance(v := getattr(self, f.name), Array)}

    @property
    def lines(self) -> list[str]:
        """A summary of the numbers, one sentence a line."""
        return []

    @property
    def caption(self) -> str:
        """The setting as a text."""
        return "; ".join(f"{key} {value}" for key, value in self.setting.items())

    def to_json(self) -> dict[str, Any]:
        arrays = {name: array.to_json() for name, array in self.arrays.items()}
        return {"setting": dict(self.setting), "lines": self.lines, **arrays}


@dataclass(frozen=True)
class StoredResult(Result):
    """A result of any analysis, read from the JSON in which it was stored."""

    stored_arrays: Mapping[str, Array]
    stored_lines: tuple[str, ...]

    @property
    def arrays(self) -> dict[str, Array]:
        return dict(self.stored_arrays)

    @property
    def lines(self) -> list[str]:
        return list(self.stored_lines)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the result that `Result.to_json` described."""
        arrays = {key: Array.from_json(value) for key, value in data.items() if key not in ("setting", "lines")}
        return cls(data["setting"], arrays, tuple(data["lines"]))

    @classmethod
    def read(cls, path: Path, shown: bool = False) -> dict[str, Self]:
        """Return the results in a JSON file by title: those of its list "shown", or the one that it is, titled "".

        Raises StorageError if the file cannot be read or holds something else.
        """
        try:
            data = json.loads(path.read_bytes())
            parts = data["shown"] if shown else [{"title": "", "result": data}]
            return {part["title"]: cls.from_json(part["result"]) for part in parts}
        except OSError as error:
            raise StorageError(f"{path}: cannot be read ({error.strerror}).") from error
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise StorageError(f"{path} is damaged. A program writes this file; restore it from git.") from error

    def only(self, *names: str) -> "StoredResult":
        """Return the result without the arrays that are not in `names`."""
        return replace(self, stored_arrays={name: self.stored_arrays[name] for name in names})
