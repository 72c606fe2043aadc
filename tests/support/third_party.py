"""The package of another author, installed by pip into a folder of the test's own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "tests/support/thirdparty_backend"


def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as pip installs it; nothing is fetched."""
    folder, source = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("source")
    for path in PACKAGE.rglob("*.[pt][yo]*"):  # a copy: building leaves no file in the repository
        place = source / path.relative_to(PACKAGE)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(path.read_bytes())
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation",
        "--no-deps", "--disable-pip-version-check", "--target", str(folder), str(source),
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=120)
    return folder
