"""With a server here, what shows devices once asks it, loads no reader, and says the same."""

import json
import os
import re
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from andon.cli.catalogue import COMMANDS
from tests.integration.parts import free_port, need_root, wait_until
from tests.integration.serving import serving
from tests.standin import StandIn, StandInProcess, lost
from tests.support.homes import own_folders
from tests.support.snapshots import GOLDEN

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is an ELF library")

GIB = 1 << 30
ANDON = (sys.executable, "-m", "andon.cli")
LEAN = GOLDEN / "loaded_told.json"  # what of ours a told status loads
MOVING = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+|\d+:\d\d:\d\d|"
    r"^(?:\x1b\[2m)?CPU [\s\S]*?load (?:\x1b\[0m)?[\d.]+|"
    r" *\((?:\d+ (?:h|min|s) )+ago\)| *(?:for )?(?:\d+ (?:h|min|s)\b *)+",
    re.MULTILINE,
)
"""The time, how long a process has run, and the values of the node itself."""
SAID = """
import json, os, subprocess, sys
started, start = [], subprocess.Popen.__init__
def counted(self, words, *more, **named):
    started.append(words)
    start(self, words, *more, **named)
subprocess.Popen.__init__ = counted
fork = os.fork
def forked():
    started.append("fork")
    return fork()
os.fork = forked
leave = os._exit
command = os.getpid()
def told(code):
    if os.getpid() != command:
        leave(code)
    ours = sorted(name for name in sys.modules if name.startswith("andon."))
    sys.stderr.write("\\n" + json.dumps([len(started), ours, "http.client" in sys.modules]))
    sys.stderr.flush()
    leave(code)
os._exit = told
from andon.cli.entry import main
main()
"""

LOADED = """
import os, sys
leave = os._exit
def left(code):
    sys.stderr.write(" ".join(sys.modules))
    sys.stderr.flush()
    leave(code)
os._exit = left
from andon.cli.entry import main
main()
"""
ORDINARY = {"ANDON_COLOR": "auto"}  # a setting, so that the command draws by itself
DRAWING = {
    "andon", "andon.access", "andon.access.look", "andon.cli", "andon.cli.drawn_table",
    "andon.cli.entry", "andon.cli.screen", "andon.host", "andon.host.socket_peers",
    "andon.version", "_socket", "gc",
}  # fmt: skip
"""All that is loaded to print a table that the server has drawn."""
NOT_NEEDED = {
    "argparse", "click", "http", "json", "selectors", "socket", "struct", "subprocess", "threading",
}  # fmt: skip


class Ran(NamedTuple):
    """What a command printed, how many processes it started, and what it loaded of ours."""

    text: str
    processes: int
    modules: frozenset[str]
    by_http: bool


class Node(NamedTuple):
    """A machine with four GPUs of all kinds, and its server."""

    environment: Mapping[str, str]
    standin: StandIn

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.environment['ANDON_PORT']}"

    def run(self, *words: str, **more: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-c", SAID, *words], capture_output=True, text=True, timeout=120,
            env={**os.environ, **self.environment, **more}, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        processes, modules, by_http = json.loads(done.stderr.splitlines()[-1])
        return Ran(MOVING.sub("", done.stdout), processes, frozenset(modules), by_http)

    def text(self, *words: str, **more: str) -> str:
        """What a command prints, without what it started and loaded: it may be forked."""
        done = subprocess.run(
            [*ANDON, *words], capture_output=True, text=True, timeout=120,
            env={**os.environ, **self.environment, **more}, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return MOVING.sub("", done.stdout)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("look")
    standin = StandIn(folder / "standin")
    idle, busy, broken, cordoned = StandIn.devices(4)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as work:
        on_it = (StandInProcess(work.pid, 40 * GIB, sm=80),)
        standin.write(
            (
                idle,
                replace(busy, used=40 * GIB, gpu_utilisation=80, sm_clock=1980, processes=on_it),
                replace(broken, ecc_uncorrected=2),
                cordoned,
            )
        )
        surroundings: dict[str, Any] = {
            **standin.environment(library),
            **own_folders(folder),
            "COLUMNS": "130",
        }
        try:
            with serving(folder / "state", simulate=None, **surroundings) as served:
                found = Node({**surroundings, "ANDON_PORT": str(served.port)}, standin)
                found.text("cordon", "3", "--reason", "loud")
                found.text("jobs", "pause")
                found.text("submit", "--name", "later", "--gpus", "1", "--", "true")
                assert "cordoned" in found.text("status"), "at once, whatever the server lists"
                wait_until(lambda: not _reads_the_book(found), "the server to list the cordon")
                yield found
        finally:
            work.kill()
            work.wait()


class Shown(NamedTuple):
    """What a command wrote to standard output, its exit code, and every module it loaded."""

    text: str
    code: int
    modules: frozenset[str]

    @property
    def is_drawn(self) -> bool:
        """Whether a server has drawn it."""
        return "msgspec" not in self.modules


def show(
    node: Node, *words: str, width: int | str = 120, screen: str = "pipe", **more: str
) -> Shown:
    """Runs a command of a user without settings, on a pipe or on a terminal of this width."""
    text, code, loaded = _run(node, (sys.executable, "-c", LOADED, *words), width, screen, more)
    return Shown(text, code, frozenset(loaded.split()))


def printed(
    node: Node, *words: str, width: int | str = 120, screen: str = "pipe", **more: str
) -> tuple[str, int]:
    """The same without what it loaded: it may be forked."""
    return _run(node, (*ANDON, *words), width, screen, more)[:2]


def _run(
    node: Node, command: Sequence[str], width: int | str, screen: str, more: Mapping[str, str]
) -> tuple[str, int, str]:
    """The output of a command, its exit code and what it wrote to standard error."""
    given = {**os.environ, **node.environment, "COLUMNS": str(width), **more}
    env = {name: text for name, text in given.items() if not name.startswith("ANDON_ALERTS_")}
    read, write = os.pipe()
    if screen != "pipe":
        os.close(read)
        os.close(write)
        del env["COLUMNS"]
        env |= {"TERM": "xterm", "NO_COLOR": "1" if screen == "plain" else ""}
        read, write = os.openpty()
        termios.tcsetwinsize(write, (50, int(width)))
    with (
        os.fdopen(read, "rb", 0) as output,
        subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE, env=env) as process,
    ):
        os.close(write)
        text = b""
        with suppress(OSError):  # a terminal without a program
            while piece := output.read(1 << 16):
                text += piece
        assert process.stderr is not None
        errors = process.stderr.read().decode()
    shown = MOVING.sub("", text.decode()).replace("lost·", "lost ·")  # from its first second on
    return shown, process.returncode, errors


def drawn(
    node: Node, *words: str, width: int | str = 120, screen: str = "pipe", **more: str
) -> Shown:
    """The same, drawn by the server: it does not if this machine keeps it from reading in time."""
    for _ in range(20):
        found = show(node, *words, width=width, screen=screen, **more)
        if found.is_drawn:
            return found
    pytest.fail("the server does not draw")


def _reads_the_book(node: Node) -> bool:
    return "andon.leases.book.lease_book" in node.run("status").modules


NOT_COMPARED = {"estimate", "nodes", "open", "release", "token", "top", "watch"}
"""They change something, draw a screen, or show what moves with every reading."""
SHOWN = (
    ("status",), ("status", "0", "2"), ("free",), ("free", "--gpus", "1"),
    ("ps",), ("ps", "1"), ("who",), ("devices",), ("leases",),
)  # fmt: skip


ANSWERED = (
    ("devices", "--topology"), ("why",), ("why", "1"), ("alerts",), ("alerts", "1", "2"),
    ("alerts", "rules"), ("alerts", "rules", "thermal"), ("history", "--who"), ("runs",),
    ("jobs",),
)  # fmt: skip


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_the_lines_are_those_of_a_reading_and_of_a_named_server_and_no_reader_starts(
    node: Node, words: tuple[str, ...]
) -> None:
    told = node.run(*words)
    assert told.text == node.text(*words, "--fresh")
    assert told.processes == 0
    assert not told.by_http or words[0] not in ("status", "free", "ps")
    assert not [name for name in told.modules if name.startswith("andon.drivers")]
    assert "andon.sampling.readers" not in told.modules
    same_there(node, words, told.text)


@pytest.mark.parametrize("words", ANSWERED, ids=" ".join)
def test_a_command_shows_the_same_rows_of_a_named_server(
    node: Node, words: tuple[str, ...]
) -> None:
    same_there(node, words, node.text(*words))


def same_there(node: Node, words: tuple[str, ...], here: str) -> None:
    there = node.run(*words, "--url", node.url)
    if spaced(there.text) != spaced(here):  # an alert may begin or fire between the two
        here = node.text(*words)
    assert spaced(there.text) == spaced(here)
    assert there.processes == 0


def spaced(text: str) -> list[list[str]]:
    """The words of each line: columns become wider as times do."""
    return [line.split() for line in text.splitlines()]


def test_every_command_that_takes_a_server_is_compared() -> None:
    """By the texts of help, which a unit test compares with those of the commands."""
    taking = {name for name in COMMANDS if "--url" in (GOLDEN / f"help/{name}.txt").read_text()}
    assert taking - {words[0] for words in (*SHOWN, *ANSWERED)} == NOT_COMPARED


def test_status_asks_once_and_loads_neither_book_nor_alerts(node: Node) -> None:
    told = node.run("status")
    others = (
        "andon.leases.book.lease_book",
        "andon.sampling.sampler",
        "andon.leases.rules",
        "andon.alerts.rules",
    )
    assert [name for name in told.modules if name.startswith(others)] == []
    assert node.run("status", "--fresh").processes == 1
    hidden = node.run("status", CUDA_VISIBLE_DEVICES="1")
    assert hidden.text == node.text("status", "--fresh", CUDA_VISIBLE_DEVICES="1")
    assert hidden.processes == 0


def test_status_loads_little_for_a_servers_answer(node: Node) -> None:
    """It takes the time of its imports: no module of ours is added without a reason."""
    told = show(node, "status", **ORDINARY)
    assert not told.is_drawn
    assert told.code == 0
    assert "H200" in told.text or "H100" in told.text
    found = told.modules
    assert not NOT_NEEDED & found
    ours = sorted(name for name in found if name.partition(".")[0] == "andon")
    kept = json.loads(LEAN.read_text())
    if os.environ.get("UPDATE_GOLDEN"):
        LEAN.write_text(json.dumps(ours, indent=1) + "\n")
    assert len(ours) <= len(kept), sorted(set(ours) - set(kept))


def test_why_takes_what_the_server_remembers(node: Node) -> None:
    told = node.run("why")
    assert "uncorrectable memory errors" in told.text.lower()
    assert told.processes == 0


@pytest.mark.parametrize("screen", ["pipe", "coloured", "plain"])
@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_table_that_the_server_draws_is_the_commands_own(
    node: Node, width: int, screen: str
) -> None:
    for words in ((), ("status",)):
        by_server = drawn(node, *words, width=width, screen=screen)
        own = printed(node, *words, width=width, screen=screen, **ORDINARY)
        assert by_server[:2] == own
        assert ("Next: andon watch" in own[0]) == (screen != "pipe" and not words)
        assert ("\x1b[" in own[0]) == (screen == "coloured")
    assert by_server[:2] == printed(node, "status", "--fresh", width=width, screen=screen)
    assert by_server.code == 0


def test_to_print_a_drawn_table_next_to_nothing_is_loaded(node: Node) -> None:
    command = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    before = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    for words in ((), ("status",)):
        assert drawn(node, *words).modules - set(before) <= DRAWING


def test_a_drawn_table_shows_a_silent_device_a_lease_and_a_cordon(node: Node) -> None:
    hold = ("lease", "--devices", "0", "--for", "1h", "--", "sleep", "600")
    holding = subprocess.Popen(
        [*ANDON, *hold], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, env={**os.environ, **node.environment},
    )  # fmt: skip
    try:
        wait_until(lambda: "held by" in drawn(node).text, "the server to list the lease")
        by_server = drawn(node)
        assert "cordoned" in by_server.text
        assert by_server[:2] == printed(node, **ORDINARY)
        assert by_server[:2] == printed(node, "status", "--fresh")
        with node.standin.broken(lost(2)):
            wait_until(lambda: "lost" in drawn(node).text, "the server to miss the device")
            assert drawn(node)[:2] == printed(node, **ORDINARY)
    finally:
        holding.terminate()
        holding.wait()
    wait_until(lambda: "lost" not in drawn(node).text, "the device to be back")


def test_a_change_of_the_book_is_shown_at_once(node: Node) -> None:
    for number in range(3):
        node.text("cordon", "0", "--reason", str(number))
        assert "GPU 0, 3 (cordoned)" in show(node).text
        node.text("uncordon", "0")
        assert "GPU 3 (cordoned)" in show(node).text


@pytest.mark.parametrize(
    "given",
    [
        {"CUDA_VISIBLE_DEVICES": "1"}, {"COLUMNS": "200"}, {"TZ": "JST-9"},
        {"PYTHONIOENCODING": "ascii"}, {"ANDON_LEASE_DIR": "/nonexistent/book"},
        {"XDG_CONFIG_HOME": "x"},
    ],
    ids=lambda given: next(iter(given)),
)  # fmt: skip
def test_where_the_table_could_be_another_the_command_draws_it(
    node: Node, given: Mapping[str, str]
) -> None:
    assert not show(node, **given).is_drawn


def test_a_setting_of_the_user_is_kept(node: Node, tmp_path: Path) -> None:
    (tmp_path / "andon").mkdir()
    assert drawn(node, XDG_CONFIG_HOME=str(tmp_path)).code == 0
    (tmp_path / "andon" / "andon.toml").write_text('[display]\ncolor = "always"\n')
    assert not show(node, XDG_CONFIG_HOME=str(tmp_path)).is_drawn


def test_what_a_container_runtime_was_asked_for_changes_nothing(node: Node) -> None:
    asked = {"NVIDIA_VISIBLE_DEVICES": "all"}
    assert drawn(node, **asked)[:2] == printed(node, **asked, **ORDINARY)


def test_a_full_disk_and_a_closed_pipe_are_met_as_on_the_ordinary_way(node: Node) -> None:
    usual = {**os.environ, **node.environment, "COLUMNS": "120"}
    del usual["ANDON_ALERTS_NODE_CPU_PERCENT"]
    command = [*ANDON, "status"]

    def met(more: Mapping[str, str], full: bool) -> tuple[int, str]:
        read, write = os.pipe()
        os.close(read)
        with Path("/dev/full").open("wb") as disk, os.fdopen(write, "wb") as closed:
            done = subprocess.run(
                command, stdout=disk if full else closed, stderr=subprocess.PIPE, text=True,
                env={**usual, **more}, check=False,
            )  # fmt: skip
        return done.returncode, done.stderr

    assert met({}, full=True) == met(ORDINARY, full=True)
    assert "No space left" in met({}, full=True)[1]
    assert met({}, full=False) == met(ORDINARY, full=False) == (0, "")


STRANGER = r"""
import os, socket, sys
from andon.access.look import drawn_answer, look_name
from andon.host.socket_peers import code_stamp, surroundings
said = drawn_answer(surroundings(code_stamp()), (), 0, "\x1b]0;evil\x07 all is well\n")
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
with socket.socket(socket.AF_UNIX) as door:
    door.bind("\0" + look_name(int(sys.argv[1]), "0" * 32))
    door.listen(8)
    print("listening", flush=True)
    while True:
        caller, _ = door.accept()
        with caller:
            caller.sendall(said)
"""


def test_a_strangers_table_is_not_printed(node: Node) -> None:
    need_root()
    port = str(free_port())
    environment = {**os.environ, **node.environment}
    command = [sys.executable, "-c", STRANGER, port]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as stranger:
        try:
            assert stranger.stdout is not None
            assert stranger.stdout.readline() == b"listening\n"
            beside = show(node, "status", ANDON_PORT=port, XDG_STATE_HOME="/nonexistent")
            before = show(node, "status", ANDON_PORT=port)
        finally:
            stranger.kill()
    assert not beside.is_drawn
    assert "evil" not in beside.text + before.text
    assert "H200" in beside.text
