"""Where the checks run: a real GPU, idle and under load, or the stand-in."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from tests.device.load import NoLoadError, loaded

SETTLE_SECONDS = 5.0  # utilisation is averaged, and power rises for a while
LOAD_SECONDS = 150.0
GIB = 1 << 30


class SkippedError(Exception):
    """A check that cannot run here; the message says why."""


class Scene(Struct, frozen=True):
    """What the node does while it is sampled."""

    name: str
    busy: bool = False
    pid: int | None = None  # of the process that keeps it busy


class Ground(Protocol):
    """A node that can be idle and busy."""

    def idle(self) -> Scene: ...

    def busy(self) -> Iterator[Scene]:
        """The body of a context manager: busy inside the block."""


class RealGround:
    """This machine's GPUs; the load is a matrix multiplication."""

    def idle(self) -> Scene:
        return Scene("idle")

    def busy(self) -> Iterator[Scene]:
        try:
            with loaded(LOAD_SECONDS) as pid:
                time.sleep(SETTLE_SECONDS)
                yield Scene("under load", True, pid)
        except NoLoadError as exc:
            raise SkippedError(f"no load: {exc}") from exc


class StandInGround:
    """The stand-in: the same checks where there is no GPU. Sets this process's environment."""

    def __init__(self, devices: int) -> None:
        from tests.standin import StandIn, build

        repository = Path(__file__).parent.parent.parent
        library = build(repository / ".build" / "standin")
        self._folder = tempfile.TemporaryDirectory(
            prefix="andon-device-"
        )  # removed with this process
        self._control = StandIn(Path(self._folder.name))
        self._control.write(StandIn.devices(devices))
        os.environ |= self._control.environment(library)

    def idle(self) -> Scene:
        return Scene("idle stand-in")

    def busy(self) -> Iterator[Scene]:
        from tests.standin import StandInProcess

        sleep = shutil.which("sleep") or "sleep"
        with subprocess.Popen([sleep, f"{LOAD_SECONDS:.0f}"]) as process:
            try:
                self._control.change(
                    0,
                    gpu_utilisation=99,
                    power_mw=690_000,
                    sm_clock=1700,
                    used=2 * GIB,
                    processes=(StandInProcess(process.pid, 2 * GIB, sm=98),),
                    gpm={2: 93.0, 5: 71.0},
                )
                yield Scene("stand-in under load", True, process.pid)
            finally:
                process.kill()
                self._control.change(
                    0,
                    gpu_utilisation=0,
                    power_mw=76_000,
                    sm_clock=345,
                    used=0,
                    processes=(),
                    gpm={},
                )


@contextmanager
def busy(ground: Ground) -> Iterator[Scene]:
    """The ground, busy for the length of a `with` block."""
    yield from ground.busy()
