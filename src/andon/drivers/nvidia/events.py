"""Receives events of NVIDIA's devices (Xids, memory errors) in a thread of its own."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from andon.drivers.nvidia import nvml
from andon.drivers.nvidia.trouble import UNINITIALIZED
from andon.failures.rules.backoff import doubled_seconds
from andon.model.event import Event, EventKind

SOURCE: Final = "nvml"
SETTLING_SECONDS: Final = 1.0  # a one-off command ends before this begins
WAIT_SECONDS: Final = 30.0  # in the driver, where it costs nothing and blocks nothing
WAIT_RESTING_SECONDS: Final = 1.0  # where NVML must be closed soon after the cards become idle
BACK_OFF_SECONDS: Final = 60.0
MOST_AT_ONCE: Final = 64
PAUSE_SECONDS: Final = 0.2  # after each wait, so that neither a storm nor a driver that does not
# wait can use up the CPU; events meanwhile stay in the driver's queue
_UNNAMED: Final = (0, 999)  # the driver's codes for an unknown Xid

Report = Callable[[Sequence["Event"]], None]


class EventListener:
    """Listens during one NVML session, and keeps NVML open until it has ended.

    Only its own thread uses the event set; a card that is lost or supports no events is left out,
    and the others continue.
    """

    def __init__(self, report: Report, resting: bool) -> None:
        self._report, self._resting = report, resting
        self._lock = threading.Lock()
        self._cards: list[tuple[nvml.Handle, str]] = []
        self._registered = 0
        self._uuids: dict[int, str] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, handle: nvml.Handle, uuid: str) -> None:
        """Also listens to this card, from the next round on."""
        with self._lock:
            self._cards.append((handle, uuid))
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._run, name="events", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Makes it end after its current wait, without waiting for that."""
        self._stopped.set()

    def _run(self) -> None:
        failures = 0
        self._stopped.wait(SETTLING_SECONDS)
        while not self._stopped.is_set():
            try:
                with _own_session(wake_all=not self._resting):
                    self._listen()
                    return
            except nvml.Error as error:
                if error.value == UNINITIALIZED:  # the driver was unloaded, and the reader ends
                    return
            # A lost card makes every wait fail at once: retry without it, and with a back-off.
            self._registered, failures = 0, failures + 1
            self._stopped.wait(doubled_seconds(failures, 1.0, BACK_OFF_SECONDS))

    def _listen(self) -> None:
        events = nvml.open_events()
        try:
            while not self._stopped.is_set():
                wait = WAIT_RESTING_SECONDS if self._register(events) else WAIT_SECONDS
                if not self._uuids:  # no card of this node reports events
                    self._stopped.wait(wait)
                elif (event := nvml.wait_event(events, self._timeout(wait))) is not None:
                    self._report_batch(events, event)
                self._stopped.wait(PAUSE_SECONDS)
        finally:
            with contextlib.suppress(nvml.Error):
                nvml.close_events(events)

    def _timeout(self, wait: float) -> float:
        return min(wait, WAIT_RESTING_SECONDS) if self._resting else wait

    def _register(self, events: Any) -> bool:
        """Registers cards that were added since; returns whether there were any."""
        with self._lock:
            new = self._cards[self._registered :]
            self._registered = len(self._cards)
        for handle, uuid in new:
            with contextlib.suppress(nvml.Error):  # this card has no events, or is already lost
                if nvml.register(events, handle):
                    self._uuids[nvml.place(handle)] = uuid
        return bool(new)

    def _report_batch(self, events: Any, event: nvml.RawEvent | None) -> None:
        """Reports all queued events, each once."""
        batch: dict[nvml.RawEvent, Event] = {}
        for _ in range(MOST_AT_ONCE):
            if event is None:
                break
            batch.setdefault(event, self._event(event))
            event = nvml.wait_event(events, 0.0)
        self._report(tuple(batch.values()))

    def _event(self, raw: nvml.RawEvent) -> Event:
        xid = raw.kind == nvml.XID_EVENT
        detail = "" if xid else nvml.ECC_EVENTS.get(raw.kind, "a memory error")
        if raw.instance is not None:
            detail = f"MIG instance {raw.instance}{': ' if detail else ''}{detail}"
        return Event(
            kind=EventKind.XID if xid else EventKind.ECC,
            uuid=self._uuids.get(raw.device),
            at=time.time(),
            code=raw.data if xid and raw.data not in _UNNAMED else None,
            detail=detail,
            source=SOURCE,
        )


@contextlib.contextmanager
def _own_session(wake_all: bool) -> Iterator[None]:
    """Opens NVML for a block: it is reference-counted, the last user shuts it down."""
    nvml.start(wake_all)
    try:
        yield
    finally:
        with contextlib.suppress(nvml.Error):
            nvml.stop()
