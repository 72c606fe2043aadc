"""A plugin of pytest for `make unit`: what was collected once is run in lanes, which are forked
processes, and each takes module after module until none is left. What pytest does around each test
and these tests can do without is left out: it takes longer than most of them."""

import faulthandler
import fcntl
import os
import tempfile
import threading
from collections.abc import Iterator
from itertools import groupby

import pytest

# What takes long for its size is taken first, and then the others, the largest first.
LONG = (
    "tests/contract/test_stores.py", "tests/unit/alerts/test_timelines.py",
    "tests/unit/exporter/test_export_sending.py", "tests/unit/fleet/test_uplink.py",
    "tests/contract/test_nodes.py", "tests/contract/test_run_indexes.py",
    "tests/unit/cli/test_cli_runs.py", "tests/unit/history/test_lab_day.py",
    "tests/unit/sampling/test_tick_counts.py", "tests/unit/cli/test_cli_history.py",
    "tests/unit/explain/test_one_lamp.py", "tests/unit/access/test_sign_in.py",
    "tests/unit/stores/test_sqlite.py", "tests/unit/node/test_server_calls.py",
    "tests/unit/alerts/test_watcher.py", "tests/unit/web/test_web_live_transport.py",
)  # fmt: skip
NUMBER_BYTES = 2  # of a module, in the pipe from which the lanes take them
LONGEST_SECONDS = 600.0  # until a lane that hangs prints where, and exits: no timeout of each test
LOGS = "logging-plugin"  # of pytest: it goes through hundreds of loggers six times a test
_summaries = tempfile.mkstemp()[0]  # locked by the lane that prints


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lanes", type=int, default=1, help="processes that run the tests")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if session.testsfailed or session.config.option.collectonly:
        return None
    assert threading.active_count() == 1, f"a fork leaves them behind: {threading.enumerate()}"
    modules = _by_length(session)
    taking, giving = os.pipe()
    os.write(giving, b"".join(n.to_bytes(NUMBER_BYTES, "big") for n in range(len(modules))))
    os.close(giving)
    others: list[int] = []
    while len(others) < session.config.option.lanes - 1:
        if (pid := os.fork()) == 0:
            others.clear()
            break
        others.append(pid)
    faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True)
    _run(item for number in _numbers(taking) for item in modules[number])
    faulthandler.cancel_dump_traceback_later()
    for pid in others:
        session.testsfailed += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """What a lane prints at its end is not mixed with what another does: locked until it exits."""
    fcntl.lockf(_summaries, fcntl.LOCK_EX)


def _by_length(session: pytest.Session) -> list[list[pytest.Item]]:
    modules = {path: list(of) for path, of in groupby(session.items, lambda item: item.path)}
    first = [session.startpath / name for name in LONG]
    order = sorted(modules, key=lambda path: (path in first, path.stat().st_size), reverse=True)
    return [modules[path] for path in order]


def _numbers(taking: int) -> Iterator[int]:
    while number := os.read(taking, NUMBER_BYTES):
        yield int.from_bytes(number, "big")


def _run(items: Iterator[pytest.Item]) -> None:
    item = next(items, None)
    if item is None:
        return
    plugins = item.config.pluginmanager
    logs = plugins.unregister(name=LOGS)
    while item is not None:
        if needs_logs := "caplog" in getattr(item, "fixturenames", ()):
            plugins.register(logs, LOGS)
        path, _, name = item.nodeid.partition("::")
        item.location = (path, 0, name.replace("::", "."))  # to find the line takes longer
        now, item = item, next(items, None)
        now.ihook.pytest_runtest_protocol(item=now, nextitem=item)
        if needs_logs:
            plugins.unregister(name=LOGS)
