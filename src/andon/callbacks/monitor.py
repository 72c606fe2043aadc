"""The kept GpuMonitorCallback: records a training loop, and calls a function on alerts.

with andon.GpuMonitorCallback().with_thermal_threshold(80).on_alert(print_it) as monitor:
    for batch in loader:
        if not monitor.step(loss=train(batch)):
            break
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Self

from andon.callbacks.loop_hook import LONGEST_PAUSE_SECONDS, LoopHook
from andon.errors import Invalid

if TYPE_CHECKING:  # a framework's adapter is imported in milliseconds: the rest with the first one
    from andon.api.compat.alerts import AlertConfig, GpuAlert
    from andon.api.compat.metrics import GpuMetrics
    from andon.api.run import RecordedRun
    from andon.model.device import Snapshot
    from andon.sampling.follower import Follower

log = logging.getLogger("andon")

INTERVAL_SECONDS = 10.0
LoopAction = Literal["pause", "stop"]
ACTIONS = ("pause", "stop")
AlertKey = tuple[type, int]
HEAT, POWER = "ThermalThrottling", "PowerLimit"
PAUSING_HELPS = (HEAT, POWER)
"""Memory stays full and a device stays idle while the program that holds it waits."""


class GpuMonitorCallback(LoopHook):
    """Records the loop as a run, checks its devices at an interval, and may pause or stop it.

    `on_alert` functions are called in a thread of the callback when an alert begins; one that
    returns `"pause"` or `"stop"` pauses the loop at its next `step` until the alert is over, or
    stops it. Pausing helps against heat and power alone, so that for other alerts `"pause"` does
    nothing. `action` does the same for heat without a function.
    """

    def __init__(
        self,
        interval_secs: float = INTERVAL_SECONDS,
        thermal_threshold: float | None = None,
        on_alert: "Callable[[GpuAlert], object] | None" = None,
        config: "AlertConfig | None" = None,
        action: LoopAction | None = None,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        longest_pause_seconds: float = LONGEST_PAUSE_SECONDS,
        quiet: bool = False,
    ) -> None:
        """At the end one line on standard error says where the record is, unless `quiet`."""
        from andon.api.compat.alerts import AlertConfig, AndonSystem
        from andon.runs.rules.plain import plain_table

        if action is not None and action not in ACTIONS:
            raise Invalid(f"{action!r} is not an action", hint='"pause" or "stop"')
        self._config, self._interval = config or AlertConfig(), float(interval_secs)
        self._calls = [] if on_alert is None else [on_alert]
        super().__init__(longest_pause_seconds)
        self._action, self._quiet, self._name = action, quiet, name
        self._given = plain_table(params or {})  # a copy for another process can be pickled
        self._run = self._new_run()
        self._system = AndonSystem(self._config)
        self._current: dict[AlertKey, GpuAlert] = {}
        self._pausing: set[AlertKey] = set()
        self._changed = threading.Condition()
        self._follower: Follower | None = None
        self._uuids: frozenset[str] = frozenset()
        if thermal_threshold is not None:
            self.with_thermal_threshold(thermal_threshold)

    def _new_run(self) -> "RecordedRun":
        from andon.api.run import RecordedRun
        from andon.model.run.record import RunKind

        return RecordedRun(self._name, self._given, kind=RunKind.CALLBACK, quiet=self._quiet)

    def _keywords(self) -> dict[str, Any]:
        """Returns the arguments that create another callback like this one."""
        return {
            "interval_secs": self._interval,
            "config": self._config,
            "action": self._action,
            "name": self._name,
            "params": self._given,
            "longest_pause_seconds": self._longest,
            "quiet": self._quiet,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles the settings only: a copy has no run yet."""
        return _remade, (type(self), self._keywords(), tuple(self._calls))

    # How it is set up.

    def with_interval_secs(self, seconds: float) -> Self:
        """How often the devices are checked for alerts; samples are taken as in every run."""
        self._interval = float(seconds)
        return self

    def with_thermal_threshold(self, celsius: float) -> Self:
        from msgspec.structs import replace

        from andon.api.compat.alerts import AndonSystem

        if not 0 < float(celsius) < inf:  # nothing is ever as hot as NaN
            raise Invalid(f"{celsius!r} is not a threshold", hint="degrees Celsius, such as 80")
        self._config = replace(self._config, thermal_threshold=float(celsius))
        self._system = AndonSystem(self._config)
        return self

    def on_alert(self, call: "Callable[[GpuAlert], object]") -> Self:
        """Calls this when an alert begins; more than once adds more functions."""
        self._calls.append(call)
        return self

    # How it is used.

    @property
    def run(self) -> "RecordedRun":
        """The run: for events, items, its id and the path of its record."""
        return self._run

    def begin(self) -> Self:
        """Starts recording and checking; `with` and the first `step` call it."""
        if self._run.id is None:
            self._run.begin()
            self._uuids = self._run.uuids
            try:
                self._follow()
            except BaseException as error:  # such as an invalid interval
                self._run.end(error)
                raise
        return self

    def _follow(self) -> None:
        from andon.api import watch as library
        from andon.failures.log import FailureLog
        from andon.sampling.follower import Follower

        failures = FailureLog("andon", "checking for alerts failed; continuing")
        session = library.shared().subscribe(self._interval)
        self._follower = Follower(session, self.take, "andon callback", failures).start()

    def step(self, step: float | None = None, /, **values: Any) -> bool:
        """Once per step of the loop: logs the values, and waits while the loop is paused. False
        means that it should stop."""
        self.begin()
        if values:
            self._run.log(step, **values)
        if self._pausing and not self.stopped:
            self._wait()
        return not self.stopped

    def alerts(self) -> "list[GpuAlert]":
        """Returns what is wrong now, worst first."""
        return list(self._current.values())

    def end(self, error: BaseException | None = None) -> None:
        """Completes the record; `with` calls it."""
        if self._follower is not None:
            self._follower.close()
        self._run.end(error)

    def take(self, snapshot: "Snapshot") -> None:
        """Checks one snapshot, and calls the functions for every alert that begins."""
        from andon.api.compat.metrics import GpuMetrics

        mine = [s for s in snapshot.devices if s.device.uuid in self._uuids]
        self.check([GpuMetrics.from_status(status) for status in mine])

    def check(self, metrics: "Sequence[GpuMetrics]") -> None:
        """Checks the readings of the run's devices, and reports every alert that begins."""
        found = self._system.check(metrics)
        current = {(type(alert), alert.device): alert for alert in found}
        fresh = [alert for key, alert in current.items() if key not in self._current]
        with self._changed:
            self._current = current
            self._pausing &= set(current)
            self._changed.notify_all()
        for alert in fresh:
            self._call_back(alert)

    def _call_back(self, alert: "GpuAlert") -> None:
        wanted: list[str | None] = [self._action] if type(alert).__name__ == HEAT else []
        for call in self._calls:
            try:
                answer = call(alert)
                # A table of pandas is neither equal to a word nor not.
                wanted += [answer] if isinstance(answer, str) else []
            except BaseException:  # sys.exit() too: it would end the thread, and a pause never
                log.exception("the callback for an alert failed")
        if "pause" in wanted and type(alert).__name__ not in PAUSING_HELPS:
            log.warning("not pausing the loop, which would not help: %s", alert.message())
            wanted = [one for one in wanted if one != "pause"]
        with self._changed:
            if "pause" in wanted:
                self._pausing.add((type(alert), alert.device))
            if "stop" in wanted and not self.stopped:
                self._stop(alert.message())
            self._changed.notify_all()

    def _wait(self) -> None:
        message = "; ".join(a.message() for key, a in self._current.items() if key in self._pausing)
        before, over = self.paused_seconds, "the alert is over"
        why = self._pause(message, self._wait_until_calm, over, "it has waited for long enough")
        seconds = round(self.paused_seconds - before, 3)
        self._run.event("paused", seconds=seconds, resumed_because=why)

    def _wait_until_calm(self, longest_seconds: float) -> bool:
        with self._changed:
            calm = self._changed.wait_for(
                lambda: self.stopped or not self._pausing, longest_seconds
            )
            self._pausing.clear()
        return calm

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        self.end(error)


def _remade(
    kind: type[GpuMonitorCallback],
    keywords: Mapping[str, Any],
    calls: "Sequence[Callable[[GpuAlert], object]]",
) -> GpuMonitorCallback:
    made = kind(**keywords)
    for call in calls:
        made.on_alert(call)
    return made
