"""What `andon top` draws from in tests: a scene of a snapshot, its leases, alerts and past."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

from msgspec.structs import replace

from andon.alerts.rules.alerts_from_sample import alerts_from_sample
from andon.alerts.rules.lamps import board
from andon.explain.conditions.rulebook import Rulebook
from andon.model.device import Snapshot
from andon.model.lease import LeaseKind, LeaseState, Share
from andon.model.lease_list import LeaseList, LeaseRow, WaitingRow
from andon.model.naming import device_labels
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.tui.histories import Histories
from andon.tui.page import Frame, Page
from andon.tui.scene import Scene, with_snapshot
from andon.tui.screen import compose
from andon.tui.sources.feed import Tick
from andon.tui.state import TopState

SPAN = 60.0


def scene_of(snapshot: Snapshot, **more: Any) -> Scene:
    """The scene of one snapshot, with its alerts; `more` are fields of the scene."""
    alerts = alerts_from_sample(snapshot, Rulebook())
    lamps = board(snapshot, alerts)
    found = with_snapshot(Scene(me="alice"), snapshot, Rulebook(), lamps)
    return replace(found, alerts=alerts, **more)


def tick_of(snapshot: Snapshot) -> Tick:
    alerts = alerts_from_sample(snapshot, Rulebook())
    return Tick(snapshot, board(snapshot, alerts), alerts)


def leases_of(snapshot: Snapshot) -> LeaseList:
    """Alice holds the first device, one person waits, and what no one uses is free."""
    labels = device_labels(snapshot.devices)
    devices = [status.device for status in snapshot.devices]
    used = {s.device.uuid for s in snapshot.devices if s.processes or not s.answered}
    verdicts = [
        DeviceVerdict(
            one.uuid,
            one.index,
            labels[one.uuid],
            VerdictKind.IN_USE if one.uuid in used else VerdictKind.FREE,
        )
        for one in devices
    ]
    rows: tuple[LeaseRow, ...] = ()
    if devices:
        verdicts[0] = replace(verdicts[0], kind=VerdictKind.HELD, by="alice", lease="k7qm2x")
        share = Share(devices[0].uuid, devices[0].index, None)
        rows = (
            LeaseRow(
                "k7qm2x", "alice", None, 1000, LeaseState.HELD, LeaseKind.COMMAND, (share,),
                snapshot.at - 600, snapshot.at + 3600, "train.py", False, 0, None, 0.0, None, 4711,
                True, None,
            ),
        )  # fmt: skip
    waiting = (WaitingRow(1, "dora", 2, None, snapshot.at - 240, 0),)
    return LeaseList(snapshot.at, rows, waiting, devices=tuple(verdicts))


def past_of(snapshot: Snapshot, seconds: int = int(SPAN)) -> Histories:
    """A minute of the same readings, once a second."""
    found = Histories()
    for age in range(seconds, -1, -1):
        found.add(replace(snapshot, at=snapshot.at - age))
    return found


_lately: deque[tuple[Snapshot, Scene, Histories]] = deque(maxlen=8)


def _made(snapshot: Snapshot) -> tuple[Scene, Histories]:
    """The scene and the minute before it take longer to make than a hundred pages to draw."""
    for seen, scene, past in _lately:
        if seen == snapshot:
            return scene, past
    scene, past = scene_of(snapshot, leases=leases_of(snapshot)), past_of(snapshot)
    _lately.append((snapshot, scene, past))
    return scene, past


def frame_of(
    snapshot: Snapshot, width: int = 120, height: int = 40, ascii_only: bool = False, **state: Any
) -> Frame:
    scene, past = _made(snapshot)
    first = snapshot.devices[0].device.uuid if snapshot.devices else None
    chosen = TopState(**{"device": first, "span_seconds": SPAN, **state})
    return Frame(scene, chosen, past, width, height, ascii_only, snapshot.at)


def page_of(snapshot: Snapshot, width: int = 120, height: int = 40, **state: Any) -> Page:
    return compose(frame_of(snapshot, width, height, **state))


def text_of(page: Page) -> str:
    return "".join(line.paint(False) + "\n" for line in page.lines)


def wait_in_loop(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run one test of the app: pytest itself knows no coroutines here."""
    asyncio.run(coroutine)
