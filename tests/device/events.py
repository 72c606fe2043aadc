"""Events of a real driver: a deliberate Xid, followed through andon."""

import os
import subprocess
import sys
import time
from collections.abc import Callable

import andon
from andon.model.device import Snapshot
from andon.sampling.bus import Subscription
from tests.device.scenes import Scene, SkippedError
from tests.device.xid import ASKED_BY

LISTENING_SECONDS = 4.0  # the queue is opened a moment after the first sample
HEARD_SECONDS = 20.0


def an_xid_on_purpose_is_heard_with_its_device(scene: Scene) -> str:
    """Through NVML's queue, and with the process if the kernel log is readable."""
    if os.environ.get(ASKED_BY) != "1":
        raise SkippedError(f"set {ASKED_BY}=1: other monitors of this machine see the Xid too")
    with andon.watch(0.5) as session:
        begun = time.time()
        _until(session, lambda snapshot: snapshot.at - begun >= LISTENING_SECONDS)
        command = [sys.executable, "-m", "tests.device.xid"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise SkippedError(done.stderr.strip())
        heard = _until(session, lambda snapshot: bool(snapshot.events))
    event = heard.events[0]
    assert event.code in (13, 31, 43), event
    assert event.uuid in {status.device.uuid for status in heard.devices}, event
    return f"Xid {event.code} by {event.source}: {event.detail or 'without details'}"


def _until(session: Subscription, holds: Callable[[Snapshot], bool]) -> Snapshot:
    end = time.monotonic() + HEARD_SECONDS
    while time.monotonic() < end:
        snapshot = session.get(HEARD_SECONDS)
        if snapshot is not None and holds(snapshot):
            return snapshot
    raise AssertionError("it did not arrive")
