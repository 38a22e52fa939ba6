"""The fixture of the compiled scan."""

import pytest
from scans import BUILT

from zoo.networks.kernels import interface


@pytest.fixture(params=BUILT)
def instructions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each library in turn."""
    lib = interface.open_library(interface.libraries()[request.param])
    monkeypatch.setattr(interface, "library", lambda: lib)
    return request.param
