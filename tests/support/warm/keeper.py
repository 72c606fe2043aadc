"""Imports andon, then forks a command for each request until the test is gone.

A command is forked twice: the one between ends at once, so that the command becomes a child of the
test, which waits for it as for any other.
"""

import atexit
import ctypes
import fcntl
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import resource
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from tests.support.warm.request import HEADER, MOST_DESCRIPTORS, Start, at_start, plain_start

# Of the surfaces only the commands: the others take as long again as the rest.
_SURFACES = ("andon.api", "andon.exporter", "andon.testing", "andon.tui", "andon.web")
PRELOADED = tuple(
    f"andon.{path.name}"
    for path in sorted((Path(__file__).parents[3] / "src" / "andon").iterdir())
    if (path / "__init__.py").exists() and f"andon.{path.name}" not in _SURFACES
)
PRELOADED_FOR = {
    "serve": (
        "andon.web", "andon.exporter", "uvicorn.lifespan.on", "uvicorn.loops.asyncio",
        "uvicorn.protocols.websockets.wsproto_impl", "pydantic.v1",
    ),
    "top": ("andon.tui",),
}  # fmt: skip
_SET_MM, _MAP = 35, 14
ROOT = str(Path(__file__).parents[3])
_kept: list[object] = []


@functools.cache
def preload(name: str) -> None:
    with suppress(ImportError):  # of an optional library
        importlib.import_module(name)
    within = getattr(sys.modules.get(name), "__path__", None) if name.startswith("andon.") else None
    for found in pkgutil.iter_modules(within or (), f"{name}."):
        if not found.name.endswith("__main__"):
            preload(found.name)


def preload_all(names: Iterable[str]) -> None:
    before = len(sys.modules)
    for name in names:
        preload(name)
    if len(sys.modules) > before:
        gc.collect()
        gc.freeze()


def next_command(connection: socket.socket) -> tuple[Start, list[int]]:
    """Returns in the process of a command alone; this one goes on until the test is gone."""
    while True:
        header, descriptors, _, _ = socket.recv_fds(connection, HEADER.size, MOST_DESCRIPTORS)
        if not header:
            os._exit(0)
        start: Start = json.loads(_read(connection, HEADER.unpack(header)[0]))
        preload_all(name for w in {*start["args"]} for name in PRELOADED_FOR.get(w, ()))
        between = os.fork()
        if between:
            os.waitpid(between, 0)
            for descriptor in descriptors:
                os.close(descriptor)
        elif os.fork():
            os._exit(0)
        else:
            while os.getppid() != start["parent"]:
                time.sleep(0.0002)
            connection.send(str(os.getpid()).encode())
            connection.close()
            return start, descriptors


def become(start: Start, descriptors: list[int]) -> None:
    """What an interpreter that was started with these words would be."""
    if start["session"]:
        os.setsid()
    if start["group"] >= 0:
        os.setpgid(0, start["group"])
    _place(descriptors, start["passed"])
    os.chdir(start["cwd"])
    os.umask(start["umask"])
    if start["most_files"] is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (start["most_files"],) * 2)
    os.environ.clear()
    os.environ.update(start["env"])
    flags = start["args"][1 : start["args"].index("-m")]
    sys.orig_argv[:] = start["args"]
    sys.argv[:] = start["args"][len(flags) + 2 :]
    if ROOT not in start["env"].get("PYTHONPATH", "").split(os.pathsep) and ROOT in sys.path:
        sys.path.remove(ROOT)
    if "-P" not in flags:
        sys.path.insert(0, start["cwd"])
    _show(start)
    _open_streams("-u" in flags)


def _place(descriptors: list[int], passed: list[int]) -> None:
    """The standard descriptors and those that are passed, each at its number, and no others."""
    above = max([2, *passed]) + 1
    high = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, above) for one in descriptors]
    numbers = [0, 1, 2, *passed]
    for descriptor, number in zip(high, numbers, strict=True):
        os.dup2(descriptor, number)
    for file in list(Path("/proc/self/fd").iterdir()):
        if int(file.name) not in numbers:
            with suppress(OSError):  # that of the listing
                os.close(int(file.name))


def run(start: Start, descriptors: list[int]) -> NoReturn:
    """Be this command, and end as an interpreter does, without tidying up what was preloaded."""
    try:
        become(start, descriptors)
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    finally:
        code = _exit_code(sys.exc_info()[1])
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        if code < 0:
            signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code)


def _exit_code(error: BaseException | None) -> int:
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    if isinstance(error.code, int | None):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1


class Popen(subprocess.Popen[Any]):
    """Of a forked command: forks in turn what it starts of andon while it has a single thread."""

    def _execute_child(self, args: Any, *rest: Any) -> None:
        is_single = len(list(Path("/proc/self/task").iterdir())) == 1
        found = plain_start(args, rest) if is_single else None
        if found is None or at_start(found[0]["env"]) != at_start(os.environ):
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        self.pid = os.fork()
        if not self.pid:
            _forget_parent()
            run(*found)
        self._child_created = True
        self._close_pipe_fds(*rest[9:15])  # type: ignore[attr-defined]


def _forget_parent() -> None:
    """What exec would leave behind; what the parent had open must not be flushed or closed here."""
    _kept.append((sys.stdin, sys.stdout, sys.stderr))
    gc.freeze()
    atexit._clear()
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)) and number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _open_streams(unbuffered: bool) -> None:
    encoding, errors = sys.stdout.encoding, sys.stdout.errors
    told = io.BufferedReader(io.FileIO(0, closefd=False))
    sys.stdin = io.TextIOWrapper(told, sys.stdin.encoding, sys.stdin.errors)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(number, "w", closefd=False)),
            encoding,
            "backslashreplace" if name == "stderr" else errors,
            line_buffering=name == "stderr" or os.isatty(number),
            write_through=unbuffered,
        )
        setattr(sys, name, stream)


class _Map(ctypes.Structure):
    """`struct prctl_mm_map` of Linux."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in (
            "start_code", "end_code", "start_data", "end_data", "start_brk", "brk", "start_stack",
            "arg_start", "arg_end", "env_start", "env_end", "auxv",
        )),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    ]  # fmt: skip


def _show(start: Start) -> None:
    """Show its own words and variables in /proc."""
    words = b"".join(os.fsencode(word) + b"\0" for word in start["args"])
    variables = b"".join(os.fsencode(f"{n}={v}") + b"\0" for n, v in start["env"].items())
    memory = ctypes.create_string_buffer(words + variables)
    _kept.append(memory)
    first = ctypes.addressof(memory)
    middle, last = first + len(words), first + len(words) + len(variables)
    library = ctypes.CDLL(None)
    library.sbrk.restype = ctypes.c_uint64
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    field = {number: int(text) for number, text in enumerate(stat[1:], start=4)}  # as in proc(5)
    changed = _Map(
        field[26], field[27], field[45], field[46], field[47], library.sbrk(0), field[28],
        first, middle, middle, last, 0, 0, 0xFFFFFFFF,
    )  # fmt: skip
    size = ctypes.c_ulong(ctypes.sizeof(changed))
    library.prctl(_SET_MM, _MAP, ctypes.byref(changed), size, ctypes.c_ulong(0))


def _read(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            os._exit(0)
        found += more
    return bytes(found)


def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    preload_all(PRELOADED)
    start, descriptors = next_command(connection)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    subprocess.Popen = Popen  # type: ignore[misc]
    run(start, descriptors)


if __name__ == "__main__":
    main()
