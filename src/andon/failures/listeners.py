"""Functions that are called when something happens; one that fails does not affect the others."""

import threading
from collections.abc import Callable
from typing import Generic, ParamSpec

from andon.failures.log import FailureLog

Values = ParamSpec("Values")


class Listeners(Generic[Values]):
    """A list of listeners, called one after the other in the notifying thread: none may block."""

    def __init__(self, failures: FailureLog) -> None:
        self._failures = failures
        self._lock = threading.Lock()
        self._entries: tuple[list[Callable[Values, object]], ...] = ()

    def add(self, listener: Callable[Values, object]) -> Callable[[], None]:
        """Calls this from now on; returns a function that stops that."""
        entry = [listener]  # of its own: the same function may be added twice
        with self._lock:
            self._entries = (*self._entries, entry)

        def leave() -> None:
            with self._lock:
                self._entries = tuple(one for one in self._entries if one is not entry)

        return leave

    def __bool__(self) -> bool:
        return bool(self._entries)

    def notify(self, *values: Values.args, **named: Values.kwargs) -> None:
        for (listener,) in self._entries:
            try:
                listener(*values, **named)
            except (Exception, SystemExit) as exc:  # noqa: BLE001 - logged; the others are called
                self._failures.add(exc)
