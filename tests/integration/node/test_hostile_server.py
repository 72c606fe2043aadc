"""`--url` of every command against a server that means harm: one sentence, in bounded time."""

import contextlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from andon.cli import browser_link
from andon.cli.catalogue import COMMANDS, load
from andon.cli.main import run
from andon.model import wire
from andon.model.wire import TextBounds
from andon.node import server as node_server
from andon.node.calls import CallLimits
from andon.node.remote import runs as remote_runs
from tests.support.hostile_server import FAST, SLOW, HostileServer, hostile_server, odd_id
from tests.support.replaced import constants
from tests.support.rows import rows

READING = (
    ("status",), ("watch", "-n", "1"), ("ps",), ("devices", "--topology"), ("history",),
    ("history", "--who"), ("why",), ("alerts",), ("alerts", "show", "x"), ("alerts", "ack", "x"),
    ("alerts", "unack", "x"), ("alerts", "silence", "x", "1h"), ("alerts", "unsilence", "x"),
    ("alerts", "rules"), ("alerts", "test"), ("leases",), ("reservations",),
    ("checks",), ("release", "k7"),
    ("lease", "extend", "k7", "--for", "1h"), ("who",), ("free",), ("estimate", "llama3:8b"),
    ("runs",), ("runs", "-n", "0"), ("runs", "show", "last"), ("runs", "show", "x"),
    ("runs", "report", "last"), ("runs", "tail", "last"), ("runs", "compare", "x", "y"),
    ("jobs",), ("jobs", "show", "1"), ("jobs", "wait", "1"), ("jobs", "logs", "1"),
    ("jobs", "hold", "1"), ("jobs", "resume", "1"), ("jobs", "retry", "1"),
    ("jobs", "requeue", "1"), ("jobs", "move", "1", "--first"), ("jobs", "rm", "1"),
    ("jobs", "cancel", "1"), ("jobs", "pause"), ("logs", "1"), ("cancel", "1"),
    ("cancel", "x"), ("why", "--job", "1"), ("open", "--print"), ("open", "--revoke"),
    ("nodes",), ("nodes", "show", "x"),
    ("nodes", "add", "x"), ("nodes", "drain", "x"), ("nodes", "resume", "x"),
    ("nodes", "remove", "x"), ("token",), ("token", "add", "x", "--role", "read"),
    ("token", "remove", "x"),
)  # fmt: skip
"""Every command that has `--url`, with what it needs."""
INTERACTIVE = {"top"}  # it asks through the same class, in threads of its own
LATER = {"check", "mcp"}  # once a card was measured, or an assistant calls one of the others
ASKS_NOTHING = {"reserve", "reserve change", "reserve cancel"}  # says where to type it


class Terminal(io.StringIO):
    encoding = "utf-8"


@pytest.fixture(scope="module")
def server() -> Iterator[HostileServer]:
    with hostile_server() as made:
        yield made


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    book = tmp_path / "book"
    book.mkdir()
    for name, value in {"HOME": tmp_path, "XDG_STATE_HOME": tmp_path, "TMPDIR": tmp_path / "tmp",
                        "ANDON_LEASE_DIR": book, "NO_COLOR": "1"}.items():  # fmt: skip
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr("tempfile.tempdir", None)


def limited(monkeypatch: pytest.MonkeyPatch, limits: CallLimits) -> None:
    """The same limits, smaller: what is tried here is that they hold."""
    for name in ("LIMITS", "MINUTES_LIMITS", "END_LIMITS"):
        monkeypatch.setattr(node_server, name, limits)
    constants(monkeypatch, browser_link, LIMITS=limits)
    constants(monkeypatch, node_server, FILE_SECONDS=limits.timeout_seconds)
    constants(monkeypatch, wire, ANSWER=TextBounds(1 << 24, 100_000))
    constants(monkeypatch, remote_runs, MOST_BYTES=limits.most_bytes, PAGES_SECONDS=0.1)


def told(arguments: Sequence[str], server: HostileServer) -> str | None:
    """What is wrong with how a command ended; None if it ended as it should."""
    out, err = Terminal(), Terminal()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([*arguments, "--url", server.url])
    except BaseException as exc:  # noqa: BLE001 (whatever it is, it is wrong)
        return f"{type(exc).__name__}: {exc}"
    said = err.getvalue()
    if "Traceback" in said or "Traceback" in out.getvalue():
        return said
    if any(sign in said + out.getvalue() for sign in "\x1b\x07\x9b"):
        return f"control characters: {said!r}"
    if len(said) > 20_000:
        return f"{len(said)} characters of error"
    if code and not said.startswith("andon: "):
        return f"exit {code} with {said[:200]!r}"
    return None


def test_every_command_that_has_a_url_is_tried() -> None:
    found = set()

    def walk(name: str, command: click.Command) -> None:
        if any("--url" in option.opts for option in command.params):
            found.add(name)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for one in command.list_commands(context):
                below = command.get_command(context, one)
                assert below is not None
                walk(f"{name} {one}", below)

    for name, entry in COMMANDS.items():
        walk(name, load(entry.target))
    tried = {" ".join(words[:n]) for words in READING for n in (1, 2)}
    assert found - tried - INTERACTIVE - LATER - ASKS_NOTHING == set()


@rows("command", READING)
def test_whatever_a_server_sends_is_answered_with_a_sentence(
    command: tuple[str, ...], server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, CallLimits(20.0, 1 << 20))
    for name, manner in FAST.items():
        server.manner = manner
        wrong = told(command, server)
        assert wrong is None, f"{name}: {wrong}"


@rows("command", READING)
def test_no_server_holds_a_command_up(
    command: tuple[str, ...], server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, CallLimits(0.05, 1 << 20))
    for name, manner in SLOW.items():
        server.manner = manner
        wrong = told(command, server)
        assert wrong is None, f"{name}: {wrong}"


def test_no_id_of_a_server_is_the_name_of_a_file(server: HostileServer, tmp_path: Path) -> None:
    mine = tmp_path / "mine.jsonl"
    mine.write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    for name in (str(mine.with_suffix("")), f"../../{mine.stem}", mine.stem):
        server.manner = odd_id(name)
        for command in (("show",), ("report",), ("tail",)):
            assert told(("runs", *command, "last"), server) is None
            assert told(("runs", *command, "x"), server) is None
    assert mine.read_text() == "mine"
    assert sorted(tmp_path.rglob("*")) == before
