"""Puts registry.yaml, counts.json and cards/ into the wheel as zoo/assets; everything else is declared in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithAssets(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            assets = Path(self.build_lib) / "zoo" / "assets"
            shutil.copytree("cards", assets / "cards", dirs_exist_ok=True)
            for name in ("registry.yaml", "counts.json"):
                shutil.copy(name, assets)


setup(cmdclass={"build_py": BuildWithAssets})
