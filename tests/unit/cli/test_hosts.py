"""A command that is called for many hosts: in which order, how many at once, and what is shown."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import click
import pytest

from andon.alerts.rules.lamps_from_sample import lamps_from_sample
from andon.cli.main import cli, run
from andon.cli.node_answers import NodeAnswer, NodeTable, answers_to_json, offer_line, summary
from andon.cli.options import chosen
from andon.cli.several_nodes import SeveralNodes
from andon.cli.show.watch import LiveTable
from andon.cli.ssh import far_side
from andon.cli.ssh import hosts as asked
from andon.cli.ssh.hosts import not_over_ssh
from andon.cli.ssh.watch import Watched
from andon.cli.terminal import Choices, Terminal
from andon.errors import AndonError, Gone, Invalid, Unavailable
from andon.explain.conditions.rulebook import Rulebook
from andon.model import wire
from andon.model.device import Snapshot
from andon.model.lamp import DeviceLamp
from andon.node.ssh import SshNode
from andon.node.ssh.calls import AT_ONCE, SILENT_SECONDS, SshCall, SshLimits
from andon.node.ssh.client import Printed, SshHost
from tests.support.snapshots import farm


class PlayedHost(SshHost):
    """A host without ssh, that is named by what it does."""

    asked: ClassVar[list[tuple[str, Sequence[str]]]] = []

    def ask(self, *commands: Sequence[str]) -> list[Printed]:
        self.asked.extend((self.name, tuple(one)) for one in commands)
        assert self.limits is not None
        while self.name.startswith("dead") and self.limits.left:
            time.sleep(0.01)
        if self.name == "b" or self.name.startswith("dead"):
            raise Unavailable("no such name", cause="ssh")
        if self.name == "odd":
            raise ValueError("Exceeds the limit (4300 digits) for integer string conversion")
        self.by = "andon 1"
        return [{"name": self.name} for _ in commands]


class FewLimits(SshLimits):
    """Only two hosts at once; it knows how many there were, and whether all were ended."""

    most = 0
    ended_all = False

    def has_room(self, running: int) -> bool:
        self.most = max(self.most, running)
        return running < 2

    def end(self) -> None:
        self.ended_all = True
        super().end()


def ask_all(
    call: Callable[[], Any],
    names: Sequence[str],
    limits: SshLimits,
    add: Callable[[int, NodeAnswer], None] = lambda *_: None,
) -> list[NodeAnswer]:
    def opened(name: str) -> tuple[SshNode, Choices]:
        node = SshNode(PlayedHost(name, limits=limits), Rulebook)
        return node, Choices(url=node.host.url, color="never", node=node)

    PlayedHost.asked.clear()
    with click.Context(cli).scope() as context:
        context.obj = Choices()
        return SeveralNodes(names, limits, opened).ask(call, add)


def ask(*commands: str) -> str:
    """What a command there has printed."""
    node = chosen().node
    assert isinstance(node, SshNode)
    return str([node.host.object((command,))["name"] for command in commands])


def test_answers_come_back_in_the_order_of_the_hosts() -> None:
    """A command is called once for each host, whatever it asks."""
    came, called = list[str](), list[str | None]()

    def call() -> int:
        called.append(chosen().url)
        Terminal.of(chosen()).show(f"of {chosen().url}: {ask('first', 'second')}\n")
        return 0

    found = ask_all(
        call, ["a", "b", "c"], SshLimits(60.0), lambda place, answer: came.append(answer.name)
    )
    assert [one.name for one in found] == ["a", "b", "c"]
    assert sorted(came) == ["a", "b", "c"]
    assert [one.text for one in found] == ["of ssh:a: ['a', 'a']\n", "", "of ssh:c: ['c', 'c']\n"]
    assert [one.answered for one in found] == [True, False, True]
    assert found[0].by == "andon 1"
    assert sorted(map(str, called)) == ["ssh:a", "ssh:b", "ssh:c"]
    assert sorted(PlayedHost.asked) == [
        ("a", ("first",)), ("a", ("second",)), ("b", ("first",)), ("c", ("first",)),
        ("c", ("second",)),
    ]  # fmt: skip


def test_a_host_whose_answer_nobody_thought_of_costs_its_own_row() -> None:
    def call() -> int:
        if chosen().url == "ssh:worse":
            ask("first")
            raise KeyError("devices")
        Terminal.of(chosen()).show(ask("first"))
        return 0

    found = ask_all(call, ["a", "odd", "worse", "c"], SshLimits(60.0))
    assert [one.text for one in found] == ["['a']", "", "", "['c']"]
    assert [one.answered for one in found] == [True, False, False, True]
    assert (found[1].reason or "").startswith("its answer cannot be read: ValueError: Exceeds")


def test_when_the_time_is_over_the_rest_is_told() -> None:
    limits = FewLimits(0.1)
    found = ask_all(lambda: bool(ask("first")), ["dead1", "dead2", "c"], limits)
    assert found[2].reason == "not asked: 0.1 s were over"
    assert limits.most == 2


class Heard:
    """A call that was heard at a time."""

    def __init__(self, heard: float) -> None:
        self.heard, self.killed = heard, False

    def kill(self) -> None:
        self.killed = True


def test_whoever_is_silent_gives_its_place_to_the_next() -> None:
    limits, now = SshLimits(60.0), time.monotonic()
    for at in [now] * (AT_ONCE - 1) + [now - 2 * SILENT_SECONDS] * 100:
        limits.begins(cast("SshCall", Heard(at)))
    assert limits.has_room(AT_ONCE + 99)
    assert not limits.has_room(AT_ONCE + 100)
    assert not SshLimits(60.0).has_room(AT_ONCE), "whoever is not called yet is busy"


def test_another_error_of_a_command_ends_all_and_closes_what_is_open() -> None:
    def call() -> int:
        if chosen().url == "ssh:dead":
            return bool(ask("first"))
        raise click.UsageError("no")

    limits = FewLimits(1.0)
    with pytest.raises(click.UsageError):
        ask_all(call, ["dead", "b"], limits)
    assert limits.ended_all
    assert not [one for one in threading.enumerate() if one.name.startswith("asks ")]


def test_nothing_begins_once_all_is_ended() -> None:
    limits, late = SshLimits(60.0), Heard(0.0)
    limits.end()
    limits.begins(cast("SshCall", late))
    assert late.killed


SHOWN = NodeAnswer("lab1", None, " SIMULATED\n  GPU  UTIL\n  0    5 %\n", 0, 0.5, "andon 1", 1)


def table(form: str, *answers: NodeAnswer, live: bool = False) -> NodeTable:
    return NodeTable([one.name for one in answers], form, Terminal(60, 24, False, live))


def test_a_heading_is_shown_once_and_an_escape_is_made_visible(
    capsys: pytest.CaptureFixture[str],
) -> None:
    evil = NodeAnswer("lab\x1b", None, "\x1b[2Jone\x07\n", 0, 0.1, "nvidia-smi")
    failed = NodeAnswer("lab3", Unavailable("no such name", hint="x"))
    answers = (SHOWN, NodeAnswer("lab2", None, SHOWN.text), evil, failed)
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
    answers = (NodeAnswer("a", None, "one\n"), NodeAnswer("workstation", None, "two\n"))
    made = table("text", *answers)
    for place, answer in enumerate(answers):
        made.add(place, answer)
    assert capsys.readouterr().out == "a            one\nworkstation  two\n"


def test_on_a_terminal_the_table_fills_in(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    answers = (SHOWN, NodeAnswer("lab2", None, "fine\n"))
    made = table("text", *answers, live=True)
    made.begin()
    assert capsys.readouterr().out == "lab1  …\nlab2  …\n"
    made.add(1, answers[1])
    assert capsys.readouterr().out == "\x1b[2F\x1b[Jlab1  …\n"
    made.add(0, answers[0])
    assert capsys.readouterr().out.startswith("\x1b[1F\x1b[Jlab1   SIMULATED\n")


def test_json_has_a_schema_for_snapshots_and_one_for_the_rest() -> None:
    whole = NodeAnswer("a", None, json.dumps({"schema": "andon.snapshot/1"}), 0, 0.25, "andon 1")
    failed = NodeAnswer("b", Unavailable("no such name"))
    found = answers_to_json([whole, failed], "host")
    assert found["schema"] == "andon.snapshots/1"
    assert found["hosts"][0] == {
        "host": "a", "answered": True, "reason": None, "seconds": 0.25, "by": "andon 1",
        "snapshot": {"schema": "andon.snapshot/1"},
    }  # fmt: skip
    assert found["hosts"][1]["reason"] == "no such name"
    assert answers_to_json([NodeAnswer("a", None, '{"schema": "x/1"}')], "host")["hosts"][0][
        "answer"
    ]


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


def test_memory_that_is_not_known_is_not_0_bytes() -> None:
    found = offered("free")
    found["devices"][0]["free_bytes"] = None
    assert offer_line(found) == "GPU 0           1 free, memory unknown"


def test_the_models_of_what_is_free_are_named() -> None:
    found = offered("free", "free", "held")
    for row, name in zip(
        found["devices"], ("NVIDIA H100 80GB HBM3", "NVIDIA L4", "X"), strict=True
    ):
        row["name"] = name
    assert offer_line(found).endswith("2 free, 80.0 GiB and 79.0 GiB, H100 and L4")
    assert offer_line({**found, "simulated": True}).endswith("H100 and L4, SIMULATED")
    found["available"] = False
    assert "2 free (GPU 0, 1, H100 and L4); 1 held" in offer_line(found)


def test_a_host_that_only_cannot_do_what_was_asked_has_answered() -> None:
    gone = NodeAnswer("a", Gone("there is no device 9"), by="andon 1")
    assert gone.answered
    assert summary([gone, NodeAnswer("b", Unavailable("x"))], "host") == "1 of 2 hosts answered"


@pytest.mark.process
def test_the_line_to_type_there_is_quoted_for_both_shells(tmp_path: Path) -> None:
    """An ssh that runs what it gets in a shell, as a host does."""
    words = ["run", "--", "sh", "-c", "a 'b' $(touch HIT) \"$HOME\"", ";", "", "--ssh"]
    given = not_over_ssh([*words[:1], "--timeout=3", "--ssh", "lab$(>HIT),lab2", *words[1:]])
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
    found = not_over_ssh(["run", "--ssh", "lab1,lab2", "--gpus", "2", "--", "train"])
    assert found.hint == "ssh -t lab1 andon run --gpus 2 -- train"
    assert not_over_ssh(["--ssh", "$(a)", "status", "-v"]).hint == "andon status --ssh '$(a)' -v"
    with pytest.raises(Invalid, match="is not a host"):
        not_over_ssh(["submit", "--ssh=-oProxyCommand=x"])


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


def test_an_andon_that_is_asked_over_ssh_answers_for_its_own_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(far_side.REQUEST_VARIABLE, '{"ask": [["status"]]}')
    monkeypatch.setenv("ANDON_URL", "http://hub:1")
    assert far_side.answer(lambda _: len(os.environ.get("ANDON_URL", ""))) == 0
    assert '"code":0' in capsys.readouterr().out


def test_an_option_before_the_command_is_put_after_it() -> None:
    found = not_over_ssh(["--ssh", "lab1", "ps", "--csv"])
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
    monkeypatch.setattr(SshCall, "__init__", lambda *_: pytest.fail("an ssh was started"))
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

    def get(self) -> Snapshot:
        answer = self._answers.pop(0)
        if isinstance(answer, AndonError):
            raise answer
        return answer

    def lamps(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...]:
        return lamps_from_sample(snapshot, Rulebook())


def test_a_host_that_sleeps_is_shown_with_its_age() -> None:
    node: Any = Silent(farm(), Unavailable("connection refused"))
    watched = Watched("lab1", node, node.live, LiveTable(False, Rulebook()))
    assert watched.poll()
    assert "no answer" not in watched.answer(100, 20, farm().at + 1.0).text
    assert not watched.poll()
    shown = watched.answer(100, 20, farm().at + 90.0).text
    assert shown.splitlines()[-1] == "no answer for 1 min 30 s: connection refused"


class OddLamps(Silent):
    """A host whose lamps are of another version."""

    def lamps(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...]:
        raise Unavailable("runs andon 99")


def test_a_host_whose_lamps_are_odd_keeps_a_watch_of_others_alive() -> None:
    node: Any = OddLamps(farm())
    watched = Watched("lab1", node, node.live, LiveTable(False, Rulebook()))
    assert watched.poll()
    assert watched.answer(100, 20, farm().at).reason == "runs andon 99"
