"""A server under measurement: `andon serve` in its own process, and its resource usage."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from ssl import SSLContext
from typing import Any

from msgspec import Struct

from bench.tools import process_cpu_seconds, resident_bytes

READY_SECONDS = 60.0
ANSWER_SECONDS = 30.0
MAIN_THREAD, OTHER_THREADS = "event loop", "others"


class Used(Struct, frozen=True):
    """CPU time of the server and its reader since they started."""

    server_cpu_seconds: float
    reader_cpu_seconds: float
    threads_cpu_seconds: Mapping[str, float]
    """The server's threads by name; threads of one name are counted together."""

    @property
    def cpu_seconds(self) -> float:
        return self.server_cpu_seconds + self.reader_cpu_seconds


class Held(Struct, frozen=True):
    """Memory of the server and its reader, in bytes.

    RSS counts shared pages twice, but is used: PSS falls when any other Python starts.
    """

    server_pss: int
    reader_pss: int
    server_rss: int
    reader_rss: int

    @property
    def pss(self) -> int:
        return self.server_pss + self.reader_pss

    @property
    def rss(self) -> int:
        return self.server_rss + self.reader_rss


class Served(Struct, frozen=True):
    """A running server."""

    port: int
    process: subprocess.Popen[str]
    readers: tuple[int, ...]
    tls: SSLContext | None = None

    def health(self) -> Any:
        return health(self.port, self.tls)

    def connection(self, seconds: float) -> HTTPConnection:
        return _connection(self.port, self.tls, seconds)

    def used(self) -> Used:
        return Used(
            process_cpu_seconds(self.process.pid),
            sum(map(process_cpu_seconds, self.readers)),
            threads_cpu_seconds(self.process.pid),
        )

    def held(self) -> Held:
        own = rollup(self.process.pid)
        readers = [rollup(pid) for pid in self.readers]
        return Held(own[0], sum(r[0] for r in readers), own[1], sum(r[1] for r in readers))


@contextmanager
def served(
    environment: Mapping[str, str],
    state: Path,
    *options: str,
    log: Path | None = None,
    tls: SSLContext | None = None,
) -> Iterator[Served]:
    """A server on a free port, with its history and secrets in `state`; errors go to `log`."""
    command = [sys.executable, "-m", "bench.named_threads", "serve", "--port", "0", "--quiet",
               *options]  # fmt: skip
    with ExitStack() as stack:
        errors = None if log is None else stack.enter_context(log.open("wb"))
        process = subprocess.Popen(
            command, env={**environment, "XDG_STATE_HOME": str(state)}, stdout=subprocess.PIPE,
            stderr=errors, text=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        told = process.stdout.readline()
        found = re.search(r"https?://\S+:(\d+)", told)
        assert found, f"the server did not start: {told}"
        port = int(found[1])
        readers = tuple(reader["pid"] for reader in health(port, tls)["readers"])
        yield Served(port, process, readers, tls)
    finally:
        process.terminate()
        process.wait(READY_SECONDS)


def _connection(port: int, tls: SSLContext | None, seconds: float) -> HTTPConnection:
    if tls is None:
        return HTTPConnection("127.0.0.1", port, timeout=seconds)
    return HTTPSConnection("127.0.0.1", port, timeout=seconds, context=tls)


def health(port: int, tls: SSLContext | None = None) -> Any:
    """A server's health."""
    connection = _connection(port, tls, ANSWER_SECONDS)
    try:
        connection.request("GET", "/api/health")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def threads_cpu_seconds(pid: int) -> dict[str, float]:
    """CPU time of each thread by name; empty if the kernel does not record it."""
    spent: dict[str, float] = {}
    tasks = Path(f"/proc/{pid}/task")
    unnamed = (tasks / str(pid) / "comm").read_text().strip()
    with suppress(FileNotFoundError):  # also for a thread that has just ended
        for folder in tasks.iterdir():
            name = (folder / "comm").read_text().strip()
            name = OTHER_THREADS if name == unnamed else name
            name = MAIN_THREAD if folder.name == str(pid) else name
            run_ns = int((folder / "schedstat").read_text().split()[0])
            spent[name] = spent.get(name, 0.0) + run_ns / 1e9
    return spent


def rollup(pid: int) -> tuple[int, int]:
    """PSS and RSS in bytes: a page that several processes share is divided among them in PSS."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except FileNotFoundError:  # a kernel that does not divide
        return resident_bytes(pid), resident_bytes(pid)
    found = dict(re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE))
    return int(found["Pss"]) * 1024, int(found["Rss"]) * 1024
