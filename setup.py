"""What pyproject.toml cannot declare: assets for the wheel, and the C++ scans, which are optional.

registry.yaml, sources.yaml and cards/ go into the wheel as zoo/assets, without the weights that zoo/publishing/starters.py leaves out. zoo/networks/kernels/native/scan.cpp is compiled once for each set of
vector instructions; without a working compiler the package installs without C++ scans.
"""

import hashlib
import json
import runpy
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

NATIVE = Path("zoo/networks/kernels/native")
SOURCES = sorted([*NATIVE.glob("*.cpp"), *NATIVE.glob("*.h")])
DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()
"""Stored in each library, so that zoo/networks/kernels/interface.py can tell whether it was built from today's sources."""
INSTRUCTIONS = {
    "avx512": ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma"],
    "avx2": ["-mavx2", "-mfma"],
    "generic": [],
}


NO_COMPILER = """
rnnzoo: the C++ scans for {name} were not built: {error}
rnnzoo: without any of them model.stream() does not work, and cells that have such a scan are several times slower on a CPU.
rnnzoo: Install a C++ compiler, then rnnzoo again.
"""


class BuildWithAssets(build_py):
    """Copies registry.yaml, sources.yaml and cards/ into the wheel."""

    def run(self) -> None:
        if self.editable_mode:
            super().run()
            return
        assets = Path(self.build_lib) / "zoo" / "assets"
        for earlier in (Path(self.build_lib) / NATIVE, assets):  # leftovers must not be shipped
            shutil.rmtree(earlier, ignore_errors=True)
        super().run()
        shutil.copytree("cards", assets / "cards")
        lock = json.loads(Path("cards/lock.json").read_bytes())
        for name in runpy.run_path("zoo/publishing/starters.py")["left_out"](lock):
            (assets / "cards" / name).unlink(missing_ok=True)
        for name in ("registry.yaml", "sources.yaml"):
            shutil.copy(name, assets)


class BuildApart(build_ext):
    """Builds each library in its own folder, since all have the same source, and whenever its digest is not today's."""

    def build_extension(self, ext: Extension) -> None:
        settings, library = (self.build_temp, self.force), Path(self.get_ext_fullpath(ext.name))
        self.build_temp = str(Path(self.build_temp) / ext.name)
        self.force = self.force or not library.exists() or DIGEST.encode() not in library.read_bytes()
        try:
            super().build_extension(ext)
        except Exception as error:  # no compiler, or one that fails
            print(NO_COMPILER.format(name=ext.name.rpartition("_")[2], error=error), file=sys.stderr)
            raise
        finally:
            self.build_temp, self.force = settings


setup(
    options={"bdist_wheel": {"py_limited_api": "cp311"}},  # one wheel for every Python from 3.11 on
    cmdclass={"build_py": BuildWithAssets, "build_ext": BuildApart},
    ext_modules=[
        Extension(
            f"zoo.networks.kernels.scan_{name}",
            sources=[str(NATIVE / "scan.cpp")],
            depends=["setup.py", *map(str, SOURCES)],
            define_macros=[("SOURCE", f'"{DIGEST}"')],
            language="c++",
            extra_compile_args=["-std=c++17", "-O3", "-g0", *flags],  # Python's own flags ask for debug symbols
            extra_link_args=["-pthread"],
            py_limited_api=True,
            optional=True,
        )
        for name, flags in INSTRUCTIONS.items()
    ],
)
