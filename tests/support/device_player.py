"""A command that plays a program on a device, and the thread that gives it the memory it asks for.

The command asks through files in a folder. The thread sets the stand-in's memory, and answers once
the driver has been asked for it again: so a sample of the trial has seen it.
"""

import threading
from pathlib import Path
from types import TracebackType

from tests.standin import StandIn, StandInProcess

MEMORY = "nvmlDeviceGetMemoryInfo_v2"
PROGRAM = r"""
import os, pathlib, sys, time
folder, n, base, each, total = pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:6])
want = base + each * n
asked, answer = folder / f"{os.getpid()}.asks", folder / f"{os.getpid()}.has"
draft = asked.with_suffix(".draft")
draft.write_text(str(min(want, total)))
draft.rename(asked)
until = time.monotonic() + 60
while not answer.exists() and time.monotonic() < until:
    time.sleep(0.01)
if want > total:
    sys.stderr.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    sys.exit(1)
print(f"samples/s: {10 * n}")
"""


class DevicePlayer:
    """Gives memory of one stand-in device to the programs that ask for it."""

    def __init__(self, node: StandIn, device: int, folder: Path) -> None:
        self._node, self._device, self.folder = node, device, folder
        folder.mkdir()
        self.program = folder / "play.py"
        self.program.write_text(PROGRAM)
        self._over = threading.Event()
        self._holders: dict[int, int] = {}
        self._answers: dict[Path, int] = {}
        self._thread = threading.Thread(target=self._play, daemon=True)

    def __enter__(self) -> "DevicePlayer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        at: TracebackType | None,
    ) -> None:  # fmt: skip
        self._over.set()
        self._thread.join(10)

    def _play(self) -> None:
        while not self._over.wait(0.005):
            for asked in self.folder.glob("*.asks"):
                pid = int(asked.stem)
                self._holders[pid] = int(asked.read_text())
                asked.unlink()
                self._show()
                self._answers[asked.with_suffix(".has")] = self._calls() + 2
            gone = [pid for pid in self._holders if not Path(f"/proc/{pid}").exists()]
            for pid in gone:
                del self._holders[pid]
            if gone:
                self._show()
            for answer, calls in list(self._answers.items()):
                if self._calls() >= calls:
                    answer.touch()
                    del self._answers[answer]

    def _calls(self) -> int:
        return self._node.calls(self._device).get(MEMORY, 0)

    def _show(self) -> None:
        processes = tuple(StandInProcess(*one) for one in self._holders.items())
        self._node.change(self._device, used=sum(self._holders.values()), processes=processes)
