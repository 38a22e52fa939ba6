"""What pyproject.toml cannot declare: assets for the wheel, and the fused scans, which are optional.

registry.yaml and cards/ go into the wheel as zoo/assets. zoo/networks/kernels/native/scan.cpp is compiled once for each
width of vectors; where there is no compiler, or it refuses, the package installs without.
"""

import hashlib
import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

NATIVE = Path("zoo/networks/kernels/native")
SOURCES = sorted([*NATIVE.glob("*.cpp"), *NATIVE.glob("*.h")])
DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()
"""A library tells what it was built from, which zoo/networks/kernels/interface.py compares with the sources that are there."""
INSTRUCTIONS = {
    "avx512": ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma"],
    "avx2": ["-mavx2", "-mfma"],
    "generic": [],
}


class BuildWithAssets(build_py):
    def run(self) -> None:
        if self.editable_mode:
            super().run()
            return
        assets = Path(self.build_lib) / "zoo" / "assets"
        for earlier in (Path(self.build_lib) / NATIVE, assets):  # what is no longer there must not be shipped
            shutil.rmtree(earlier, ignore_errors=True)
        super().run()
        shutil.copytree("cards", assets / "cards")
        shutil.copy("registry.yaml", assets)


class BuildApart(build_ext):
    """The same source for every library, so the objects need folders of their own; built whenever it is not the digest's."""

    def build_extension(self, ext: Extension) -> None:
        given, built = (self.build_temp, self.force), Path(self.get_ext_fullpath(ext.name))
        self.build_temp = str(Path(self.build_temp) / ext.name)
        self.force = self.force or not built.exists() or DIGEST.encode() not in built.read_bytes()
        try:
            super().build_extension(ext)
        finally:
            self.build_temp, self.force = given


setup(
    cmdclass={"build_py": BuildWithAssets, "build_ext": BuildApart},
    ext_modules=[
        Extension(
            f"zoo.networks.kernels.scan_{name}",
            sources=[str(NATIVE / "scan.cpp")],
            depends=["setup.py", *map(str, SOURCES)],
            define_macros=[("SOURCE", f'"{DIGEST}"')],
            language="c++",
            extra_compile_args=["-std=c++17", "-O3", *flags],
            extra_link_args=["-pthread"],
            py_limited_api=True,
            optional=True,
        )
        for name, flags in INSTRUCTIONS.items()
    ],
)
