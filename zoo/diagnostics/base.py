"""What every analysis returns: arrays whose axes have names, and the setting they were computed in. No torch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

Tick = str | int | float


@dataclass(frozen=True)
class Axis:
    """One dimension of an array: what it counts, and the name or number of each place along it."""

    name: str
    ticks: tuple[Tick, ...]

    @classmethod
    def counted(cls, name: str, count: int) -> Self:
        """1, 2, ..., count: layers and time steps are counted from one, as in the papers."""
        return cls(name, tuple(range(1, count + 1)))


@dataclass(frozen=True)
class Array:
    """Numbers with named axes.

    values: float64, one dimension an axis. unit: of the values, "" for pure numbers. log: whether they span decades, so
    that a picture of them should have a logarithmic scale.
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
        """The axis of that name; KeyError if there is none."""
        return {axis.name: axis for axis in self.axes}[name]

    def at(self, **where: Tick) -> "Array":
        """The part at one tick of each axis named: `lattice.mean.at(loss="last", step=10)`; KeyError if there is none."""
        values, axes = np.asarray(self.values), list(self.axes)
        for name, tick in where.items():
            place = next((i for i, axis in enumerate(axes) if axis.name == name), None)
            if place is None or tick not in axes[place].ticks:
                raise KeyError(f"{name}={tick!r}")
            values = np.asarray(values.take(axes[place].ticks.index(tick), axis=place))
            del axes[place]
        return Array(values, tuple(axes), self.unit, self.log)

    def parts(self, inner: int) -> "list[tuple[str, Array]]":
        """The parts that have its last `inner` axes, or all if it has fewer, each with a heading of the ticks it is at."""
        outer = self.axes[: max(0, len(self.axes) - inner)]
        found = []
        for ticks in product(*(axis.ticks for axis in outer)):
            where: dict[str, Tick] = dict(zip((axis.name for axis in outer), ticks, strict=True))
            found.append((", ".join(f"{k} {v}" for k, v in where.items()), self.at(**where)))
        return found

    def data(self) -> dict[str, Any]:
        """For JSON: six significant digits; what is not finite as null."""
        numbers = [float(f"{v:.6g}") if np.isfinite(v) else None for v in self.values.ravel()]
        return {
            "axes": {axis.name: list(axis.ticks) for axis in self.axes}, "unit": self.unit, "log": self.log,
            "values": _nested(numbers, self.values.shape),
        }  # fmt: skip

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """What `data` gave."""
        axes = tuple(Axis(name, tuple(ticks)) for name, ticks in data["axes"].items())
        values = np.array(data["values"], dtype=np.float64)  # null becomes NaN
        return cls(values.reshape([len(a.ticks) for a in axes]), axes, data["unit"], data["log"])


def _nested(flat: list[Any], shape: Sequence[int]) -> Any:
    if not shape:
        return flat[0]
    if len(shape) == 1:
        return flat
    size = len(flat) // shape[0]
    return [_nested(flat[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0])]


def histograms(
    values: Sequence[NDArray[Any]], bins: int, usual: tuple[float, float]
) -> tuple[NDArray[np.float64], Axis]:
    """Share of each array's values in bins of equal width, (arrays, bins), and the bins by where they begin.

    They are over the usual range or, where values lie beyond it, from the least value to the largest.
    """
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    low, high = usual if low >= usual[0] and high <= usual[1] else (low, high if high > low else low + 1)
    shares = np.array([np.histogram(v, bins, (low, high))[0] / v.size for v in values])
    return shares, Axis("from", tuple(float(f"{edge:.4g}") for edge in np.linspace(low, high, bins + 1)[:-1]))


@dataclass(frozen=True)
class Result:
    """Base of the results: a subclass adds its arrays as fields and says in `lines` what they show."""

    setting: Mapping[str, Any]
    """What was analysed and how, by words that a caption can show."""

    paper: ClassVar[str] = ""
    """Key of the document, in registry.yaml, that the analysis is from; and where it stands there."""
    where: ClassVar[str] = ""

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays by the names of their fields."""
        return {f.name: v for f in fields(self) if isinstance(v := getattr(self, f.name), Array)}

    @property
    def lines(self) -> list[str]:
        """What the numbers say, a sentence each."""
        return []

    @property
    def caption(self) -> str:
        """The setting, for a picture."""
        return "; ".join(f"{key} {value}" for key, value in self.setting.items())

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "setting": dict(self.setting),
            "lines": self.lines,
            **{name: array.data() for name, array in self.arrays.items()},
        }

    def digest_text(self) -> str:
        """The same text for the same content, to tell a stale picture by."""
        return json.dumps(self.data(), sort_keys=True)


@dataclass(frozen=True)
class Stored(Result):
    """A result of any analysis as it was kept: read without what computed it."""

    kept: Mapping[str, Array]
    said: tuple[str, ...]

    @property
    def arrays(self) -> dict[str, Array]:
        return dict(self.kept)

    @property
    def lines(self) -> list[str]:
        return list(self.said)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """What `Result.data` gave."""
        kept = {key: Array.of(value) for key, value in data.items() if key not in ("setting", "lines")}
        return cls(data["setting"], kept, tuple(data["lines"]))

    def only(self, *names: str, **where: Tick) -> "Stored":
        """With the arrays of these names only, at these ticks."""
        return replace(self, kept={name: self.kept[name].at(**where) for name in names})


def times(value: float) -> str:
    """A factor in three digits: 1.23, 456, 4.5e-07."""
    return f"{value:.3g}"
