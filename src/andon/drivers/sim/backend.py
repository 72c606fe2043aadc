"""Simulated devices with realistic workloads and scripted faults, for demos and tests.

All values follow from the arguments and the time, so that every reader with the same arguments
reports the same. The devices have the vendor `sim` and no PCI address: none would be real, and
nothing may be looked up by it.
"""

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from andon.drivers.sim.rules import behaviour
from andon.drivers.sim.rules.behaviour import NOT_SIMULATED, UNSUPPORTED, Specimen
from andon.drivers.sim.rules.demo import Demo
from andon.drivers.sim.rules.scenarios import DEMO, DEMO_DEVICES, Script, ScriptedFault, plan
from andon.errors import Gone, Unavailable
from andon.model.device import SAMPLE_VALUES, Card, Device, Reading, State
from andon.model.event import Event, EventKind
from andon.version import __version__

_ADVICE = {
    ScriptedFault.LOST: "find the cause in the kernel log (sudo dmesg), then reset it or reboot",
    ScriptedFault.UNAVAILABLE: "load the driver (sudo modprobe nvidia), or install it",
}


class Simulation:
    """Plays a scenario. `origin` is second zero of the scripts; by default the first `open`.

    Set `origin` if readers are restarted: a script then continues where it was instead of
    starting again, and a past crash is not repeated.
    """

    name = "sim"

    def __init__(
        self,
        count: int = 4,
        seed: int = 1,
        scenario: str = "mixed",
        models: Sequence[str] = (),
        faults: Sequence[str] = (),
        origin: float | None = None,
    ) -> None:
        played = plan(count, scenario, models, faults)
        self._scripts = played.scripts
        self._specimens = tuple(
            behaviour.make_specimen(index, seed, model, workload)
            for index, (model, workload) in enumerate(played.parts)
        )
        self._demo_seed = seed if scenario == DEMO else None
        self._demo: Demo | None = None
        self._origin = origin
        self._opened_seconds = 0.0
        self._report: Callable[[Sequence[Event]], None] | None = None
        self._reported: set[Script] = set()

    def announce(self, report: Callable[[Sequence[Event]], None]) -> None:
        self._report = report

    def glance(self) -> Sequence[Card]:
        return [_card(specimen) for specimen in self._specimens]

    def open(self) -> Sequence[Card]:
        now = time.time()
        if self._origin is None:
            self._origin = now
        self._opened_seconds = now - self._origin
        self._refuse_when_unavailable(self._opened_seconds)
        if self._demo_seed is not None and self._demo is None:
            self._demo = Demo(self._demo_seed, self._origin, self._specimens[:DEMO_DEVICES])
        return self.glance()

    def describe(self, card: Card) -> Sequence[Device]:
        specimen, elapsed = self._find(card), self._elapsed_seconds(time.time())
        self._refuse_when_unavailable(elapsed)
        if self._demo is None:  # the lost one of the demo was there earlier
            self._refuse_when_lost(specimen.index, elapsed)
        return [behaviour.describe(specimen)]

    def read(self, card: Card, at: float, watched: bool) -> Sequence[Reading]:
        specimen, elapsed = self._find(card), self._elapsed_seconds(at)
        self._crash_when_due(elapsed)
        self._refuse_when_unavailable(elapsed)
        self._report_when_due(specimen, at, elapsed)
        try:
            self._refuse_when_lost(specimen.index, elapsed)
        except Gone as exc:
            if self._demo is None or not self._demo.is_lost(specimen.index, at):
                raise
            seen = self._reading(specimen, self._demo.lost_at, 0.0, watched)
            return [replace(seen, processes=(), state=State.LOST, reason=exc.reason, hint=exc.hint)]
        self._delay(specimen.index, elapsed)
        return [self._reading(specimen, at, elapsed, watched)]

    def versions(self) -> Mapping[str, str]:
        return {"sim": __version__}

    def close(self) -> None:
        """Nothing to release. A hung read stays hung, as a real one would."""

    def _find(self, card: Card) -> Specimen:
        for specimen in self._specimens[card.index : card.index + 1]:
            if specimen.uuid == card.key:
                return specimen
        raise Gone(f"no simulated device {card.key}")

    def _elapsed_seconds(self, at: float) -> float:
        if self._origin is None:
            raise Unavailable("the simulation has not been opened")
        return at - self._origin

    def _active(
        self, trouble: ScriptedFault, elapsed: float, device: int | None = None
    ) -> list[Script]:
        return [s for s in self._scripts if s.trouble is trouble and s.active(elapsed, device)]

    def _crash_when_due(self, elapsed: float) -> None:
        for script in self._active(ScriptedFault.CRASH, elapsed):
            if script.since >= self._opened_seconds:
                signal.raise_signal(signal.SIGSEGV)

    def _refuse_when_unavailable(self, elapsed: float) -> None:
        for script in self._active(ScriptedFault.UNAVAILABLE, elapsed):
            raise Unavailable("the simulated driver cannot be reached", hint=_scripted(script))

    def _report_when_due(self, specimen: Specimen, at: float, elapsed: float) -> None:
        """Reports a scripted event once, as a driver does: a later reader does not get it."""
        for script in self._active(ScriptedFault.XID, elapsed, specimen.index):
            if not self._report or script in self._reported:
                continue
            if script.since >= self._opened_seconds:
                self._reported.add(script)
                xid = Event(EventKind.XID, specimen.uuid, at, int(script.value), source=self.name)
                self._report([xid])

    def _refuse_when_lost(self, device: int, elapsed: float) -> None:
        for script in self._active(ScriptedFault.LOST, elapsed, device):
            raise Gone("the simulated device has fallen off the bus", hint=_scripted(script))

    def _delay(self, device: int, elapsed: float) -> None:
        for script in self._active(ScriptedFault.HUNG, elapsed, device):
            threading.Event().wait(min(script.until - elapsed, threading.TIMEOUT_MAX))
        for script in self._active(ScriptedFault.SLOW, elapsed, device):
            threading.Event().wait(float(script.value))

    def _reading(self, specimen: Specimen, at: float, elapsed: float, watched: bool) -> Reading:
        if self._demo is not None and specimen.index < DEMO_DEVICES:
            specimen = self._demo.device(specimen.index, at)
        missing = dict(behaviour.missing(specimen.model, watched))
        sample, processes = behaviour.sample(specimen, at), behaviour.processes(specimen, at)
        missing |= {name: NOT_SIMULATED for name in SAMPLE_VALUES if getattr(sample, name) is None}
        for script in self._active(ScriptedFault.ECC, elapsed, specimen.index):
            missing.pop("ecc_uncorrected", None)  # an error is shown even if the model counts none
            errors = (sample.ecc_uncorrected or 0) + int(script.value)
            sample = replace(sample, ecc_uncorrected=errors)
        for script in self._active(ScriptedFault.UNSUPPORTED, elapsed, specimen.index):
            missing[script.value] = UNSUPPORTED
        if "processes" in missing:
            processes = ()
        unknown: dict[str, Any] = dict.fromkeys(missing.keys() - {"processes"})
        return Reading(
            uuid=specimen.uuid,
            sample=replace(sample, **unknown),
            missing=missing,
            processes=processes,
        )


def _card(specimen: Specimen) -> Card:
    device = behaviour.describe(specimen)
    return Card(key=device.uuid, index=device.index, name=device.name)


def _scripted(script: Script) -> str:
    """Returns the usual advice for such a fault, and that it is simulated."""
    return f"{_ADVICE[script.trouble]} (simulated by {script.text}: nothing is broken)"
