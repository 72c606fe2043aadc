"""With a server here, what shows devices once asks it, loads no reader, and says the same."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from tests.integration.parts import wait_until
from tests.integration.serving import serving
from tests.standin import StandIn, StandInProcess
from tests.support.homes import own_folders
from tests.support.snapshots import GOLDEN

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is an ELF library")

GIB = 1 << 30
LEAN = GOLDEN / "loaded_told.json"  # what of ours a told status loads
MOVING = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+|\d+:\d\d:\d\d|^CPU .*?load [\d.]+|"
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
from tests.support.homes import own_folders
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
sys.argv[1:] = ["status"]
from andon.cli.entry import main
main()
"""
NOT_NEEDED = {
    "argparse", "click", "http", "ipaddress", "json", "platform", "selectors", "socket", "struct",
    "subprocess", "textwrap", "threading", "typing_extensions", "urllib.parse", "msgspec.inspect",
    "msgspec._json_schema",
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
                found = Node({**surroundings, "ANDON_PORT": str(served.port)})
                found.run("cordon", "3", "--reason", "loud")
                found.run("jobs", "pause")
                found.run("submit", "--name", "later", "--gpus", "1", "--", "true")
                assert "cordoned" in found.run("status").text, "at once, whatever the server lists"
                wait_until(lambda: not _reads_the_book(found), "the server to list the cordon")
                yield found
        finally:
            work.kill()
            work.wait()


def _reads_the_book(node: Node) -> bool:
    return "andon.leases.book.lease_book" in node.run("status").modules


NOT_COMPARED = {"estimate", "open", "release", "top", "watch"}
"""They change something, draw a screen, or show what moves with every reading."""
SHOWN = (
    ("status",), ("status", "0", "2"), ("free",), ("free", "--gpus", "1"),
    ("ps",), ("ps", "1"), ("who",), ("devices",), ("leases",),
)  # fmt: skip


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_the_lines_are_those_of_a_reading_and_no_reader_starts(
    node: Node, words: tuple[str, ...]
) -> None:
    told, read = node.run(*words), node.run(*words, "--fresh")
    assert told.text == read.text
    assert (told.processes, read.processes) == (0, 1)
    assert not [name for name in told.modules if name.startswith("andon.drivers")]
    assert "andon.sampling.readers" not in told.modules


ANSWERED = (
    *SHOWN, ("devices", "--topology"), ("why",), ("why", "1"), ("alerts",), ("alerts", "1", "2"),
    ("alerts", "rules"), ("alerts", "rules", "thermal"), ("history", "--who"), ("runs",),
    ("jobs",),
)  # fmt: skip


@pytest.mark.parametrize("words", ANSWERED, ids=" ".join)
def test_a_command_shows_the_same_rows_of_a_named_server(
    node: Node, words: tuple[str, ...]
) -> None:
    here, there = node.run(*words), node.run(*words, "--url", node.url)
    assert there.text == here.text
    assert there.processes == 0


def test_every_command_that_takes_a_server_is_compared(node: Node) -> None:
    from andon.cli.catalogue import COMMANDS

    taking = {name for name in COMMANDS if "--url" in node.run(name, "--help").text}
    assert taking - {words[0] for words in ANSWERED} == NOT_COMPARED


def test_status_asks_once_and_loads_neither_book_nor_alerts_nor_http(node: Node) -> None:
    told = node.run("status")
    others = (
        "andon.leases.book.lease_book",
        "andon.sampling.sampler",
        "andon.leases.rules",
        "andon.alerts.rules",
    )
    assert [name for name in told.modules if name.startswith(others)] == []
    assert not told.by_http
    assert not node.run("free").by_http
    assert not node.run("ps").by_http
    hidden = node.run("status", CUDA_VISIBLE_DEVICES="1")
    assert hidden.text == node.run("status", "--fresh", CUDA_VISIBLE_DEVICES="1").text
    assert hidden.processes == 0


def test_status_loads_little_for_a_servers_answer(node: Node) -> None:
    """It takes the time of its imports: no module of ours is added without a reason."""
    given = {**os.environ, **node.environment, "COLUMNS": "120"}
    usual = {name: text for name, text in given.items() if not name.startswith("ANDON_ALERTS_")}
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=120,
        env=usual, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "H200" in done.stdout or "H100" in done.stdout
    found = set(done.stderr.split())
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
