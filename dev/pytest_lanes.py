"""A plugin of pytest: what was collected once is run in lanes, which are forked processes, and each
takes module after module until none is left, the longest first.

To collect all tests takes as long as to run hundreds of them, and so do the interpreters from which
a process of tests forks commands. More lanes than cores: integration tests wait for two thirds of
their time, while units compute. So the last lane begins with the units, and two with the tests in a
browser, which stays open from module to module. A lane's output is printed with its number.
"""

import atexit
import faulthandler
import fcntl
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path

import pytest
from dev.lanes import ROOT, guess_seconds

NUMBER_BYTES = 2  # of a module, in the pipe from which the lanes take them
COMPUTING = ("unit", "contract")
ORDER = ("browsing", "waiting", "computing")  # kinds of modules, as most lanes take them
BROWSERS = 2  # so many lanes begin with a browser
LOGS = "logging-plugin"  # of pytest: it goes through hundreds of loggers six times a test
PATIENCE_SECONDS = 5.0  # a process that a lane left behind may hold its output
LONGEST_SECONDS = 600.0  # of units without timeouts, until a lane prints where it hangs, and exits
DIED = 3  # the exit code if a lane did not end by itself
_summaries = tempfile.mkstemp()[0]  # locked by the lane that prints one


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lanes", type=int, help="how many processes run the tests")
    parser.addoption("--lean", action="store_true", help="for units, none of which takes long")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    config = session.config
    if session.testsfailed or config.option.collectonly:
        return None
    _note_collected(session.items)
    modules = _by_length(session.items)
    queues = {
        kind: _queue(n for n, one in enumerate(modules) if _kind(one) == kind) for kind in ORDER
    }
    last = min(config.option.lanes, len(modules))
    outputs: dict[int, int] = {}  # of each lane, by its process
    for lane in range(1, last + 1):
        reads, writes = os.pipe()
        if (pid := os.fork()) == 0:
            folder = _begin(config, lane, writes)
            order = ORDER[::-1] if lane == last else ORDER[lane > BROWSERS :] + ORDER[:1]
            numbers = _numbers(*(queues[kind] for kind in order))
            items = (item for number in numbers for item in modules[number])
            _run_lean(items, config.pluginmanager) if config.option.lean else _run(items, folder)
            return True
        os.close(writes)
        outputs[pid] = reads
    codes = _show(outputs)
    os._exit(max(codes) if {*codes} <= {0, 1} else DIED)  # the lanes have said it all


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """What a lane prints at its end is not mixed with what another does: locked until it exits."""
    fcntl.lockf(_summaries, fcntl.LOCK_EX)


def _note_collected(items: list[pytest.Item]) -> None:
    """Whoever reads the report finds the tests that never ended."""
    if file := os.environ.get("TEST_REPORT"):
        lines = (f"{json.dumps((item.nodeid, '', 0.0))}\n" for item in items)
        Path(file).write_text("".join(lines), encoding="utf-8")


def _by_length(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    modules = {path: list(of) for path, of in groupby(items, lambda item: item.path)}
    guesses = {path: guess_seconds(str(path.relative_to(ROOT))) for path in modules}
    return [modules[path] for path in sorted(modules, key=guesses.__getitem__, reverse=True)]


def _kind(module: list[pytest.Item]) -> str:
    if module[0].nodeid.split("/")[1] in COMPUTING:
        return "computing"
    browses = any("browser" in getattr(item, "fixturenames", ()) for item in module)
    return "browsing" if browses else "waiting"


def _queue(numbers: Iterable[int]) -> int:
    """A pipe with all of them, from which every lane may read."""
    reads, writes = os.pipe()
    os.write(writes, b"".join(number.to_bytes(NUMBER_BYTES, "big") for number in numbers))
    os.close(writes)
    return reads


def _numbers(*queues: int) -> Iterator[int]:
    for queue in queues:
        while number := os.read(queue, NUMBER_BYTES):
            yield int.from_bytes(number, "big")


def _begin(config: pytest.Config, lane: int, output: int) -> Path:
    """Gives a forked process its own output, what it captures of it, and a folder."""
    capture = config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    capture.stop_global_capturing()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    capture.start_global_capturing()
    capture.suspend_global_capture()
    given = config.option.basetemp
    folder = Path(f"{given}.{lane}" if given else tempfile.mkdtemp(prefix="andon-lane."))
    if not given:
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    config._tmp_path_factory._given_basetemp = folder  # type: ignore[attr-defined]
    return folder


def _run(items: Iterator[pytest.Item], folder: Path) -> None:
    item = next(items, None)
    while item is not None:
        now, item = item, next(items, None)
        now.ihook.pytest_runtest_protocol(item=now, nextitem=item)
        if item is None or item.path != now.path:
            for made in folder.glob("[0-9]*"):  # by tests; what has a name may be a session's
                shutil.rmtree(made, ignore_errors=True)


def _run_lean(items: Iterator[pytest.Item], plugins: pytest.PytestPluginManager) -> None:
    """Without timeouts, logs that nobody reads, and the lines of tests, which it takes long to
    find. What hangs is shown where it does."""
    faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True)
    logs = plugins.unregister(name=LOGS)
    item = next(items, None)
    while item is not None:
        if reads_logs := "caplog" in getattr(item, "fixturenames", ()):
            plugins.register(logs, LOGS)
        path, _, name = item.nodeid.partition("::")
        item.location = (path, 0, name.replace("::", "."))
        now, item = item, next(items, None)
        now.ihook.pytest_runtest_protocol(item=now, nextitem=item)
        if reads_logs:
            plugins.unregister(name=LOGS)
    faulthandler.cancel_dump_traceback_later()


def _show(outputs: dict[int, int]) -> list[int]:
    """Prints what the lanes print until all have ended, and returns their exit codes."""
    readers = [
        threading.Thread(target=_repeat, args=(lane, output), daemon=True)
        for lane, output in enumerate(outputs.values(), 1)
    ]
    for reader in readers:
        reader.start()
    codes = []
    for pid in outputs:
        with suppress(KeyboardInterrupt):  # the lanes have heard it as well: they end what they run
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    for reader in readers:
        reader.join(PATIENCE_SECONDS)
    return codes


def _repeat(lane: int, output: int) -> None:
    with os.fdopen(output, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            sys.stdout.write(f"{lane} | {line}")
            sys.stdout.flush()
