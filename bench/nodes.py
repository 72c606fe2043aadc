"""The nodes to measure: this machine's driver, or the stand-in with real processes."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from tests.standin import StandIn

Environment = Mapping[str, str]

BUILD = Path(__file__).parent.parent / ".build" / "standin"
LONGEST_SECONDS = 24 * 3600
GIB = 1 << 30


@contextmanager
def standin(
    devices: int, processes: int, lively: bool = False, utilisation: int = 71
) -> Iterator[Environment]:
    """A node of busy devices, with `sleep` processes spread over them so that names resolve.

    On a lively one the readings of every device change once a second.
    """
    from tests.standin import StandIn, StandInProcess, build

    library = build(BUILD)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="andon-bench-")))
        pids = [stack.enter_context(_sleeper()) for _ in range(processes)]
        control = StandIn(folder, per_second=False)
        control.write(
            StandIn.devices(
                devices, gpu_utilisation=utilisation, memory_utilisation=30, power_mw=412_000
            )
        )
        for index in range(devices):
            mine = tuple(StandInProcess(pid, GIB, sm=10) for pid in pids[index::devices])
            control.change(index, processes=mine, used=GIB * len(mine))
        if lively:
            stack.enter_context(_changing(control))
        yield control.environment(library)


@contextmanager
def hung_standin(devices: int) -> Iterator[Environment]:
    """A node whose driver answers nothing."""
    from tests.standin import StandIn, build, hung

    with tempfile.TemporaryDirectory(prefix="andon-bench-") as folder:
        control = StandIn(Path(folder), per_second=False)
        control.write(StandIn.devices(devices))
        control.set_faults(hung())
        yield control.environment(build(BUILD))


@contextmanager
def _changing(control: "StandIn") -> Iterator[None]:
    """A tool that caches must not look cheaper here than on a busy node."""
    ended = threading.Event()

    def change() -> None:
        second = 0
        while not ended.wait(1.0):
            second += 1
            control.write(
                [
                    replace(
                        device,
                        gpu_utilisation=30 + (7 * second + 11 * index) % 70,
                        memory_utilisation=10 + (5 * second + 3 * index) % 50,
                        power_mw=300_000 + (7919 * second + 104_729 * index) % 390_000,
                        temperature=55 + (second // 3 + index) % 20,
                        sm_clock=1_500 + 15 * ((second + 5 * index) % 32),
                    )
                    for index, device in enumerate(control.node)
                ]
            )

    changing = threading.Thread(target=change)
    changing.start()
    try:
        yield
    finally:
        ended.set()
        changing.join()


@contextmanager
def real(load: bool) -> Iterator[Environment]:
    """This machine's driver; `load` keeps its first device busy, with one process."""
    with ExitStack() as stack:
        if load:
            from tests.device.load import loaded

            stack.enter_context(loaded(LONGEST_SECONDS))
        yield dict(os.environ)


@contextmanager
def _sleeper() -> Iterator[int]:
    sleep = shutil.which("sleep") or "sleep"
    process = subprocess.Popen([sleep, str(LONGEST_SECONDS)], stdin=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def command(*arguments: str) -> list[str]:
    """A worker under this interpreter."""
    return [sys.executable, "-m", "bench.worker", *arguments]
