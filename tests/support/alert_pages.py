"""Alerts by hand: a node where something of everything is wrong."""

from msgspec.structs import replace

from andon.alerts.rules.overview import AlertOverview
from andon.events.rules.xids import explain
from andon.explain.conditions.catalogue import BY_NAME
from andon.explain.conditions.condition import severity
from andon.model.alert import Acknowledgement, Alert, Level, Phase, Silence
from andon.model.event import Party
from tests.support.snapshots import AT, uuid

TRAINING = Party(4711, "alice", "python", "python train.py --epochs 90", AT - 7200)
SERVING = Party(4712, "bob", "vllm", "vllm serve llama-3-70b", AT - 90_000)


def alert(rule: str, device: int, level: Level, message: str, **changes: object) -> Alert:
    number = uuid(device)
    made = Alert(
        id=f"{rule}@{number}#{AT - 720:.0f}",
        rule=rule,
        subject=number,
        level=level,
        state=Phase.FIRING,
        since=AT - 720,
        fired=AT - 660,
        where=f"GPU {device} (NVIDIA H200)",
        device=device,
        severity=severity(level, BY_NAME[rule]),
        message=message,
    )
    return replace(made, **changes)


def lost() -> Alert:
    xid = explain(79)
    return alert(
        "xid", 3, Level.CRITICAL, f"GPU 3 reports Xid 79: {xid.meaning}", advice=xid.advice(3),
        since=AT - 125, fired=AT - 125, affected=(TRAINING, SERVING), notified=1,
        last_notified=AT - 120, value=79.0, unit="xid",
    )  # fmt: skip


def hot() -> Alert:
    return alert(
        "thermal", 2, Level.WARNING,
        "GPU 2 is too hot: 86 °C (alert above 80 °C, slows down at 89 °C)",
        advice="Check the cooling: dust, blocked slots, a warm room, a neighbouring card. Until "
        "then, lower its power limit: sudo nvidia-smi -i 2 -pl 550",
        value=86.0, threshold=80.0, limit=89.0, unit="celsius", affected=(SERVING,),
        acknowledged=Acknowledgement(AT - 300, "carol", "a fan is ordered"), notified=2,
        evidence={"slowdown_in_seconds": 1260.0},
    )  # fmt: skip


def busy() -> AlertOverview:
    full = alert(
        "memory", 0, Level.INFO, "The memory of GPU 0 is 97 % full (threshold 90 %)",
        value=97.0, threshold=90.0, unit="percent",
    )  # fmt: skip
    pending = alert(
        "fan", 5, Level.WARNING, "The fan of GPU 5 has stopped at 72 °C", state=Phase.PENDING,
        since=AT - 20, fired=None, fires_in_seconds=40.0,
    )  # fmt: skip
    over = alert(
        "driver_hung", 4, Level.WARNING, "GPU 4 is not responding: driver call stuck for 1 min",
        state=Phase.RESOLVED, since=AT - 4000, fired=AT - 3940, resolved=AT - 3000,
    )  # fmt: skip
    silent = alert(
        "throttle_power", 1, Level.WARNING,
        "GPU 1 runs 31 % below its maximum clock because of its power limit (up to 20 % is normal)",
        silenced_until=AT + 5400, advice="Raise the limit to the device's default, if power and "
        "cooling allow.", no_data_since=AT - 45, since=AT - 9000, fired=AT - 8700,
    )  # fmt: skip
    store = replace(
        alert("store", 0, Level.WARNING, "The history is not being written: the disk is full"),
        subject="store", device=None, where="the history", since=AT - 90, fired=AT - 60,
        id=f"store@store#{AT - 90:.0f}", advice="Check the disk: andon doctor",
    )  # fmt: skip
    part = alert(
        "throttle_thermal", 2, Level.WARNING, "GPU 2 is thermally throttled", inhibited_by=hot().id
    )
    used = [
        alert("high_usage", n, Level.INFO, f"GPU {n} is in use: 9{n} %") for n in (0, 1, 2, 4, 7)
    ]
    hush = Silence("5f3a91c2", AT + 5400, "throttle_power", uuid(1), "bob", "until the audit", AT)
    return AlertOverview(
        "node17", AT, (full, hot(), lost(), pending, over, silent, store, part, *used), (hush,)
    )


def quiet() -> AlertOverview:
    return AlertOverview("node17", AT, (), simulated=True)
