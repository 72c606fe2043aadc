"""Ending processes: who may be ended, in which order, and the words for it."""

import signal
from typing import Any

import pytest

from andon.errors import Denied, Gone, Invalid
from andon.host.processes.procfs import descendants
from andon.kill.rules.plan import (
    EndLease,
    EndRequester,
    EndTarget,
    children_text,
    done,
    instead,
    is_same_start,
    kill_question,
    line_of,
    not_ended,
    nothing_left,
    offered,
    parse_pids,
    parse_signal,
    question,
    refusal,
)
from andon.units import GIB

TERM, KILL = signal.SIGTERM, signal.SIGKILL
ASKER = EndRequester(1000, frozenset((1, 50, 90)))


def target(pid: int = 4711, **more: Any) -> EndTarget:
    values = {"user": "alice", "program": "train.py", "command": "python train.py"}
    return EndTarget(pid, **({"age_seconds": 7380.0} | values | more))


REFUSED: list[tuple[EndTarget, type[Exception] | None, str, str]] = [
    (target(), None, "", ""),
    (target(0), Invalid, "0 is not one process", "andon ps"),
    (target(-7), Invalid, "-7 is not one process", "andon ps"),
    (target(1), Denied, "first process", "everything else"),
    (target(50), Denied, "is this command, or started it", "another terminal"),
    (target(90), Denied, "is this command, or started it", "another terminal"),
    (target(kernel_thread=True), Denied, "thread of the kernel", "cannot be ended"),
    (target(permitted=False), Denied, "belongs to alice", "sudo kill -TERM 4711"),
    (target(permitted=False, user=None), Denied, "belongs to another user", "ask another user"),
]


def test_who_may_be_ended() -> None:
    wrong = []
    for one, kind, reason, hint in REFUSED:
        found = refusal(one, ASKER, TERM)
        if kind is None:
            ok = found is None
        else:
            ok = isinstance(found, kind) and reason in found.reason and hint in found.hint
        if not ok:
            wrong.append((one, found))
    assert wrong == []


def test_the_sudo_command_sends_the_same_signal() -> None:
    found = refusal(target(permitted=False), ASKER, KILL)
    assert found is not None
    assert "sudo kill -KILL 4711" in found.hint


def test_pids_as_typed_are_read_once_each_and_every_mistake_is_named() -> None:
    assert parse_pids(["12", "7", "12"]) == (12, 7)
    with pytest.raises(Invalid) as caught:
        parse_pids(["12", "0", "-3", "x", "1.5", "٣", "9" * 30])
    assert len(caught.value.mistakes) == 6


def test_signals_are_read_as_people_write_them() -> None:
    wrong = [
        (word, expected)
        for word, expected in [
            ("TERM", TERM), ("SIGTERM", TERM), ("term", TERM), ("15", TERM), ("kill", KILL),
            ("9", KILL), (" INT ", signal.SIGINT),
        ]
        if parse_signal(word) is not expected
    ]  # fmt: skip
    assert wrong == []
    for word in ("FOO", "0", "999", "", "-9"):
        with pytest.raises(Invalid, match="there is no signal"):
            parse_signal(word)


def test_a_tree_is_ended_from_its_top() -> None:
    family = {2: 1, 30: 10, 31: 10, 40: 30, 41: 31, 50: 40, 10: 2, 60: 1}
    assert descendants(10, family) == ((30, 1), (31, 1), (40, 2), (41, 2), (50, 3))
    assert descendants(60, family) == ()


def test_a_tree_that_was_read_while_it_changed_has_no_circle() -> None:
    assert descendants(10, {10: 11, 11: 10, 12: 12}) == ((11, 1),)


def test_what_to_do_instead_is_named_by_what_it_belongs_to() -> None:
    lease = EndLease("k7qm2", "alice", releasable=True)
    rows = [
        (target(), None),
        (target(lease=lease), ("under lease k7qm2 of alice", "andon release k7qm2")),
        (target(job="slurm:42.0"), ("Slurm job 42.0", "scancel 42")),
        (target(job="slurm:42.0", lease=lease), ("Slurm job 42.0", "scancel 42")),
        (target(job="job:abcdefgh", lease=lease), ("job abcdefgh", "andon cancel abcdefgh")),
        (target(job="sshd.service", lease=lease), ("lease k7qm2", "andon release k7qm2")),
    ]
    wrong = []
    for one, expected in rows:
        found = instead(one)
        ok = found == expected
        if found is not None and expected is not None:
            ok = expected[0] in found[0] and found[1] == expected[1]
        if not ok:
            wrong.append((one, found))
    assert wrong == []


def test_a_process_is_described_by_what_tells_it_from_others() -> None:
    rows = [
        (target(), "pid 4711 · alice · 2 h 3 min · no GPU · python train.py"),
        (
            target(devices=("3",), memory_bytes=41 * GIB),
            "pid 4711 · alice · 2 h 3 min · 41.0 GiB on GPU 3 · python train.py",
        ),
        (
            target(devices=("3", "4"), container="docker:box", depth=1),
            "  pid 4711 · alice · 2 h 3 min · unknown memory on GPU 3, 4 · docker:box · "
            "python train.py",
        ),
        (
            target(devices=None, user=None, age_seconds=None, command=None),
            "pid 4711 · unknown user · age unknown · GPU use unknown · train.py",
        ),
    ]
    assert [line_of(one) for one, _ in rows] == [words for _, words in rows]


def test_children_that_are_left_are_named() -> None:
    assert children_text(target()) == ""
    assert children_text(target(children=((5, "a"),))) == (
        "  1 child (5 a), not ended; --tree ends it too"
    )
    many = tuple((pid, "loader") for pid in range(1, 7))
    assert "6 children (1 loader, 2 loader, 3 loader, 4 loader and 2 more)" in children_text(
        target(children=many)
    )


def test_the_questions_and_the_ends() -> None:
    one, two = [target()], [target(), target(8)]
    assert question(one, TERM) == "End pid 4711 with SIGTERM?"
    assert question(two, signal.SIGUSR1) == "Signal 2 processes with SIGUSR1?"
    assert kill_question(one, 5.0) == "pid 4711 is still running after 5 s. Kill with SIGKILL?"
    assert "2 processes are still running" in kill_question(two, 5.0)
    assert done(one, TERM) == "pid 4711 ended"
    assert done(two, signal.SIGUSR1) == "SIGUSR1 sent to 2 processes"
    assert "andon kill -s KILL 4711 8" in not_ended(two, TERM).hint
    assert "wchan" in not_ended(one, KILL).hint
    assert isinstance(nothing_left([]), Gone)


def test_a_start_is_the_same_up_to_the_step_of_the_boot_time() -> None:
    rows = [(None, 5.0, True), (5.0, None, True), (5.0, 6.0, True), (5.0, 8.0, False)]
    assert [is_same_start(a, b) for a, b, _ in rows] == [expected for *_, expected in rows]


def test_a_job_or_a_lease_is_offered_where_all_that_is_meant_is_one() -> None:
    lease = EndLease("k7qm2", "alice", releasable=True)
    others = EndLease("m3", "bob", releasable=False)
    rows: list[tuple[list[EndTarget], str]] = [
        ([target()], "None"),
        ([target(lease=lease)], "release lease k7qm2"),
        ([target(lease=others)], "None"),
        ([target(lease=lease, job="slurm:42.0")], "release lease k7qm2"),
        ([target(lease=lease, job="job:12_3")], "cancel job 12_3"),
        ([target(job="job:7"), target(job="job:7"), target()], "cancel job 7"),
        ([target(job="job:7"), target(job="job:8")], "None"),
    ]
    assert [str(offered(targets)) for targets, _ in rows] == [words for _, words in rows]
    keys = [found.key for targets, _ in rows if (found := offered(targets)) is not None]
    assert keys == ["r", "r", "c", "c"]
