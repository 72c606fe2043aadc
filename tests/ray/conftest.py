"""One cluster for all tests: its start takes most of the time."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

BIN = Path(__file__).parents[2] / ".build/ray/bin"
PORT, DASHBOARD = 41810, 41811
START_SECONDS = 150
GPUS = {"n1": "GPU-aaaa,GPU-bbbb", "n2": "GPU-cccc,GPU-dddd,GPU-eeee,GPU-ffff"}


class RealRay:
    """A head with two GPUs and a node with four; only names of them, no driver."""

    url = f"http://127.0.0.1:{DASHBOARD}"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "home").mkdir()
        self._environment = {
            **os.environ, "HOME": str(folder / "home"), "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_raylet_start_wait_time_s": "120", "PATH": f"{BIN}:{os.environ['PATH']}",
        }  # fmt: skip
        self._start("n1", "--head", f"--port={PORT}", f"--dashboard-port={DASHBOARD}",
                    f"--temp-dir={folder}/r", "--dashboard-agent-listen-port=41812",
                    "--min-worker-port=41820", "--max-worker-port=41899")  # fmt: skip
        self._start("n2", f"--address=127.0.0.1:{PORT}", "--dashboard-agent-listen-port=41813",
                    "--min-worker-port=41900", "--max-worker-port=41979")  # fmt: skip
        self.until(lambda: len(self.rows()) == 2, "both nodes")

    def _start(self, name: str, *words: str) -> None:
        gpus = GPUS[name]
        # A node that does not start within a minute gives up, also on a machine with other work.
        first = ("nice", "-n", "-19") if os.getuid() == 0 else ()
        command = [*first, str(BIN / "ray"), "start", f"--num-gpus={gpus.count(',') + 1}",
                   "--num-cpus=8", f"--node-name={name}", *words]  # fmt: skip
        with (self.folder / f"log-{name}").open("wb") as log:
            subprocess.run(
                command, env={**self._environment, "CUDA_VISIBLE_DEVICES": gpus}, check=True,
                stdout=log, stderr=subprocess.STDOUT, timeout=START_SECONDS,
            )  # fmt: skip

    def rows(self) -> list[dict[str, object]]:
        with urllib.request.urlopen(f"{self.url}/api/v0/nodes?detail=1", timeout=30) as answer:
            found: list[dict[str, object]] = json.load(answer)["data"]["result"]["result"]
        return [row for row in found if row["state"] == "ALIVE"]

    def until(self, is_so: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while True:
            with suppress(OSError):
                if is_so():
                    return
            assert time.monotonic() < end, f"no {what} after {seconds:g} s"
            time.sleep(0.2)

    def processes(self, *signs: str) -> Sequence[int]:
        """The processes of this cluster whose command lines have these words."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdecimal():
                    words = (entry / "cmdline").read_bytes().decode(errors="replace")
                    if str(self.folder) in words and all(sign in words for sign in signs):
                        found.append(int(entry.name))
        return found

    def close(self) -> None:
        for _ in range(20):
            for process in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            if not self.processes():
                return
            time.sleep(0.2)


@pytest.fixture(scope="session")
def ray() -> Iterator[RealRay]:
    assert (BIN / "ray").exists(), "dev/ray installs it"
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))  # sockets have short paths
    made = None
    try:
        made = RealRay(folder)
        yield made
    finally:
        if made is not None:
            made.close()
        shutil.rmtree(folder, ignore_errors=True)
