"""A command that is called for many hosts: in which order, how many at once, and what is shown."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import click
import pytest

from andon.alerts.rules.glance import lamps_now
from andon.cli.main import cli, run
from andon.cli.options import chosen
from andon.cli.show.watch import LiveTable
from andon.cli.ssh import hosts as asked
from andon.cli.ssh.hosts import Asking, there
from andon.cli.ssh.table import HostAnswer, HostTable, answers_to_json, offer_line, summary
from andon.cli.ssh.watch import Watched
from andon.cli.terminal import Choices, Terminal, write
from andon.errors import AndonError, Gone, Invalid, Unavailable
from andon.explain.conditions.rulebook import Rulebook
from andon.model import wire
from andon.model.device import Snapshot
from andon.model.lamp import DeviceLamp
from andon.node.ssh import SshNode
from andon.node.ssh.calls import AT_ONCE, SILENT_SECONDS, SshCalls
from tests.support.snapshots import farm


class PlayedCall:
    kind = "andon"

    def __init__(self, host: str, count: int) -> None:
        self.host, self._count = host, count

    def answer(self) -> bytes:
        if self.host == "b":
            raise Unavailable("no such name", cause="ssh")
        if self.host == "odd":
            raise ValueError("Exceeds the limit (4300 digits) for integer string conversion")
        line = b'\n{"code": 0, "out": {"name": "%s"}}' % self.host.encode()
        return b'{"andon": "1"}' + line * self._count


class PlayedCalls(SshCalls):
    """Calls without ssh, of hosts that are named by what they do."""

    asked: ClassVar[list[tuple[str, wire.Json]]] = []
    most = 0
    room = 100

    @property
    def has_room(self) -> bool:
        return len(self._open) < self.room

    def begin(self, host: str, andon: str, request: wire.Json) -> PlayedCall:  # type: ignore[override]
        self.asked.append((host, request))
        call = PlayedCall(host, len(request["ask"]))
        self._open[id(call)] = call  # type: ignore[assignment]
        type(self).most = max(self.most, len(self._open))
        return call

    def ended(self, wait: float = 0.0) -> list[PlayedCall]:  # type: ignore[override]
        calls: list[Any] = list(self._open.values())
        found = [one for one in calls if self.over or not one.host.startswith("dead")]
        for one in found:
            del self._open[id(one)]
        return found


class FewCalls(PlayedCalls):
    """Only two of them at once."""

    room = 2


def asking(
    call: Callable[[], int],
    timeout: float | None = None,
    calls: type[PlayedCalls] = PlayedCalls,
) -> Asking:
    context = click.Context(cli)
    context.obj = Choices(timeout=timeout, color="never")
    calls.asked, calls.most = [], 0
    return Asking(context, context.obj, call, 80, calls)


def ask(*commands: str) -> str:
    """What a command there has printed."""
    node = chosen().node
    assert isinstance(node, SshNode)
    return str([node.host.object((command,))["name"] for command in commands])


def test_answers_come_back_in_the_order_of_the_hosts() -> None:
    """A command that asks twice is called again, until it has what it asks for."""
    came = list[str]()

    def call() -> int:
        write(sys.stdout, f"of {chosen().url}: {ask('first', 'second')}\n")
        return 0

    found = asking(call).all(["a", "b", "c"], lambda place, answer: came.append(answer.host))
    assert [one.host for one in found] == ["a", "b", "c"]
    assert sorted(came) == ["a", "b", "c"]
    assert [one.text for one in found] == ["of ssh:a: ['a', 'a']\n", "", "of ssh:c: ['c', 'c']\n"]
    assert [one.answered for one in found] == [True, False, True]
    assert found[0].by == "andon 1"
    questions = [(host, request["ask"]) for host, request in PlayedCalls.asked]
    assert sorted(questions) == sorted(
        [("a", [["first"]]), ("a", [["second"]]), ("b", [["first"]]), ("c", [["first"]]),
         ("c", [["second"]])]
    )  # fmt: skip


def test_a_host_whose_answer_nobody_thought_of_costs_its_own_row() -> None:
    def call() -> int:
        if chosen().url == "ssh:worse":
            ask("first")
            raise KeyError("devices")
        write(sys.stdout, ask("first"))
        return 0

    found = asking(call).all(["a", "odd", "worse", "c"], lambda *_: None)
    assert [one.text for one in found] == ["['a']", "", "", "['c']"]
    assert [one.answered for one in found] == [True, False, False, True]
    assert (found[1].reason or "").startswith("its answer cannot be read: ValueError: Exceeds")


def test_when_the_time_is_over_the_rest_is_told() -> None:
    found = asking(lambda: bool(ask("first")), 0.1, FewCalls).all(
        ["dead1", "dead2", "c"], lambda *_: None
    )
    assert found[2].reason == "not asked: 0.1 s were over"
    assert FewCalls.most == 2


def test_whoever_is_silent_gives_its_place_to_the_next() -> None:
    with SshCalls(60.0) as calls:
        now = time.monotonic()
        heard = [now] * (AT_ONCE - 1) + [now - 2 * SILENT_SECONDS] * 100
        calls._open = {n: SimpleNamespace(heard=at) for n, at in enumerate(heard)}  # type: ignore[misc]
        assert calls.has_room
        calls._open[999] = SimpleNamespace(heard=now)  # type: ignore[assignment]
        assert not calls.has_room
        calls._open.clear()


def test_another_error_of_a_command_ends_all_and_closes_what_is_open() -> None:
    def call() -> int:
        raise click.UsageError("no")

    with pytest.raises(click.UsageError):
        asking(call).all(["a", "b"], lambda *_: None)


SHOWN = HostAnswer("lab1", None, " SIMULATED\n  GPU  UTIL\n  0    5 %\n", 0, 0.5, "andon 1", 1)


def table(form: str, *answers: HostAnswer, live: bool = False) -> HostTable:
    return HostTable([one.host for one in answers], form, Terminal(60, 24, False, live))


def test_a_heading_is_shown_once_and_an_escape_is_made_visible(
    capsys: pytest.CaptureFixture[str],
) -> None:
    evil = HostAnswer("lab\x1b", None, "\x1b[2Jone\x07\n", 0, 0.1, "nvidia-smi")
    failed = HostAnswer("lab3", Unavailable("no such name", hint="x"))
    answers = (SHOWN, HostAnswer("lab2", None, SHOWN.text), evil, failed)
    made = table("text", *answers)
    for place in (1, 0, 3, 2):
        made.add(place, answers[place])
    made.end()
    out = capsys.readouterr().out
    assert out.splitlines()[:3] == ["lab1   SIMULATED", "HOST    GPU  UTIL", "lab1    0    5 %"]
    assert out.count("GPU  UTIL") == 1
    assert "\x1b" not in out
    assert "lab3  no answer  no such name; x" in out
    assert out.endswith("3 of 4 hosts answered, 1 GPU free\n")


def test_rows_of_hosts_with_long_and_short_names_begin_in_one_column(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = (HostAnswer("a", None, "one\n"), HostAnswer("workstation", None, "two\n"))
    made = table("text", *answers)
    for place, answer in enumerate(answers):
        made.add(place, answer)
    assert capsys.readouterr().out == "a            one\nworkstation  two\n"


def test_on_a_terminal_the_table_fills_in(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    answers = (SHOWN, HostAnswer("lab2", None, "fine\n"))
    made = table("text", *answers, live=True)
    made.begin()
    assert capsys.readouterr().out == "lab1  …\nlab2  …\n"
    made.add(1, answers[1])
    assert capsys.readouterr().out == "\x1b[2F\x1b[Jlab1  …\n"
    made.add(0, answers[0])
    assert capsys.readouterr().out.startswith("\x1b[1F\x1b[Jlab1   SIMULATED\n")


def test_json_has_a_schema_for_snapshots_and_one_for_the_rest() -> None:
    whole = HostAnswer("a", None, json.dumps({"schema": "andon.snapshot/1"}), 0, 0.25, "andon 1")
    failed = HostAnswer("b", Unavailable("no such name"))
    found = answers_to_json([whole, failed])
    assert found["schema"] == "andon.snapshots/1"
    assert found["hosts"][0] == {
        "host": "a", "answered": True, "reason": None, "seconds": 0.25, "by": "andon 1",
        "snapshot": {"schema": "andon.snapshot/1"},
    }  # fmt: skip
    assert found["hosts"][1]["reason"] == "no such name"
    assert answers_to_json([HostAnswer("a", None, '{"schema": "x/1"}')])["hosts"][0]["answer"]


GIB = 1 << 30


def offered(*kinds: str, available: bool = True) -> wire.Json:
    rows = [
        {"label": str(n), "kind": kind, "code": None, "free_bytes": (80 - n) * GIB}
        for n, kind in enumerate(kinds)
    ]
    return {"available": available, "devices": rows}


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (offered("free"), "GPU 0           1 free, 80.0 GiB"),
        (offered("free", "free"), "GPU 0, 1        2 free, 80.0 GiB and 79.0 GiB"),
        (
            offered("free", "held", "in_use", "in_use", "withheld", available=False),
            "–               1 free (GPU 0); 1 held, 2 in use without a lease, 1 not available",
        ),
        (offered("held", available=False), "–               0 free; 1 held"),
    ],
)
def test_an_offer_in_a_line(found: wire.Json, line: str) -> None:
    assert offer_line(found) == line


def test_a_host_that_only_cannot_do_what_was_asked_has_answered() -> None:
    gone = HostAnswer("a", Gone("there is no device 9"), by="andon 1")
    assert gone.answered
    assert summary([gone, HostAnswer("b", Unavailable("x"))]) == "1 of 2 hosts answered"


@pytest.mark.process
def test_the_line_to_type_there_is_quoted_for_both_shells(tmp_path: Path) -> None:
    """An ssh that runs what it gets in a shell, as a host does."""
    words = ["run", "--", "sh", "-c", "a 'b' $(touch HIT) \"$HOME\"", ";", "", "--ssh"]
    given = there([*words[:1], "--timeout=3", "--ssh", "lab$(>HIT),lab2", *words[1:]])
    parts = {"ssh": 'shift; echo "$1"; shift; sh -c "$*"', "andon": 'printf "%s\\n" "$@"'}
    for name, text in parts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", given.hint or ""], env={"PATH": path}, cwd=tmp_path, text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout.split("\n") == ["lab$(>HIT)", *words, ""]
    assert not (tmp_path / "HIT").exists()


def test_the_line_to_type_there_is_short_where_it_may_be() -> None:
    found = there(["run", "--ssh", "lab1,lab2", "--gpus", "2", "--", "train"])
    assert found.hint == "ssh -t lab1 andon run --gpus 2 -- train"
    assert there(["--ssh", "$(a)", "status", "-v"]).hint == "andon status --ssh '$(a)' -v"
    with pytest.raises(Invalid, match="is not a host"):
        there(["submit", "--ssh=-oProxyCommand=x"])


def test_the_shell_completes_groups_and_configured_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text("Host lab1 lab2 *.example\nHost other\n")
    (tmp_path / "andon.toml").write_text('[ssh.groups]\nlab = ["lab1"]\n')
    context = click.Context(cli)
    monkeypatch.setenv("ANDON_CONFIG", str(tmp_path / "andon.toml"))
    assert asked.known_hosts(chosen(context), "") == ["@lab", "lab1", "lab2", "other"]
    assert asked.known_hosts(chosen(context), "other,la") == ["other,lab1", "other,lab2"]
    context.obj = Choices(ssh=("@lab", "x"))
    assert asked.named_hosts(context.obj) == ["lab1", "x"]


def test_an_option_before_the_command_is_put_after_it() -> None:
    found = there(["--ssh", "lab1", "ps", "--csv"])
    assert found.hint == "andon ps --ssh lab1 --csv"


REFUSED = (
    (["status", "--ssh", "a", "--url", "http://b:1"], "--ssh and --url cannot be combined"),
    (["status", "--ssh", "a", "--simulate", "2"], "--ssh and --simulate cannot be combined"),
    (["status", "--ssh", "-oProxyCommand=touch x"], "is not a host: it begins with -"),
    (["status", "--ssh", "@none"], "there is no group @none"),
    (["top", "--ssh", "a,b"], "andon top shows one host"),
    (["free", "--ssh", "a", "--timeout", "0"], "duration must be greater than 0"),
    (["status", "--hosts-file", "/nonexistent/hosts"], "No such file or directory"),
    (["status", "--hosts-file", sys.executable], "is not a list of hosts: it is not text"),
)


@pytest.mark.parametrize(("words", "reason"), REFUSED, ids=lambda one: " ".join(one)[:40])
def test_a_wrong_command_line_is_refused_before_anything_starts(
    words: list[str],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ANDON_CONFIG", os.devnull)
    monkeypatch.setattr(SshCalls, "begin", lambda *_: pytest.fail("an ssh was started"))
    assert run(words) == Invalid.exit_code
    assert reason in capsys.readouterr().err


def test_a_file_of_hosts_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDON_CONFIG", os.devnull)
    (tmp_path / "hosts").write_text("lab1 # old\nlab[02-03]\n")
    choices = Choices(hosts_file=str(tmp_path / "hosts"), ssh=("x",))
    assert asked.named_hosts(choices) == ["x", "lab1", "lab02", "lab03"]


class Silent:
    """A host that has answered once."""

    def __init__(self, *answers: Snapshot | AndonError) -> None:
        self.live, self._answers = self, list(answers)

    def read(self) -> Snapshot:
        answer = self._answers.pop(0)
        if isinstance(answer, AndonError):
            raise answer
        return answer

    def lamps(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...]:
        return lamps_now(snapshot, Rulebook())


def test_a_host_that_sleeps_is_shown_with_its_age() -> None:
    node: Any = Silent(farm(), Unavailable("connection refused"))
    watched = Watched("lab1", node, LiveTable(False, Rulebook()))
    assert watched.look()
    assert "no answer" not in watched.answer(100, 20, farm().at + 1.0).text
    assert not watched.look()
    shown = watched.answer(100, 20, farm().at + 90.0).text
    assert shown.splitlines()[-1] == "no answer for 1 min 30 s: connection refused"


class OddLamps(Silent):
    """A host whose lamps are of another version."""

    def lamps(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...]:
        raise Unavailable("runs andon 99")


def test_a_host_whose_lamps_are_odd_keeps_a_watch_of_others_alive() -> None:
    node: Any = OddLamps(farm())
    watched = Watched("lab1", node, LiveTable(False, Rulebook()))
    assert watched.look()
    assert watched.answer(100, 20, farm().at).reason == "runs andon 99"
