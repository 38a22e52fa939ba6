"""The fixtures of the fused scans."""

import os

import pytest
import torch
from scans import BUILT

from zoo.networks import kernels
from zoo.networks.kernels import devices, diagonal, interface, outer


@pytest.fixture(params=BUILT)
def instructions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each library in turn."""
    lib = interface.open_library(interface.libraries()[request.param])
    monkeypatch.setattr(interface, "library", lambda: lib)
    return request.param


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the tests of the scans in Triton run; on a CPU these scans take the place of the compiled ones."""
    interpreted = os.environ.get("TRITON_INTERPRET", "1") != "0"
    if (request.param == "cpu") != interpreted:
        pytest.skip("TRITON_INTERPRET says otherwise")
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    for modules in (devices.FUSED, devices.RECURRENCES):
        monkeypatch.setitem(modules, "cpu", modules["cuda"])
    return request.param


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Take a scan that linear cells share, also where a cell has one of its own, and return the list of the cells that took it."""
    taken: list[str] = []

    def layer_scan(layers, x):  # type: ignore[no-untyped-def]
        directions = [direction for layer in layers for direction in layer.directions]
        able = [s for s in (diagonal, outer) if all(s.supports(direction, x) for direction in directions)]

        def scan(direction, *arguments):  # type: ignore[no-untyped-def]
            taken.append(type(direction.cell).__name__)
            return able[0].scan(direction, *arguments)

        return scan if able else None

    monkeypatch.setattr(kernels, "layer_scan", layer_scan)
    monkeypatch.setattr(kernels, "stack_scan", lambda *_: None)
    return taken
