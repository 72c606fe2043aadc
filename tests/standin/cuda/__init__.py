"""A stand-in for libcuda.so.1, beside that of NVML: it plays the kernels of a check by name."""

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tests.standin.build import BuildError, find_compiler
from tests.standin.control import StandIn
from tests.standin.node import StandInDevice

LIBRARY = "libcuda.so.1"
SOURCE = Path(__file__).parent / "cuda.c"
Part = Literal["init", "fp32", "tensor", "memory", "patterns", "link", "clock"]
MIB = 1 << 20


class CudaFault(Struct, frozen=True):
    """A fault of one card: `slow` in percent, `wrong` words, an `error` code, `hang`, `oom`."""

    device: int
    kind: Literal["slow", "wrong", "error", "hang", "oom"]
    part: Part
    value: float = 0


class StandInCuda:
    """The cards of a node as the driver's library for programs shows them."""

    def __init__(self, node: StandIn, **changes: int) -> None:
        """`changes` to the cards: see `_line`."""
        self.node, self._changes = node, changes
        self._instances: tuple[str, ...] = ()
        self.set_faults()

    def show(self, *uuids: str) -> None:
        """Shows these MIG instances as well, like the first card."""
        self._instances = uuids
        self.set_faults()

    def set_faults(self, *faults: CudaFault, driver: int = 13000) -> None:
        """Only these faults, from the next process on."""
        devices = self.node.node
        lines = [f"driver {driver}", *(_line(one, **self._changes) for one in devices)]
        lines += [_line(replace(devices[0], uuid=u), **self._changes) for u in self._instances]
        lines += [
            f"fault {devices[one.device].uuid} {one.kind} {one.part} {one.value:g}"
            for one in faults
        ]
        draft = self.node.folder / f"cuda.{os.getpid()}"
        draft.write_text("".join(f"{line}\n" for line in lines))
        draft.replace(self.node.folder / "cuda")


def _line(
    device: StandInDevice,
    sms: int = 4,
    threads: int = 512,
    mode: int = 0,
    mps: int = 0,
    integrated: int = 0,
    memory: int = 48 * MIB,
) -> str:
    """A small H200: as fast per SM and bit, with less of all."""
    clock, memory_clock = (device.max_sm_clock or 0) * 1000, (device.max_memory_clock or 0) * 1000
    numbers: Sequence[int] = (
        sms, device.capability_major or 0, device.capability_minor or 0, threads, mode, mps,
        integrated, clock, memory_clock, 6016, memory,
    )  # fmt: skip
    return f"device {device.uuid} {' '.join(map(str, numbers))} {device.name}"


def build_cuda(folder: Path) -> Path:
    """Compiles the library into `folder`, unless it exists already; returns the folder."""
    command = [*find_compiler(), "-std=gnu11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra"]
    command += ["-fvisibility=hidden", f"-Wl,-soname,{LIBRARY}"]
    stamp = hashlib.sha256(" ".join(command).encode() + SOURCE.read_bytes()).hexdigest()
    library, marker = folder / LIBRARY, folder / f"{LIBRARY}.stamp"
    if library.exists() and marker.exists() and marker.read_text() == stamp:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{LIBRARY}.{os.getpid()}"
    done = subprocess.run(
        [*command, "-o", str(made), str(SOURCE)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BuildError(f"{command[0]} could not build the stand-in:\n{done.stderr}")
    made.replace(library)
    marker.write_text(stamp)
    return folder
