"""The environment of one of this user's processes, and which variables may be shown.

It is read by a process of its own: reading takes the other process's memory lock, which can hang as
a driver does, and the caller then continues without it.
"""

import os
import subprocess
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from andon.errors import Denied, Gone, Unavailable
from andon.host.interpreter import isolated_command
from andon.model.redaction import is_secret_name, redact_text
from andon.units import printable

TIMEOUT_SECONDS = 1.0
MOST_BYTES = 256 * 1024
_READ = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read(int(sys.argv[2])))"
SHOWN = (
    "CUDA_*", "NVIDIA_*", "NCCL_*", "SLURM_*", "ANDON_*", "OMP_*", "MKL_*", "TORCH_*", "PYTORCH_*",
    "TORCHELASTIC_*", "VLLM_*", "TF_*", "XLA_*", "JAX_*", "HIP_*", "ROCR_*", "HSA_*", "ROCM_*",
    "ZE_*", "GPU_*", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
    "MASTER_PORT", "PATH", "PWD", "HOME", "USER", "VIRTUAL_ENV", "CONDA_DEFAULT_ENV", "LANG",
)  # fmt: skip
"""Names, or patterns of names, whose values say how a program uses a device and hold no secret."""
LONGEST_VALUE = 400


def read_environment(pid: int, root: Path = Path("/")) -> dict[str, str]:
    """The variables; raises Denied for another user's process, Gone for one that has ended."""
    folder = root / "proc" / str(pid)
    try:
        owner = folder.stat().st_uid
    except OSError as exc:
        raise Gone(f"process {pid} has ended") from exc
    if owner != os.geteuid():
        raise Denied("it belongs to another user; only your own is shown")
    return parse_environment(_read(folder / "environ"))


def _read(path: Path) -> bytes:
    command = isolated_command("-c", _READ, str(path), str(MOST_BYTES))
    reading = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        content, _ = reading.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired as exc:
        reading.kill()  # and not waited for: it may be stuck in the kernel
        raise Unavailable("it cannot be read now: the process does not answer") from exc
    if reading.returncode != 0:
        shut = Denied("the system does not show it")
        raise shut if path.exists() else Gone("the process has ended")
    return content


def parse_environment(content: bytes) -> dict[str, str]:
    """Parses the variables of a /proc/PID/environ, in their order."""
    pairs = (part.partition(b"=") for part in content.split(b"\0") if b"=" in part)
    return {
        name.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for name, _, value in pairs
        if name
    }


def shown_environment(
    variables: Mapping[str, str],
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Returns the variables with values, and the names of all others; both in order."""
    shown = {
        name: redact_text(printable(value))[:LONGEST_VALUE]
        for name, value in variables.items()
        if any(fnmatchcase(name, one) for one in SHOWN) and not is_secret_name(name)
    }
    others = sorted(printable(name) for name in variables if name not in shown)
    return tuple(sorted(shown.items())), tuple(others)
