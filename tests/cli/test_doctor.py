"""`rnnzoo doctor`: what it reports of real and of broken machines."""

import re
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
import torch
from rnnzoo_cli import doctor

from zoo.networks.kernels import interface


def by_name() -> dict[str, doctor.Finding]:
    return {finding.what: finding for finding in doctor.examine()}


def test_doctor_reads_extras_from_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version

    def version(name: str) -> str:
        if name in ("matplotlib", "accelerate"):
            raise metadata.PackageNotFoundError(name)
        return "0.1" if name == "pyarrow" else real(name)

    monkeypatch.setattr(doctor, "version", version)
    found = by_name()
    extras = metadata.metadata("rnnzoo").get_all("Provides-Extra") or []
    assert {f"extra {extra}" for extra in extras} == {name for name in found if name.startswith("extra ")}
    assert found["extra plots"].status == "missing"
    assert found["extra plots"].fix == "pip install 'rnnzoo[plots]'"
    assert "accelerate" in found["extra dev"].found  # through the extra that it names
    assert "pyarrow" in found["extra data"].found.partition("not installed")[2]  # too old


def test_doctor_without_compiled_scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "__file__", str(tmp_path / "interface.py"))
    found = by_name()["C++ scans"]
    assert (found.status, found.found) == (
        "missing",
        "not built: when rnnzoo was installed, there was no C++ compiler, or it was too old",
    )
    assert "install g++ and run pip install --force-reinstall --no-deps" in found.fix


def test_doctor_with_a_library_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "__file__", str(tmp_path / "interface.py"))
    (tmp_path / "scan_generic.abi3.so").write_text("not a library")
    found = by_name()["C++ scans"]
    assert found.status == "broken"
    assert "scan_generic.abi3.so cannot be loaded" in found.found


@pytest.mark.skipif("generic" not in interface.libraries(), reason="no C++ scans here")
def test_doctor_says_that_a_faster_scan_was_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(interface.LIBRARIES, torch.backends.cpu.get_cpu_capability(), ("avx9", "generic"))
    found = by_name()["C++ scans"]
    assert (found.status, found.found) == (
        "missing",
        "generic is used; avx9, which is faster on this processor, was not built",
    )
    assert found.fix.startswith("install a newer g++ and run pip install")


@pytest.mark.skipif(not interface.libraries(), reason="no C++ scans here")
def test_doctor_says_which_scan_is_used() -> None:
    assert by_name()["C++ scans"].status == "ok"
    assert re.search(r"is used; bfloat16 products [a-z0-9 ]+; built: ", by_name()["C++ scans"].found)


def test_doctor_survives_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setattr(doctor, "PACKAGE", "rnnzoo-that-is-not-installed")
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path / "nowhere"))
    found = by_name()
    assert found["torch"].status == "broken"
    assert found["data"].status == "missing"
    assert {"C++ scans", "gpu"} & set(found) == set()


def test_doctor_survives_a_setting_of_the_client_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "huggingface_hub"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "soon")
    assert "soon" in by_name()["cache"].found


def test_doctor_finds_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mnist").mkdir()
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path))
    assert by_name()["data"].found == f"RNNZOO_DATA is {tmp_path}, with mnist"


def test_doctor_describes_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        name, total_memory = "GPU", 16 * 2**30

    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: Properties)
    assert by_name()["cuda:0"].found.startswith("GPU, 16 GiB")

    def refuse(i: int) -> None:
        raise RuntimeError("driver too old\nmore")

    monkeypatch.setattr(torch.cuda, "get_device_properties", refuse)
    assert by_name()["gpu"] == doctor.Finding("gpu", "driver too old", "broken", "check the driver: nvidia-smi")


def test_doctor_fits_a_terminal_of_80_columns(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("doctor")[1].splitlines()
    assert max(map(len, lines)) <= 80
