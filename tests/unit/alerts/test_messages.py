"""What a person reads on a phone."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from andon.alerts.rules.messages import (
    JOB_RULE,
    MessageContext,
    latest_per_alert,
    local_time,
    message,
    without_secrets,
)
from andon.model.alert import Level, Notice, NoticeKind
from andon.model.event import Party
from andon.model.redaction import HIDDEN
from tests.support.notices import AT, DISK, HOT, LOST, berlin, notice, over


def text(*notices: Notice, board: str = "https://gpus.example/") -> str:
    found = message(notices, AT, berlin, board)
    return f"{found.title}\n\n{found.body}\n"


CASES: dict[str, Callable[[], str]] = {
    "firing": lambda: text(notice()),
    "worse": lambda: text(notice(kind=NoticeKind.WORSE)),
    "reminder": lambda: text(notice(DISK, NoticeKind.REMINDER)),
    "resolved": lambda: text(over(HOT)),
    "no-data": lambda: text(notice(replace(HOT, no_data_since=AT - 30))),
    "simulated": lambda: text(notice(simulated=True)),
    "several": lambda: text(notice(DISK), notice(), notice(LOST)),
    "mixed": lambda: text(over(LOST), notice(DISK)),
    "all-resolved": lambda: text(over(LOST), over(HOT)),
    "many": lambda: text(
        *(notice(replace(DISK, id=str(n), message=f"/data{n} is nearly full")) for n in range(11))
    ),
    "late": lambda: text(replace(notice(DISK), at=AT - 3600)),
    "test": lambda: text(
        notice(replace(HOT, message="This is a test: nothing is wrong."), NoticeKind.TEST)
    ),
}


def test_the_golden_messages(golden: Callable[[str, str], None]) -> None:
    parts = [f"=== {name}\n{make()}" for name, make in CASES.items()]
    golden("messages.txt", "\n".join(parts))


def test_what_where_when_who_and_what_to_do_are_in_it() -> None:
    told = text(notice())
    for word in ("too hot", "91 °C", "GPU 3", "node7", "00:48", "12 min", "ada", "cooling"):
        assert word in told, word
    assert told.rstrip().endswith("https://gpus.example/")


def test_titles_are_short_whatever_the_message() -> None:
    long = replace(HOT, message="word " * 60)
    assert all(len(message([n], AT, berlin).title) <= 70 for n in (notice(long), over(long)))


def test_no_secret_leaves() -> None:
    assert "hunter2" not in text(notice())
    assert HIDDEN in text(notice())
    (party,) = without_secrets(notice()).alert.affected
    assert party.command == f"python train.py --token {HIDDEN} --epochs 9"


def test_the_last_word_about_an_alert_counts() -> None:
    assert [n.kind for n in latest_per_alert([notice(), notice(DISK), over(HOT)])] == [
        NoticeKind.FIRING,
        NoticeKind.RESOLVED,
    ]


def test_the_level_of_a_message_is_the_worst_that_is_still_wrong() -> None:
    assert message([notice(), notice(DISK)], AT, berlin).level is Level.CRITICAL
    assert message([over(HOT), notice(DISK)], AT, berlin).level is Level.WARNING
    assert message([over(HOT)], AT, berlin).level is None


def test_jobs_that_ended_at_once_are_called_jobs() -> None:
    jobs = [replace(DISK, id=str(n), rule=JOB_RULE, message=f"Job {n} failed") for n in range(300)]
    assert text(*map(notice, jobs)).startswith("WARNING 300 jobs on ")
    assert text(notice(jobs[0]), notice(LOST)).startswith("CRITICAL 2 alerts on ")


def test_another_day_is_named() -> None:
    assert local_time(AT - 1, AT - 1, berlin) == "00:59"
    assert local_time(AT - 3601, AT, berlin) == "14 Nov 23:59"
    assert local_time(951_782_400.0, AT, lambda _: 0.0) == "29 Feb 00:00"
    assert local_time(0.0, AT, lambda _: 0.0) == "1 Jan 00:00"


def test_a_voice_speaks_for_its_node() -> None:
    voice = MessageContext("node7", berlin, "https://gpus.example/")
    assert voice.message([notice()], AT) == message([notice()], AT, berlin, "https://gpus.example/")


def test_one_node_does_not_take_the_lines_of_others() -> None:
    flood = [notice(replace(LOST, id=f"n17:x@{n}#1", message=f"evil {n}")) for n in range(50)]
    flood = [replace(one, node="n17") for one in flood]
    honest = replace(notice(replace(DISK, message="the disk is full")), node="n18")
    told = message([*flood, honest], AT, berlin)
    lines = [line for line in told.body.splitlines() if line.startswith("•")]
    assert len(lines) == 8
    assert lines[-1].startswith("• WARNING n18: the disk is full"), "and each names its node"
    assert all(" n17: evil" in line for line in lines[:-1])
    assert "and 43 more" in told.body


def test_long_texts_of_one_node_do_not_cut_off_those_of_others() -> None:
    crowd = tuple(Party(n, f"user{n}" * 60) for n in range(50))
    text = "y" * 16_000
    flood = [
        notice(replace(LOST, id=f"n17:x@{n}#1", message=text, advice=text, affected=crowd))
        for n in range(50)
    ]
    honest = replace(notice(replace(DISK, message="the disk is full")), node="n18")
    told = message([*(replace(one, node="n17") for one in flood), honest], AT, berlin)
    assert len(told.body) < 2000, "else Discord refuses all of it, again and again"
    assert "• WARNING n18: the disk is full, since 14 Nov" in told.body
    assert len(message([flood[0]], AT, berlin).body) < 4096


@pytest.mark.parametrize("length", [20, 120, 180, 190, 200, 210, 220, 400])
def test_what_stands_around_the_alerts_counts_too(length: int) -> None:
    """The marks of a simulation and of lateness, the advice's beginning, the address, the title."""
    many = [
        replace(
            notice(
                replace(LOST, id=f"x@{n}#1", message="m" * length, advice=f"{n}" + "a" * length)
            ),
            simulated=True,
        )
        for n in range(30)
    ]
    told = message(many, AT + 7200.0, berlin, "https://gpus.example.com/" + "p" * 60)
    assert len(told.title + told.body) < 2000
