"""With a server here, what shows devices once asks it, loads no reader, and says the same."""

import json
import os
import re
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from andon.access.local_rest import RestAnswer, answer
from andon.cli.catalogue import COMMANDS
from andon.leases.rules.rows import EMPTY, NONE
from tests.integration.impostor import local_impostor
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
before = set(sys.modules)
def told(code):
    if os.getpid() != command:
        leave(code)
    ours = sorted(name for name in sys.modules if name.startswith("andon."))
    others = sorted(name for name in set(sys.modules) - before if not name.startswith("andon"))
    sys.stderr.write("\\n" + json.dumps([len(started), ours, others]))
    sys.stderr.flush()
    leave(code)
os._exit = told
from andon.cli.entry import main
main()
"""

NOT_NEEDED = {"argparse", "asyncio", "http", "logging", "socket", "ssl"}


class Ran(NamedTuple):
    """What a command printed, how many processes it started, and what it loaded: of ours, and of
    others besides that of the test."""

    text: str
    processes: int
    modules: frozenset[str]
    others: frozenset[str]

    @property
    def by_http(self) -> bool:
        return "http.client" in self.others


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
        processes, modules, others = json.loads(done.stderr.splitlines()[-1])
        text = MOVING.sub("", done.stdout)
        return Ran(text, processes, frozenset(modules), frozenset(others))

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


def printed(
    node: Node, *words: str, width: int | str = 120, screen: str = "pipe", **more: str
) -> tuple[str, int]:
    """What a command of a user without settings prints on a pipe or on a terminal of this width,
    and its exit code."""
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
        subprocess.Popen([*ANDON, *words], stdout=write, env=env) as process,
    ):
        os.close(write)
        text = b""
        with suppress(OSError):  # a terminal without a program
            while piece := output.read(1 << 16):
                text += piece
    shown = MOVING.sub("", text.decode()).replace("lost·", "lost ·")  # from its first second on
    return shown, process.returncode


def _reads_the_book(node: Node) -> bool:
    return "andon.leases.book.lease_book" in node.run("status").modules


NOT_COMPARED = {
    "cancel",
    "check",
    "estimate",
    "logs",
    "mcp",
    "nodes",
    "open",
    "release",
    "reserve",
    "token",
    "top",
    "watch",
}
"""They change something, draw a screen, or show what moves: with every reading, as a job writes."""
SHOWN = (
    ("status",), ("status", "0", "2"), ("free",), ("free", "--gpus", "1"),
    ("ps",), ("ps", "1"), ("who",), ("devices",), ("leases",),
)  # fmt: skip


ANSWERED = (
    ("devices", "--topology"), ("why",), ("why", "1"), ("alerts",), ("alerts", "1", "2"),
    ("alerts", "rules"), ("alerts", "rules", "thermal"), ("history", "--who"), ("runs",),
    ("jobs",), ("reservations",), ("checks",),
)  # fmt: skip


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_the_lines_are_those_of_a_reading_and_of_a_named_server_and_no_reader_starts(
    node: Node, words: tuple[str, ...]
) -> None:
    told = node.run(*words)
    assert told.text == node.text(*words, "--fresh")
    assert told.processes == 0
    assert not told.by_http
    assert not [name for name in told.modules if name.startswith("andon.drivers")]
    assert "andon.sampling.readers" not in told.modules
    same_there(node, words, told.text)


@pytest.mark.parametrize("words", ANSWERED, ids=" ".join)
def test_a_command_shows_the_same_rows_of_a_named_server(
    node: Node, words: tuple[str, ...]
) -> None:
    same_there(node, words, node.text(*words))


def same_there(node: Node, words: tuple[str, ...], here: str) -> None:
    """But for what to type next, which names the server or is left out where it would act here."""
    there = node.run(*words, "--url", node.url)
    text = there.text.replace(f" --url {node.url}", "")
    if spaced(text) != spaced(here.replace(EMPTY, NONE)):  # an alert may begin between the two
        here = node.text(*words)
    assert spaced(text) == spaced(here.replace(EMPTY, NONE))
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


def test_status_loads_little_for_a_servers_answer(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the time of its imports: no module of ours is added without a reason."""
    monkeypatch.delenv("ANDON_ALERTS_NODE_CPU_PERCENT", raising=False)  # thresholds of one's own
    unset = {name: text for name, text in node.environment.items() if "_ALERTS_" not in name}
    told = Node(unset, node.standin).run("status")
    assert "H200" in told.text or "H100" in told.text
    assert not NOT_NEEDED & told.others
    kept = json.loads(LEAN.read_text())
    if os.environ.get("UPDATE_GOLDEN"):
        LEAN.write_text(json.dumps(sorted(told.modules), indent=1) + "\n")
    assert len(told.modules) <= len(kept), sorted(told.modules - set(kept))


@pytest.mark.parametrize("words", ["why", "alerts", "alerts rules", "alerts 1"])
def test_what_a_server_remembers_and_judges_is_read_at_its_socket(node: Node, words: str) -> None:
    told = node.run(*words.split())
    assert told.text == node.text(*words.split()) or words == "why"
    assert (told.processes, told.by_http) == (0, False)


def test_why_takes_what_the_server_remembers(node: Node) -> None:
    told = node.run("why")
    assert "uncorrectable memory errors" in told.text.lower()
    assert told.processes == 0


@pytest.mark.parametrize("screen", ["pipe", "coloured", "plain"])
@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_table_by_the_servers_readings_is_that_of_a_reading(
    node: Node, width: int, screen: str
) -> None:
    for words in ((), ("status",)):
        beside = printed(node, *words, width=width, screen=screen)
        assert beside == printed(node, *words, "--fresh", width=width, screen=screen)
        assert ("Next: andon watch" in beside[0]) == (screen != "pipe" and not words)
        assert ("\x1b[" in beside[0]) == (screen == "coloured")
        assert beside[1] == 0


def test_a_table_shows_a_silent_device_a_lease_and_a_cordon(node: Node) -> None:
    hold = ("lease", "--devices", "0", "--for", "1h", "--", "sleep", "600")
    holding = subprocess.Popen(
        [*ANDON, *hold], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, env={**os.environ, **node.environment},
    )  # fmt: skip
    try:
        wait_until(lambda: "held by" in printed(node)[0], "the lease")
        wait_until(lambda: not _reads_the_book(node), "the server to list the lease")
        beside = printed(node)
        assert "held by" in beside[0]
        assert "cordoned" in beside[0]
        assert beside == printed(node, "--fresh")
        with node.standin.broken(lost(2)):
            wait_until(lambda: "lost" in printed(node)[0], "the server to miss the device")
    finally:
        holding.terminate()
        holding.wait()
    wait_until(lambda: "lost" not in printed(node)[0], "the device to be back")


def test_a_change_of_the_book_is_shown_at_once(node: Node) -> None:
    for number in range(3):
        node.text("cordon", "0", "--reason", str(number))
        assert "GPU 0, 3 (cordoned)" in printed(node)[0]
        node.text("uncordon", "0")
        assert "GPU 3 (cordoned)" in printed(node)[0]


@pytest.mark.parametrize(
    "given",
    [
        {"CUDA_VISIBLE_DEVICES": "1"}, {"COLUMNS": "158"}, {"TZ": "JST-9"},
        {"PYTHONIOENCODING": "ascii"}, {"ANDON_LEASE_DIR": "/nonexistent/book"},
        {"XDG_CONFIG_HOME": "x"}, {"NVIDIA_VISIBLE_DEVICES": "all"},
    ],
    ids=lambda given: next(iter(given)),
)  # fmt: skip
def test_a_command_draws_with_its_own_surroundings(node: Node, given: Mapping[str, str]) -> None:
    width = given.get("COLUMNS", 120)
    beside = printed(node, "status", width=width, **given)
    assert beside == printed(node, "status", "--fresh", width=width, **given)
    assert node.run("status", **given).processes == 0


def test_a_setting_of_the_user_is_kept(node: Node, tmp_path: Path) -> None:
    (tmp_path / "andon").mkdir()
    assert "\x1b[" not in printed(node, XDG_CONFIG_HOME=str(tmp_path))[0]
    (tmp_path / "andon" / "andon.toml").write_text('[display]\ncolor = "always"\n')
    assert "\x1b[" in printed(node, XDG_CONFIG_HOME=str(tmp_path))[0]


def test_a_full_disk_and_a_closed_pipe_are_met_as_after_a_reading(node: Node) -> None:
    usual = {**os.environ, **node.environment, "COLUMNS": "120"}

    def met(*more: str, full: bool) -> tuple[int, str]:
        read, write = os.pipe()
        os.close(read)
        with Path("/dev/full").open("wb") as disk, os.fdopen(write, "wb") as closed:
            done = subprocess.run(
                [*ANDON, "status", *more], stdout=disk if full else closed,
                stderr=subprocess.PIPE, text=True, env=usual, check=False,
            )  # fmt: skip
        return done.returncode, done.stderr

    assert met(full=True) == met("--fresh", full=True)
    assert "No space left" in met(full=True)[1]
    assert met(full=False) == met("--fresh", full=False) == (0, "")


# Several users.

DAEMON, UNKNOWN = 1, 54_321
AS_USER = """
import json, os, sys
from andon.node.calls import CallLimits, SentRequest
from andon.node.local_server import local_servers
from andon.node.sign_in import open_session
uid, url, *paths = sys.argv[1:]
limits = CallLimits(10.0, 1 << 24)
def at_the_socket():
    server = next(local_servers(paths, 5.0), None)
    return None if server is None else [server.get(path) for path in paths]
def signed_in():
    session = open_session(url, limits)
    return [json.loads(session.call(SentRequest("GET", path), limits).body) for path in paths]
at_the_socket(), signed_in()  # so that all is loaded while its files may be read
os.setgroups([])
os.setgid(int(uid))
os.setuid(int(uid))
print(json.dumps([at_the_socket(), signed_in() if uid == "1" else None]))
"""
FLOODING = """
import os, socket, sys, threading, time
from andon.access.local_rest import frame, socket_names
os.setgroups([])
os.setgid(1)
os.setuid(1)
(name,) = socket_names(open("/proc/net/unix", "rb").read(), int(sys.argv[1]))
said = (b"", b"\\n", b"x" * 8192, frame(["/api/proof"]), frame(["/api/snapshot"] * 8))
def flood(words):
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as caller:
                caller.connect("\\0" + name)
                caller.sendall(words)
                time.sleep(0.001)
        except OSError:
            pass
for words in said * 4:
    threading.Thread(target=flood, args=(words,), daemon=True).start()
print("flooding", flush=True)
time.sleep(600)
"""


def as_user(node: Node, uid: int, *paths: str) -> Any:
    need_root()
    done = subprocess.run(
        [sys.executable, "-c", AS_USER, str(uid), node.url, *paths], capture_output=True,
        text=True, timeout=120, env={**os.environ, **node.environment}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_user_reads_at_the_socket_what_rest_shows_when_signed_in(node: Node) -> None:
    paths = ("/api/snapshot", "/api/leases", "/api/board", "/api/alerts?limit=1000", "/api/usage")
    local, signed_in = as_user(node, DAEMON, *paths)
    assert _unmoving(local) == _unmoving(signed_in)
    (process,) = local[0]["devices"][1]["processes"]
    assert process["command"] is None, "it is root's"
    (own,) = as_user(node, 0, "/api/snapshot")[0][0]["devices"][1]["processes"]
    assert "sleep(3600)" in own["command"]


def _unmoving(value: Any) -> Any:
    """The value without its numbers and times: each reading has others."""
    if isinstance(value, dict):
        return {name: _unmoving(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_unmoving(one) for one in value]
    return re.sub(r"[\d.:+T-]+", "", value) if isinstance(value, str) else value in (None, True)


def test_a_uid_without_an_account_gets_nothing(node: Node) -> None:
    assert as_user(node, UNKNOWN, "/api/snapshot") == [None, None]


def test_a_flood_of_one_user_keeps_nobody_else_from_an_answer(node: Node) -> None:
    need_root()
    environment = {**os.environ, **node.environment}
    command = [sys.executable, "-c", FLOODING, node.environment["ANDON_PORT"]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as flood:
        try:
            assert flood.stdout is not None
            assert flood.stdout.readline() == b"flooding\n"
            found = [node.run("status").processes for _ in range(5)]
        finally:
            flood.kill()
    assert found.count(0) >= 3, "it is answered, or reads the devices itself"
    assert node.run("status").processes == 0


def test_what_a_stranger_says_at_a_socket_is_not_shown(node: Node, tmp_path: Path) -> None:
    need_root()
    port = free_port()
    said = answer([RestAnswer(200, b'{"evil": "\x1b]0;evil\x07 all is well"}')] * 3)
    with local_impostor(tmp_path, port, said) as liar:
        beside = printed(node, "status", ANDON_PORT=str(port), XDG_STATE_HOME="/nonexistent")
        before = printed(node, "status", ANDON_PORT=str(port))
        assert liar.text() == "", "it is sent nothing"
    assert "evil" not in beside[0] + before[0]
    assert "H200" in beside[0]
