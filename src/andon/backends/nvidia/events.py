"""Hears what NVIDIA's devices report by themselves, Xids and memory errors, in its own thread."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from andon.backends.nvidia import nvml
from andon.backends.nvidia.trouble import UNINITIALIZED

if TYPE_CHECKING:
    from andon.model.alert import Event

SOURCE: Final = "nvml"
SETTLING_SECONDS: Final = 1.0  # a single look at the devices is over before this begins
WAIT_SECONDS: Final = 30.0  # in the driver, where it costs nothing and holds up nobody
WAIT_RESTING_SECONDS: Final = 1.0  # where NVML is to be closed soon after the cards fell idle
BACK_OFF_SECONDS: Final = 60.0
MOST_AT_ONCE: Final = 64
PAUSE_SECONDS: Final = 0.2  # after each wait, so that neither a storm nor a driver that does not
# wait can take the processor; what happens meanwhile is in the driver's queue
_UNNAMED: Final = (0, 999)  # how the driver says that it does not know which Xid it was

Tell = Callable[[Sequence["Event"]], None]


class EventListener:
    """Listens for one session with NVML, and holds NVML open by itself until it has ended.

    Only its own thread touches the set of events; a card that is lost or does not support any is
    left out, and the others go on.
    """

    def __init__(self, tell: Tell, resting: bool) -> None:
        self._tell, self._resting = tell, resting
        self._lock = threading.Lock()
        self._cards: list[tuple[nvml.Handle, str]] = []
        self._registered = 0
        self._uuids: dict[int, str] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, handle: nvml.Handle, uuid: str) -> None:
        """Listen to this card too, from the next turn on."""
        with self._lock:
            self._cards.append((handle, uuid))
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._run, name="events", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Let it end when its present wait is over; nobody has to wait for that."""
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
                if error.value == UNINITIALIZED:  # the driver went away, and this reader with it
                    return
            # A lost card makes every wait fail at once: without it, and not in a hurry.
            self._registered, failures = 0, failures + 1
            self._stopped.wait(min(BACK_OFF_SECONDS, 2.0 ** min(failures, 10)))

    def _listen(self) -> None:
        events = nvml.open_events()
        try:
            while not self._stopped.is_set():
                wait = WAIT_RESTING_SECONDS if self._register(events) else WAIT_SECONDS
                if not self._uuids:  # no card of this node reports anything
                    self._stopped.wait(wait)
                elif (word := nvml.wait_event(events, self._patience(wait))) is not None:
                    self._tell_batch(events, word)
                self._stopped.wait(PAUSE_SECONDS)
        finally:
            with contextlib.suppress(nvml.Error):
                nvml.close_events(events)

    def _patience(self, wait: float) -> float:
        return min(wait, WAIT_RESTING_SECONDS) if self._resting else wait

    def _register(self, events: Any) -> bool:
        """Those cards that were added since; whether there were any."""
        with self._lock:
            new = self._cards[self._registered :]
            self._registered = len(self._cards)
        for handle, uuid in new:
            with contextlib.suppress(nvml.Error):  # this card cannot say, or is lost already
                if nvml.register(events, handle):
                    self._uuids[nvml.place(handle)] = uuid
        return bool(new)

    def _tell_batch(self, events: Any, word: nvml.Word | None) -> None:
        """All that is there, each thing once."""
        batch: dict[nvml.Word, Event] = {}
        for _ in range(MOST_AT_ONCE):
            if word is None:
                break
            batch.setdefault(word, self._event(word))
            word = nvml.wait_event(events, 0.0)
        self._tell(tuple(batch.values()))

    def _event(self, word: nvml.Word) -> "Event":
        from andon.model.alert import Event, EventKind

        xid = word.kind == nvml.XID_EVENT
        detail = "" if xid else nvml.ECC_EVENTS.get(word.kind, "a memory error")
        if word.instance is not None:
            detail = f"MIG instance {word.instance}{': ' if detail else ''}{detail}"
        return Event(
            kind=EventKind.XID if xid else EventKind.ECC,
            uuid=self._uuids.get(word.device),
            at=time.time(),
            code=word.data if xid and word.data not in _UNNAMED else None,
            detail=detail,
            source=SOURCE,
        )


@contextlib.contextmanager
def _own_session(wake_all: bool) -> Iterator[None]:
    """NVML counts who has initialised it, and stays until the last has shut it down."""
    nvml.start(wake_all)
    try:
        yield
    finally:
        with contextlib.suppress(nvml.Error):
            nvml.stop()
