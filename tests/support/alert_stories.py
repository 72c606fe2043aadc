"""Stories of a node with four GPUs, as a server knows them: hung, lost, hot, pending, handled."""

import time
from collections.abc import Callable, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from andon.alerts.rules.commands import acknowledge, current, silence
from andon.alerts.rules.state import EMPTY, AlertState
from andon.alerts.rules.state_machine import step
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import HeldDevices, Moment, Observation
from andon.model.alert import Alert, Silence
from andon.model.device import DeviceStatus, Limits, Process, Snapshot, State
from andon.units import GIB
from tests.support.snapshots import h200, uuid

NODE, BOOT = "node17", "one"
EVERY_SECONDS = 10
HOUR = 3600.0

Devices = tuple[DeviceStatus, ...]
Act = Callable[[AlertState, Moment], AlertState]


class Story(Struct, frozen=True):
    """What a server has seen, and what every surface says of it."""

    name: str
    snapshot: Snapshot
    alerts: tuple[Alert, ...]
    headline: str
    lamp: str
    words: dict[int, str]  # under the lamps that are not green, by index
    troubled: int = 0  # devices that somebody should look at
    badge: int = 0  # alerts that call somebody


def gpu(index: int, celsius: int = 60, *who: Process, **sample: object) -> DeviceStatus:
    """One that works; it slows down at 97 °C."""
    at = {"temperature_celsius": celsius, "utilization_percent": 90, "sm_clock_mhz": 1900}
    held = sum(p.memory_bytes or 0 for p in who) / GIB
    status = h200(index, held, **{**at, **sample})
    limits = Limits(slowdown_celsius=97, power_default_watts=700.0, sm_clock_mhz=1980)
    return replace(status, device=replace(status.device, limits=limits), processes=who)


def process(pid: int, user: str, script: str, gib: int = 20) -> Process:
    return Process(
        pid, name="python3", user=user, command=f"python3 {script}", memory_bytes=gib * GIB,
        started=time.time() - 3 * HOUR,
    )  # fmt: skip


def silent(index: int, state: State, reason: str, lasted: float) -> DeviceStatus:
    """One that has not answered for this long; alice's program was on it."""
    return replace(
        gpu(index), state=state, reason=reason, since=time.time() - lasted, sample=None,
        last_users=("alice",),
    )  # fmt: skip


def healthy() -> Devices:
    return tuple(gpu(index) for index in range(4))


def with_(*changed: DeviceStatus) -> Devices:
    """The four, with these in their places."""
    own = {status.device.index: status for status in changed}
    return tuple(own.get(status.device.index, status) for status in healthy())


def played(
    spans: Sequence[tuple[float, Devices]],
    acts: Sequence[Act] = (),
    leases: tuple[HeldDevices, ...] | None = None,
) -> tuple[Snapshot, tuple[Alert, ...]]:
    """The last snapshot and the alerts after each span of seconds; the acts come before the last
    sample. It ends now."""
    book, state = Rulebook(), EMPTY
    snapshot = Snapshot(NODE, 0.0)
    lasted = sum(seconds for seconds, _ in spans)
    begun = time.time() - lasted
    times = [
        (at, devices)
        for place, (seconds, devices) in enumerate(spans)
        for at in _times(sum(before for before, _ in spans[:place]), seconds)
    ]
    for at, devices in times:
        moment = Moment(begun + at, at)
        if at == times[-1][0]:
            for act in acts:
                state = act(state, moment)
        fresh = tuple(
            s if s.sample is None else replace(s, sample=replace(s.sample, at=begun + at))
            for s in devices
        )
        snapshot = Snapshot(NODE, begun + at, devices=fresh, boot=BOOT)
        seen = Observation(snapshot, leases=leases)
        state = step(state, seen, moment, book).state
    return snapshot, current(state)


def _times(start: float, seconds: float) -> list[float]:
    count = int(seconds // EVERY_SECONDS)
    return [start + n * EVERY_SECONDS for n in range(count)] + [start + seconds]


def silenced(rule: str, index: int, seconds: float = 2 * HOUR) -> Act:
    def act(state: AlertState, moment: Moment) -> AlertState:
        new = Silence("5f3a91c2", moment.wall + seconds, rule, uuid(index), by="ana")
        return silence(state, new, moment).state

    return act


def acknowledged(rule: str, index: int) -> Act:
    def act(state: AlertState, moment: Moment) -> AlertState:
        alert = state.episodes[uuid(index)][rule].alert
        return acknowledge(state, alert.id, "ana", "a fan is ordered", moment).state

    return act


@cache
def stories() -> tuple[Story, ...]:
    """All of them; they end now."""
    bob = process(4711, "bob", "finetune.py")
    hot = with_(gpu(2, 91, bob))
    hung = silent(0, State.STALE, "driver call stuck for 8 min", 480)
    lost = silent(1, State.LOST, "it has fallen off the bus", 26)
    both = process(4712, "alice", "train.py")
    left = h200(3, 40, temperature_celsius=40, utilization_percent=0)
    lease = HeldDevices("lease:k3f9", (uuid(3),), time.time() - HOUR, "alice")

    def told(name: str, seen: tuple[Snapshot, tuple[Alert, ...]], *said: object) -> Story:
        return Story(name, *seen, *said)  # type: ignore[arg-type]

    return (
        told("fine", played([(60, healthy())]), "All 4 GPUs are fine", "green", {}),
        told(
            "hung", played([(480, with_(hung))]),
            "GPU 0 is not responding: driver call stuck for 8 min. On it: alice", "red",
            {0: "not responding"}, 1, 1,
        ),
        told(
            "lost", played([(26, with_(lost))]),
            "GPU 1 is lost: it has fallen off the bus, 26 s ago. On it: alice", "red",
            {1: "lost"}, 1, 1,
        ),
        told(
            "hot", played([(1920, hot)]),
            "GPU 2 is too hot (91 °C, for 32 min) · bob's finetune.py", "amber",
            {2: "too hot"}, 1, 1,
        ),
        told(
            "pending", played([(60, healthy()), (44, hot)]),
            "GPU 2 is getting too hot: 91 °C (alert in 16 s)", "ring", {2: "getting too hot"},
        ),
        told(
            "clearing", played([(600, hot), (40, healthy())]),
            "GPU 2 was too hot (91 °C); now 60 °C, clears in 1 min 20 s", "ring",
            {2: "was too hot"},
        ),
        told(
            "silenced", played([(600, hot)], [silenced("thermal", 2)]),
            "3 of 4 GPUs are fine; GPU 2 is too hot (silenced for 2 h more)", "ring",
            {2: "too hot"},
        ),
        told(
            "acknowledged", played([(600, hot)], [acknowledged("thermal", 2)]),
            "3 of 4 GPUs are fine; GPU 2 is too hot (acknowledged by ana)", "ring",
            {2: "too hot"},
        ),
        told(
            "silenced beside hung",
            played([(480, with_(hung, gpu(2, 98, bob)))], [silenced("thermal", 2)]),
            "GPU 0 is not responding: driver call stuck for 8 min. On it: alice", "red",
            {0: "not responding", 2: "too hot"}, 1, 1,
        ),
        told(
            "memory left behind", played([(1200, with_(left))]),
            "GPU 3 has memory held by no visible process (for 20 min)", "amber",
            {3: "memory held"}, 1, 1,
        ),
        told(
            "a process on two GPUs", played([(1200, with_(gpu(0, 92, both), gpu(1, 91, both)))]),
            "GPU 0 is too hot (92 °C, for 20 min) · alice's train.py; 1 more needs attention",
            "amber", {0: "too hot", 1: "too hot"}, 2, 2,
        ),
        told(
            "held but idle",
            played([(1200, with_(gpu(3, 40, utilization_percent=0)))], leases=(lease,)),
            "GPU 3 is held but idle (for 20 min)", "amber", {3: "held but idle"}, 1, 1,
        ),
    )  # fmt: skip
