"""NVIDIA's own assembler takes every kernel, for every architecture that andon names."""

import shutil
import subprocess
from pathlib import Path

import pytest

from andon.checks.rules import kernels
from tests.conftest import REPOSITORY, need

pytestmark = [pytest.mark.long, pytest.mark.process]

PLACE = REPOSITORY / ".build/ptxas/nvidia/cuda_nvcc/bin/ptxas"
ARCHITECTURES = (50, 52, 60, 61, 70, 75, 80, 86, 87, 89, 90, 100, 103, 120, 121)


@pytest.fixture(scope="module")
def ptxas() -> str:
    """The assembler that `dev/ptxas` installs, else that of this machine."""
    if not PLACE.exists():
        need("ptxas")
    return str(PLACE) if PLACE.exists() else shutil.which("ptxas") or ""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_text_is_assembled(ptxas: str, architecture: int, tmp_path: Path) -> None:
    capability = divmod(architecture, 10)
    texts = {"plain": kernels.plain(), "tensor": kernels.tensor(capability)}
    assert (texts["tensor"] is None) == (architecture < 75)
    for name, text in texts.items():
        if text is None:
            continue
        path = tmp_path / f"{name}.ptx"
        path.write_text(text)
        command = [ptxas, f"-arch=sm_{architecture}", "-v", str(path), "-o", str(tmp_path / "out")]
        done = subprocess.run(command, capture_output=True, text=True)
        if not PLACE.exists() and "is not defined for option" in done.stderr:
            pytest.skip("this ptxas no longer knows the architecture; dev/ptxas gets one that does")
        assert done.returncode == 0, done.stderr
        assert "0 bytes spill stores" in done.stderr or "spill" not in done.stderr
