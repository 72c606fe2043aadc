"""Fixtures that several suites share: the stand-in driver, and the parts that a test needs."""

import atexit
import ctypes
import functools
import gc
import importlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from andon.leases.book.lease_book import Book
from tests.standin import StandIn
from tests.standin import build as build_it
from tests.standin.build import LIBRARY

REPOSITORY = Path(__file__).parent.parent

pytest.register_assert_rewrite("andon.testing", "tests.support", "tests.integration")  # they assert

from tests.support import warm  # noqa: E402 (their asserts are rewritten, too)
from tests.support.homes import no_other_book, own_folders  # noqa: E402

# By --hypothesis-profile `make unit` asks for few examples of each property, `make long` for many.
settings.register_profile("quick", max_examples=3, deadline=None, database=None)
settings.register_profile("usual", max_examples=5, deadline=None)
settings.register_profile("long", max_examples=100, deadline=None)
settings.load_profile("usual")
# A few examples hit no constant of a thousand modules, which take seconds to look through.
providers._get_local_constants = Constants


FAST = tuple(f"{REPOSITORY}/tests/{suite}/" for suite in ("unit", "contract"))
STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "pty.spawn"}
OUTSIDE = (
    "ANDON_",
    "SLURM_",
    "CUDA_",
    "NVIDIA_VISIBLE_DEVICES",
    "COLUMNS",
    "NO_COLOR",
    "FORCE_COLOR",
)
_alone = [False]  # whether the test under way may neither start a process nor leave this machine


def _audited(event: str, arguments: tuple[object, ...], alone: list[bool] = _alone) -> None:
    if not alone[0]:  # an argument, because at the exit of Python a module is emptied
        return
    if event in STARTS:
        raise AssertionError(f"{event}: mark the test with @pytest.mark.process")
    if event == "socket.connect" and isinstance(address := arguments[1], tuple):
        assert address[0] in ("127.0.0.1", "::1", "localhost"), f"{address} is not this machine"


sys.addaudithook(_audited)


class _Report:
    """Writes a line for each part of a test to the file that `dev/test` names."""

    def __init__(self, file: Path) -> None:
        self._lines = file.open("a", encoding="utf-8", buffering=1)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        says = report.when == "call" or report.outcome != "passed"
        if says or report.duration > 0.01:
            line = (report.nodeid, report.outcome if says else "", report.duration)
            self._lines.write(f"{json.dumps(line)}\n")

    def pytest_unconfigure(self) -> None:
        self._lines.close()


def pytest_configure(config: pytest.Config) -> None:
    if file := os.environ.get("TEST_REPORT"):
        config.pluginmanager.register(_Report(Path(file)))


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Units print no dots: to write thousands of them through a pipe takes seconds."""
    if os.environ.get("TEST_DOTS") == "none" and report.when == "call" and report.passed:
        return "passed", "", ""
    return None


NOBODYS_PORT = "9"  # no andon server is there, whatever runs at the usual port
_states, _folders = itertools.count(), itertools.count()


def _forget_surroundings(is_fast: bool) -> None:
    """No test sees this machine's configuration, masks, terminal, state folder or server. No
    fixture for it: as one it took as long as most of the tests."""
    for name in list(os.environ):
        if name.startswith(OUTSIDE):
            del os.environ[name]
    os.environ["XDG_CONFIG_HOME"] = "/nonexistent"
    os.environ["XDG_STATE_HOME"] = f"{_states_folder()}/{next(_states)}"
    os.environ["ANDON_PORT"] = NOBODYS_PORT
    if not is_fast:  # an alert about a busy CPU, which other lanes keep busy, is nobody's finding
        os.environ["ANDON_ALERTS_NODE_CPU_PERCENT"] = "off"


@functools.cache
def _states_folder() -> str:
    """Where each test that names no state folder has one of its own; a command makes it."""
    folder = tempfile.mkdtemp(prefix="andon-states.")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Units and contracts are quick: one that starts a process says so by its mark."""
    is_fast = str(item.path).startswith(FAST)
    _forget_surroundings(is_fast)
    _alone[0] = is_fast and item.get_closest_marker("process") is None
    warm.warmth.is_on = item.get_closest_marker("cold") is None and warm.may_be_warm()
    try:
        return (yield)
    finally:
        _alone[0] = False


# Every command that a test starts may be a forked one.
subprocess.Popen = warm.Popen  # type: ignore[misc]


def pytest_unconfigure() -> None:
    warm.warmth.end()


# Thousands of collected tests are not garbage, and need not be looked through for it.
gc.disable()
gc.set_threshold(20_000, 20, 20)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


# What a shell starts in the background ignores Ctrl-C, and under nohup a hangup; so would every
# command under test. What has a handler here has none in a process that is started from here.
signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this test's own. That of pytest is numbered by a look at those of all others,
    which takes as long as most of the tests."""
    folder = tmp_path_factory.getbasetemp() / str(next(_folders))
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """XDG_STATE_HOME of this test, to be named by it; without this fixture it has one as well."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def book_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this test's lease book, which nobody has made yet."""
    monkeypatch.setenv("ANDON_LEASE_DIR", str(tmp_path / "book"))
    return tmp_path / "book"


@pytest.fixture
def book(book_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Book:
    """This test's lease book, the only one of this machine."""
    no_other_book(monkeypatch)
    return Book()


@pytest.fixture
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder and a lease book of this test's own in the folder, and no home."""
    for name, value in own_folders(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", "/nonexistent")
    return tmp_path


def need(*tools: str) -> None:
    """Go on only with these tools; in CI a missing one is a failure and not a skipped test."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [tool for tool in tools if shutil.which(tool, path=path) is None]
    if not missing:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"these tools are missing: {', '.join(missing)}")
    pytest.skip(f"these tools are missing: {', '.join(missing)}")


@pytest.fixture(scope="session")
def library() -> Path:
    """The folder of the stand-in for NVIDIA's library; built when its sources changed."""
    if sys.platform != "linux":
        pytest.skip("the stand-in is an ELF library")
    before, _alone[0] = _alone[0], False  # a compiler is a process
    try:
        return build_it(REPOSITORY / ".build" / "standin")
    finally:
        _alone[0] = before


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A node of four devices, named in the environment."""
    folder = tmp_path / "standin"
    folder.mkdir()
    monkeypatch.setenv("STANDIN_FOLDER", str(folder))
    control = StandIn(folder)
    control.write(StandIn.devices(4))
    return control


@pytest.fixture
def loaded(library: Path, standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`pynvml` with the stand-in loaded in this process, and not yet initialised."""
    pynvml = importlib.import_module("pynvml")
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(library / LIBRARY)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    standin.reset_calls()
    return pynvml


@pytest.fixture
def nvml(loaded: ModuleType, standin: StandIn) -> Iterator[ModuleType]:
    """`pynvml`, initialised."""
    loaded.nvmlInit()
    yield loaded
    standin.set_faults()
    shut_down(loaded)


def shut_down(pynvml: ModuleType) -> None:
    """Take back every Init of this process; the first makes an uninitialised driver count anew."""
    pynvml.nvmlInit()
    while True:
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            return


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with a golden file; `make golden` writes them anew."""

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / name
        if os.environ.get("UPDATE_GOLDEN"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{name} differs: make golden, and look"

    return compare
