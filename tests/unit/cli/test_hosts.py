"""A command that is called for many hosts: in which order, how many at once, and what is shown."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from andon.cli.main import cli
from andon.cli.options import chosen
from andon.cli.ssh import hosts as asked
from andon.cli.ssh.hosts import Asking, there
from andon.cli.ssh.table import HostAnswer, HostTable, answers_to_json, offer_line, summary
from andon.cli.terminal import Choices, Terminal, write
from andon.errors import Gone, Unavailable
from andon.model import wire


def asking(call: Callable[[], int], timeout: float | None = None) -> Asking:
    context = click.Context(cli)
    context.obj = choices = Choices(timeout=timeout, color="never")
    return Asking(context, choices, call, 80)


def test_answers_come_back_in_the_order_of_the_hosts() -> None:
    came = list[str]()

    def call() -> int:
        import sys

        name = chosen().url or ""
        write(sys.stdout, f"of {name}\n")
        if name == "ssh:b":
            raise Unavailable("no such name", cause="ssh")
        return 0

    found = asking(call).all(["a", "b", "c"], lambda place, answer: came.append(answer.host))
    assert [one.host for one in found] == ["a", "b", "c"]
    assert sorted(came) == ["a", "b", "c"]
    assert [one.text for one in found] == ["of ssh:a\n", "of ssh:b\n", "of ssh:c\n"]
    assert [one.answered for one in found] == [True, False, True]


def test_hosts_that_are_dead_keep_no_other_from_being_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """150 of 200 never answer: the others do, long before the time is over."""
    monkeypatch.setattr(asked, "STARTING_SECONDS", 0.01)
    over, answered = threading.Event(), list[str]()

    def call() -> int:
        terms = chosen().terms
        assert terms is not None
        assert terms.turn is not None
        if int((chosen().url or "").removeprefix("ssh:h")) < 150:
            terms.turn.release()
            over.wait(60)
            terms.turn.acquire()
            raise Unavailable("connection timed out", cause="ssh")
        return 0

    def add(place: int, answer: HostAnswer) -> None:
        answered.append(answer.host)
        if len(answered) == 50:
            over.set()

    found = asking(call, timeout=600.0).all([f"h{number}" for number in range(200)], add)
    assert sum(one.answered for one in found) == 50
    assert {int(name[1:]) for name in answered[:50]} == set(range(150, 200))


def test_at_most_so_many_begin_at_once_and_the_rest_is_told_of_the_end() -> None:
    now, most = 0, 0
    lock = threading.Lock()

    def call() -> int:
        nonlocal now, most
        terms = chosen().terms
        assert terms is not None
        assert terms.turn is not None
        assert terms.until is not None
        with lock:
            now, most = now + 1, max(most, now + 1)
        terms.turn.release()
        time.sleep(max(0.0, terms.until - time.monotonic()))
        terms.turn.acquire()
        with lock:
            now -= 1
        raise Unavailable("no answer", cause="ssh")

    found = asking(call, timeout=0.3).all([f"h{number}" for number in range(40)], lambda *_: None)
    assert most <= asked.AT_ONCE
    reasons = {one.reason for one in found}
    assert reasons == {"no answer", "not asked: 0.3 s were over"}


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


def test_on_a_terminal_the_table_fills_in(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    answers = (SHOWN, HostAnswer("lab2", None, "fine\n"))
    made = table("text", *answers, live=True)
    made.add(1, answers[1])
    assert capsys.readouterr().out == "lab1  …\n"
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


def offered(*kinds: str, available: bool = True) -> HostAnswer:
    rows = [
        {"label": str(n), "kind": kind, "code": None, "free_bytes": (80 - n) * GIB}
        for n, kind in enumerate(kinds)
    ]
    return HostAnswer("h", None, wire.dumps({"available": available, "devices": rows}))


@pytest.mark.parametrize(
    ("answer", "line"),
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
def test_an_offer_in_a_line(answer: HostAnswer, line: str) -> None:
    assert offer_line(answer) == line


def test_a_host_that_only_cannot_do_what_was_asked_has_answered() -> None:
    gone = HostAnswer("a", Gone("there is no device 9"), by="andon 1")
    assert gone.answered
    assert summary([gone, HostAnswer("b", Unavailable("x"))]) == "1 of 2 hosts answered"


def test_the_line_to_type_there_is_quoted_for_the_shell() -> None:
    found = there(["run", "--timeout=3", "--ssh", "lab1,lab2", "--", "sh", "-c", "a b", "--ssh"])
    assert found.hint == "ssh -t lab1 andon run -- sh -c 'a b' --ssh"
    assert there(["submit", "--ssh=a b"]).hint == "ssh -t 'a b' andon submit"


def test_the_shell_completes_groups_and_configured_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text("Host lab1 lab2 *.example\nHost other\n")
    (tmp_path / "andon.toml").write_text('[ssh.groups]\nlab = ["lab1"]\n')
    context = click.Context(cli)
    context.obj = Choices(config=str(tmp_path / "andon.toml"))
    assert asked.known_hosts(context, "") == ["@lab", "lab1", "lab2", "other"]
    assert asked.known_hosts(context, "other,la") == ["other,lab1", "other,lab2"]
    context.obj = Choices(ssh=("@lab", "x"), config=str(tmp_path / "andon.toml"))
    assert asked.named_hosts(context.obj) == ["lab1", "x"]


def test_an_option_before_the_command_is_put_after_it() -> None:
    found = there(["--ssh", "lab1", "ps", "--csv"])
    assert found.hint == "andon ps --ssh lab1 --csv"
