"""Small networks with random weights, and gradients as plain dicts, for the tests of cells and of networks."""

import copy
import io
import wave
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import count, cycle, product
from pathlib import Path

import numpy
import pytest
import torch
from torch import Tensor

from zoo.cells import CELLS
from zoo.cells.rows import Number
from zoo.networks.builder import build
from zoo.networks.kernels import interface
from zoo.networks.network import Network
from zoo.networks.stack import NetworkState
from zoo.registry.schema import Architecture, Config, Interface

MERGES = ("sum", "concat", "mul", "mean")
READOUTS = ("last", "mean", "every")

needs_scan = pytest.mark.skipif(not interface.libraries(), reason="no compiler was there when rnnzoo was installed")

NUMBERS = {
    "shift": (0.0, 1.0, -0.5),
    "epsilon": (0.3,),
    "gamma": (0.2,),
    "alpha": (0.8,),
    "beta": (0.7,),
    "dt": (0.3,),
    "recurrent_rank": (0, 2),
    "modules": (3,),
    "unfolds": (2,),
    "update": (0.3,),
    "radius": (0.9,),
    "density": (0.5,),
    "mass": (1,),
    "chunk": (2,),
    "order": (3,),
    "theta": (5.0,),
    "rounds": (4,),
    "delay": (1, 2),
    "capacity": (1, 3),
    "ratio": (0.4,),
    "leak": (0.1,),
    "margin": (0.5,),
    "spectrum": ("inv",),
    "states": (2,),
    "blocks": (2,),
    "heads": (2,),
    "rank": (2,),
    "expand": (2,),
    "min_radius": (0.9,),
    "max_radius": (0.999,),
    "max_phase": (6.2832,),
}
"""The values that the tests give to numeric options of cells, and to options that set initial values only."""


def _cases() -> dict[str, tuple[str, dict[str, object]]]:
    cases: dict[str, tuple[str, dict[str, object]]] = {}
    for cell, row in CELLS.items():
        values = [NUMBERS.get(key, choice) for key, choice in row.options.items()]
        missing = [key for key, choice in zip(row.options, values, strict=True) if isinstance(choice, Number)]
        assert not missing, f"Give the options {missing} of {cell} values in NUMBERS."
        for chosen in product(*values):
            options = dict(zip(row.options, chosen, strict=True))
            cases[" ".join([cell, *(f"{k}={v}" for k, v in options.items())])] = (cell, options)
    return cases


CASES = _cases()
"""(cell, options) by a readable name, for every cell with every combination of its options."""


def can(case: str, *fields: str) -> bool:
    """Return whether a cell, or one of CASES, may have all these fields of a specification."""
    cell, _ = CASES.get(case, (case, {}))
    return not CELLS[cell].without.keys() & set(fields)


def each(name: str, cases: Iterable[str], *fields: str) -> pytest.MarkDecorator:
    """Parametrize a test with every case that may have these fields of a specification."""
    return pytest.mark.parametrize(name, [case for case in cases if can(case, *fields)])


def in_each_form(name: str, cases: Iterable[str], *fields: str) -> pytest.MarkDecorator:
    """Parametrize a test with every case that may have these fields, dense and, if the cell can be one, convolutional."""
    able = [case for case in cases if can(case, *fields)]
    parameters = [pytest.param(case, None, id=f"{case}-dense") for case in able]
    parameters += [pytest.param(case, 3, id=f"{case}-conv") for case in able if can(case, "kernel")]
    return pytest.mark.parametrize((name, "kernel"), parameters)


def config(
    cell: str = "star", *, layers: int = 2, units: int = 3, inputs: Sequence[int] = (2,), steps: int = 6,
    outputs: int = 4, readout: str = "last", mean: float = 0.0, std: float = 1.0, **architecture: object,
) -> Config:  # fmt: skip
    """Return a small specification; `architecture` holds further fields of Architecture. Heads, modules and chunks get equally many units."""
    options = architecture.get("options", {})
    for name in options.keys() & {"heads", "modules", "chunk"}:
        units += -units % options[name]
    return Config(
        name="small",
        task="none",
        architecture=Architecture(cell=cell, layers=layers, units=units, **architecture),
        interface=Interface(input=tuple(inputs), steps=steps, outputs=outputs, readout=readout, mean=mean, std=std),
    )


def network(case: str = "star", *, dtype: torch.dtype = torch.float64, train: bool = False, **spec: object) -> Network:
    """Return a small network of a cell or of one of CASES, with random values in all parameters, biases included."""
    cell, options = CASES.get(case, (case, spec.pop("options", {})))
    return copy.deepcopy(_prototype(config(cell, options=options, **spec).model_dump_json(), dtype)).train(train)


@lru_cache(maxsize=512)
def _prototype(spec: str, dtype: torch.dtype) -> Network:
    """Return the network that others are copies of, since building one takes three times as long as a copy."""
    net = build(Config.model_validate_json(spec), device="cpu", dtype=dtype)
    net.requires_grad_()  # the gradients of frozen parameters are tested, too
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(
                (0.2 if p.dim() == 4 else 0.6) * torch.randn(p.shape, generator=generator)
            )  # a kernel has many entries
    return net


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def random_state(net: Network, batch: int) -> NetworkState:
    """Return random states of the layers, within (-1, 1) as those of most cells, that require gradients.

    A normaliser n is positive, as no sequence makes it negative, and a time t is a number of steps.
    """
    layers = net.initial_state(batch)[: len(net.layers)]
    names, seeds = net.layers[0].forward_direction.states, count(100)
    possible = {"n": torch.abs, "t": lambda t: (20 * t.abs()).floor()}
    return tuple(
        tuple(
            possible.get(name, torch.clone)(normal(*s.shape, seed=next(seeds)).tanh()).requires_grad_()
            for name, s in zip(cycle(names), layer, strict=False)
        )
        for layer in layers
    )


def flatten(state: NetworkState) -> list[Tensor]:
    """Return the states of all layers in one list."""
    return [s for layer in state for s in layer]


def score(values: Sequence[Tensor]) -> Tensor:
    """Return a number that weighs every entry of `values` differently, to take gradients of."""
    parts = [(v * normal(*v.shape, seed=10 + i).to(v)).sum() for i, v in enumerate(values)]
    return torch.stack(parts).sum()


def gradients(value: Tensor, of: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the gradients of a number by name; zero for a tensor on which it does not depend."""
    grads = torch.autograd.grad(value, list(of.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(of, grads, strict=True))


def weights(net: Network, prefix: str = "") -> dict[str, Tensor]:
    """Return the parameters whose names start with `prefix`, by the rest of their names."""
    return {name.removeprefix(prefix): p for name, p in net.named_parameters() if name.startswith(prefix)}


def direction(net: Network, layer: int = 0, index: int = 0) -> dict[str, Tensor]:
    """Return the parameters of one direction of a layer, 0 forward and 1 backward."""
    return weights(net, f"layers.{layer}.directions.{index}.")


def same(actual: object, expected: object, tolerance: float = 1e-10) -> None:
    """Assert that tensors, or nested tuples, lists and dicts of them, are equal within `tolerance`."""
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def stepped(net: Network, x: Tensor) -> list[Tensor]:
    """Return the logits after every step of x, (batch, time, ...)."""
    logits, state = [], None
    for x_t in x.unbind(1):
        step_logits, state = net.step(x_t, state)
        logits.append(step_logits)
    return logits


def flip(path: Path) -> None:
    """Flip the last bit of a file."""
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def wav(samples: numpy.ndarray, rate: int = 8000, channels: int = 1, width: int = 2) -> bytes:
    """Return the content of a WAV file."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return buffer.getvalue()


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Let torch make new tensors of this dtype for a while."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
