"""Sample alerts and notices for tests."""

from msgspec.structs import replace

from andon.model.alert import Alert, Level, Notice, NoticeKind, Phase
from andon.model.event import Party

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
    message="GPU 3 is too hot: 91 °C (slows down at 89 °C)",
    advice="Check the cooling: dust, blocked slots, a warm room.",
    affected=(Party(4242, "ada", "python", "python train.py --token hunter2hunter2 --epochs 9"),),
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
    advice="Find the cause: sudo dmesg | grep -i xid. Then reset it, or reboot.",
    affected=(Party(1, "bob"), Party(2, "bob"), Party(3, "eve")),
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
    affected=(),
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
