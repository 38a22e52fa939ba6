"""The folder of the zoo in use."""

import os
import subprocess
import sys
from pathlib import Path

from zoo.utils import paths


def test_a_checkout_is_known_by_a_relative_path_and_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(paths.PACKAGED_ROOT)
    for root, cwd in ((".", paths.PACKAGED_ROOT), ("link", tmp_path)):
        environment = {**os.environ, "RNNZOO_ROOT": root, "PYTHONPATH": str(paths.PACKAGED_ROOT)}
        program = "from zoo.utils import paths; print(paths.is_checkout(), paths.PACKAGED)"
        shown = subprocess.check_output([sys.executable, "-c", program], cwd=cwd, env=environment, text=True)
        assert shown.split() == ["True", "False"]
