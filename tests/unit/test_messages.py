"""What a person reads on a phone."""

from collections.abc import Callable
from dataclasses import replace

from andon.core.notifying.messages import Voice, clock, last_words, message, without_secrets
from andon.core.processes.redaction import HIDDEN
from andon.model.alert import Alert, Level, Notice, NoticeKind, Party, Phase

AT = 1_794_700_800.0  # 2026-11-15 00:00 UTC
HOT = Alert(
    id="thermal@GPU-1#1794699720",
    rule="thermal",
    subject="GPU-1",
    level=Level.CRITICAL,
    state=Phase.FIRING,
    since=AT - 720,
    where="GPU 3 (NVIDIA H200)",
    device=3,
    severity=80,
    fired=AT - 660,
    value=91.0,
    threshold=80.0,
    limit=89.0,
    unit="celsius",
    message="GPU 3 is too hot: 91 °C, it slows down at 89 °C",
    advice="Look at the cooling: dust, blocked slots, a warm room.",
    who=(Party(4242, "ada", "python", "python train.py --token hunter2hunter2 --epochs 9"),),
)
LOST = replace(
    HOT,
    id="lost@GPU-2#1794700740",
    rule="lost",
    subject="GPU-2",
    device=5,
    where="GPU 5 (NVIDIA H200)",
    since=AT - 60,
    severity=100,
    message="GPU 5 is lost: the driver says that it has fallen off the bus",
    advice="Look for the cause: sudo dmesg | grep -i xid. Then reset it, or reboot.",
    who=(Party(1, "bob"), Party(2, "bob"), Party(3, "eve")),
)
DISK = replace(
    HOT,
    id="node_disk@node#1794614400",
    rule="node_disk",
    subject="node",
    device=None,
    where="this node",
    level=Level.WARNING,
    since=AT - 86_400,
    severity=50,
    message="/home is nearly full: 97 %",
    advice="Make room: du -xh --max-depth 2 /home | sort -h | tail",
    who=(),
)


def berlin(_at: float) -> float:
    return 3600.0


def notice(
    alert: Alert = HOT, kind: NoticeKind = NoticeKind.FIRING, simulated: bool = False
) -> Notice:
    return Notice(f"{alert.id}:{kind}", kind, alert, AT, "node7", simulated)


def over(alert: Alert) -> Notice:
    ended = replace(alert, state=Phase.RESOLVED, resolved=AT)
    return notice(ended, NoticeKind.RESOLVED)


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
    (party,) = without_secrets(notice()).alert.who
    assert party.command == f"python train.py --token {HIDDEN} --epochs 9"


def test_the_last_word_about_an_alert_counts() -> None:
    assert [n.kind for n in last_words([notice(), notice(DISK), over(HOT)])] == [
        NoticeKind.FIRING,
        NoticeKind.RESOLVED,
    ]


def test_the_level_of_a_message_is_the_worst_that_is_still_wrong() -> None:
    assert message([notice(), notice(DISK)], AT, berlin).level is Level.CRITICAL
    assert message([over(HOT), notice(DISK)], AT, berlin).level is Level.WARNING
    assert message([over(HOT)], AT, berlin).level is None


def test_another_day_is_named() -> None:
    assert clock(AT - 1, AT - 1, berlin) == "00:59"
    assert clock(AT - 3601, AT, berlin) == "14 Nov 23:59"
    assert clock(951_782_400.0, AT, lambda _: 0.0) == "29 Feb 00:00"
    assert clock(0.0, AT, lambda _: 0.0) == "1 Jan 00:00"


def test_a_voice_speaks_for_its_node() -> None:
    voice = Voice("node7", berlin, "https://gpus.example/")
    assert voice.message([notice()], AT) == message([notice()], AT, berlin, "https://gpus.example/")
