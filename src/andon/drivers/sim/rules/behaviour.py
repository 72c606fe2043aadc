"""Behaviour of a simulated device: every reading is a pure function of the device and the time.

A workload is an endless sequence of cycles of equal length and energy; what varies between cycles
is drawn by hashing the seed and the cycle number. So any instant can be computed without a history:
temperature is the exact response of a first-order body to the last few cycles, energy is whole
cycles plus a part.
"""

import math
import uuid
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from andon.drivers.sim.rules.workloads import PROFILES, LoadPhase, Model, Profile, Workload
from andon.model.device import (
    UNWATCHED,
    Device,
    Limits,
    Process,
    ProcessKind,
    Sample,
    unknown_setup,
)
from andon.model.throttling import HW_SLOWDOWN, HW_THERMAL, IDLE, POWER_CAP, SW_THERMAL
from andon.units import MIB

DAY_SECONDS = 86_400.0
POWERED_ON = 1_600_000_000.0  # the energy counter starts here, so that it looks real
IDLE_CELSIUS = 32
RUN_SECONDS = 6 * 3600.0
SETTLING_SECONDS = 40.0  # how fast a device warms up or cools down when its work changes
DESKTOP_BYTES = 180 * MIB
CONTEXT_BYTES = 6 * MIB  # overhead of a process
TRAFFIC_SECONDS = 10.0  # how often a driver's counters would be read
IDLE_BYTES_PER_SECOND = 200_000  # of a link that carries nothing but readings
RIPPLE = 0.01  # power varies by this share around the level of its phase
FIRST_PID = 5_000_000  # above Linux's largest pid: killing it can never affect a real process
USERS = ("alice", "bob", "carol")
UNSUPPORTED = "not supported by this device"
NOT_SIMULATED = "not simulated"
_SETUP = unknown_setup(NOT_SIMULATED)
_NVLINK = ("nvlink_received_bytes_per_second", "nvlink_sent_bytes_per_second")

_WORD = 2**64 - 1


class Stint(Struct, frozen=True, cache_hash=True):
    """One of several works on a device, and the device when that work began."""

    since: float
    celsius: float
    joules: float
    user: str = ""
    command: str = ""
    number: int = 0


class Specimen(Struct, frozen=True, cache_hash=True):
    """One simulated device: its model, its workload, and its own seed."""

    index: int
    uuid: str
    model: Model
    workload: Workload
    seed: int
    stint: Stint | None = None  # None: the workload has always run

    @property
    def profile(self) -> Profile:
        return PROFILES[self.workload]

    @property
    def limit_watts(self) -> float:
        return round(self.model.power_watts * self.profile.limit_share)


class CyclePosition(Struct, frozen=True):
    """The position of an instant: the cycle, the phase, and the time within it."""

    cycle: int
    began: float
    phase: LoadPhase
    seconds: float

    @property
    def memory_share(self) -> float:
        first, last = self.phase.memory
        return first + (last - first) * self.seconds / self.phase.seconds


def draw(*keys: int) -> float:
    """Returns a number in [0, 1) that depends only on the keys (splitmix64)."""
    state = 0
    for key in keys:
        state = (state ^ (key & _WORD)) + 0x9E3779B97F4A7C15 & _WORD
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _WORD
        state = (state ^ state >> 27) * 0x94D049BB133111EB & _WORD
        state ^= state >> 31
    return (state >> 11) / 2**53


_constant = lru_cache(maxsize=1024)(draw)  # for what never changes on a device


def make_specimen(index: int, seed: int, model: Model, workload: Workload) -> Specimen:
    """The device at an index; its UUID and its seed depend only on the seed and the index."""
    luck = [int(draw(seed, index, part) * 2**53) for part in range(3)]
    number = uuid.UUID(int=luck[0] << 75 | luck[1] << 22 | luck[2] >> 31, version=4)
    return Specimen(index, f"SIM-{number}", model, workload, luck[2])


@lru_cache(maxsize=1024)  # for every reading
def describe(specimen: Specimen) -> Device:
    """Returns the facts of a simulated device. It has no PCI address: none would be real."""
    model = specimen.model
    return Device(
        uuid=specimen.uuid,
        index=specimen.index,
        vendor="sim",
        name=f"{model.name} (simulated)",
        memory_total_bytes=model.memory_bytes,
        limits=Limits(
            slowdown_celsius=model.slowdown_celsius,
            power_default_watts=model.power_watts,
            pcie_generation=model.pcie_generation,
            pcie_width=model.pcie_width,
            sm_clock_mhz=model.sm_clock_mhz,
        ),
        setup=_SETUP,
    )


def locate(specimen: Specimen, at: float) -> CyclePosition:
    """Returns the position of an instant; devices are out of phase with each other."""
    period = specimen.profile.period_seconds
    since = 0.0 if specimen.stint is None else specimen.stint.since
    shifted = at - since + _constant(specimen.seed, 1) * period
    cycle = math.floor(shifted / period)
    into = shifted - cycle * period
    began = at - into
    phases = _phases(specimen, cycle)
    for phase in phases:
        if into < phase.seconds:
            return CyclePosition(cycle, began, phase, into)
        into -= phase.seconds
    return CyclePosition(cycle, began, phases[-1], phases[-1].seconds)


def utilization_percent(specimen: Specimen, at: float) -> int:
    """Returns exactly zero if nothing runs; otherwise a value that varies from second to second."""
    return _busy(specimen, locate(specimen, at), at)


def _busy(specimen: Specimen, moment: CyclePosition, at: float) -> int:
    load = moment.phase.load
    if load == 0:
        return 0
    noise = 4.0 * draw(specimen.seed, 2, math.floor(at)) - 2.0
    return min(100, max(1, round(100 * load + noise)))


def _mean_busy(specimen: Specimen, moment: CyclePosition, at: float, seconds: float) -> int:
    """Returns the mean utilisation of the seconds that follow; each cycle works as much."""
    after = locate(specimen, at + seconds)
    each = _worked(specimen, moment.cycle, specimen.profile.period_seconds)
    parts = _worked(specimen, after.cycle, at + seconds - after.began)
    parts -= _worked(specimen, moment.cycle, at - moment.began)
    return round(100 * ((after.cycle - moment.cycle) * each + parts) / seconds)


def _worked(specimen: Specimen, cycle: int, seconds: float) -> float:
    return sum(phase.load * part for phase, part in _elapsed(_phases(specimen, cycle), seconds))


def _watts(specimen: Specimen, moment: CyclePosition) -> float:
    phase = moment.phase
    turn = 2 * math.pi * _swings(phase) * moment.seconds / phase.seconds
    return _level_watts(specimen, phase) * (1 + RIPPLE * math.sin(turn))


def energy_joules(specimen: Specimen, at: float) -> float:
    """Returns the integral of the power since the counter began."""
    return _energy(specimen, locate(specimen, at), at)


def _energy(specimen: Specimen, moment: CyclePosition, at: float) -> float:
    stint = specimen.stint
    since, joules = (_powered_on(at), 0.0) if stint is None else (stint.since, stint.joules)
    cycle, whole, before = _cycle_energy(specimen, since)
    parts = _partial_joules(specimen, moment, at) - before
    return round(joules + (moment.cycle - cycle) * whole + parts, 3)


@lru_cache(maxsize=1024)
def _cycle_energy(specimen: Specimen, since: float) -> tuple[int, float, float]:
    """Returns the cycle of an instant, the energy of each cycle, and that of this one so far."""
    moment = locate(specimen, since)
    whole = sum(_level_watts(specimen, p) * p.seconds for p in _phases(specimen, moment.cycle))
    return moment.cycle, whole, _partial_joules(specimen, moment, since)


def temperature_celsius(specimen: Specimen, at: float) -> float:
    """Returns the temperature of a first-order body, heated by the last five time constants."""
    return _celsius(specimen, locate(specimen, at), at)


def _celsius(specimen: Specimen, moment: CyclePosition, at: float) -> float:
    warm, stint = _warmth(specimen, moment, at), specimen.stint
    if stint is None:
        return warm
    return warm + (stint.celsius - warm) * math.exp(-max(0.0, at - stint.since) / SETTLING_SECONDS)


def _warmth(specimen: Specimen, position: CyclePosition, at: float) -> float:
    profile = specimen.profile
    back = math.ceil(5 * profile.inertia_seconds / profile.period_seconds)
    heat = profile.mean_power
    for cycle in range(position.cycle - back, position.cycle + 1):
        until = at - position.began if cycle == position.cycle else profile.period_seconds
        for phase, seconds in _elapsed(_phases(specimen, cycle), until):
            heat = phase.power + (heat - phase.power) * math.exp(-seconds / profile.inertia_seconds)
    return IDLE_CELSIUS + _span_celsius(specimen) * heat


def processes(specimen: Specimen, at: float) -> tuple[Process, ...]:
    """Processes on the device. They do not exist on the host, so all fields are set here."""
    moment = locate(specimen, at)
    return _processes(specimen, moment, at, _busy(specimen, moment, at))


def _processes(
    specimen: Specimen, moment: CyclePosition, at: float, busy: int
) -> tuple[Process, ...]:
    found = _desktop(specimen, at)
    if not moment.phase.running:
        return found
    if specimen.stint is not None:
        return (*found, *_process_of(specimen, specimen.stint, moment, busy))
    run, started = _run(specimen, moment, at)
    for number, program in enumerate(specimen.profile.programs):
        luck = draw(specimen.seed, 5, run, number)
        found += (
            Process(
                pid=FIRST_PID + int(luck * 2_000_000),
                started=started,
                name=program.command.split()[0],
                user=USERS[int(draw(specimen.seed, 6, run) * len(USERS))],
                command=program.command,
                memory_bytes=int(program.share * _held_bytes(specimen, moment)),
                utilization_percent=busy if number == 0 else 0,
            ),
        )
    return found


def _process_of(
    specimen: Specimen, stint: Stint, moment: CyclePosition, busy: int
) -> Iterator[Process]:
    if stint.command:
        yield Process(
            pid=FIRST_PID + 100 * stint.number + specimen.index,
            started=round(stint.since, 2),
            name=stint.command.split()[0],
            user=stint.user,
            command=stint.command,
            memory_bytes=int(_held_bytes(specimen, moment)),
            utilization_percent=busy,
        )


def sample(specimen: Specimen, at: float, seconds: float = 0.0) -> Sample:
    """All readings of such a device; `missing` says which ones this model lacks. With `seconds`
    its load and power are the means of the seconds that follow, as a summary has them."""
    model, moment = specimen.model, locate(specimen, at)
    load, watts = _busy(specimen, moment, at), _watts(specimen, moment)
    joules = _energy(specimen, moment, at)
    if seconds:
        load = _mean_busy(specimen, moment, at, seconds)
        watts = (energy_joules(specimen, at + seconds) - joules) / seconds
    heat = _celsius(specimen, moment, at)
    throttle = _throttle(specimen, load, heat)
    held = _processes(specimen, moment, at, load)
    used = sum(p.memory_bytes or 0 for p in held) + CONTEXT_BYTES * len(held)
    asleep = model.naps and load == 0
    bandwidth = round(specimen.profile.bandwidth * load)
    return Sample(
        at=at,
        utilization_percent=load,
        memory_utilization_percent=bandwidth,
        memory_used_bytes=used,
        memory_free_bytes=model.memory_bytes - model.promised_bytes - used,
        memory_reserved_bytes=model.promised_bytes,
        temperature_celsius=round(heat),
        memory_temperature_celsius=round(heat + 3 + bandwidth / 10),
        power_watts=round(watts, 3),
        power_limit_watts=specimen.limit_watts,
        energy_joules=joules,
        fan_percent=_fan_percent(model, heat),
        sm_clock_mhz=_sm_clock_mhz(model, moment.phase, load, throttle),
        memory_clock_mhz=405 if asleep else model.memory_clock_mhz,
        throttle=throttle,
        encoder_percent=0,
        decoder_percent=round(specimen.profile.decoder * load),
        pcie_generation=1 if asleep else model.pcie_generation,
        pcie_width=model.pcie_width,
        ecc_uncorrected=0,
        performance_state=8 if asleep else 0,
        sm_active_percent=round(0.87 * load, 1),
        tensor_active_percent=round(specimen.profile.tensor * load, 1),
        **_traffic(specimen, at),
    )


def missing(model: Model, watched: bool) -> Mapping[str, str]:
    """Returns the readings that this model does not provide now, and why."""
    expensive = (
        {} if watched else dict.fromkeys(("sm_active_percent", "tensor_active_percent"), UNWATCHED)
    )
    links = () if model.nvlink_gb_per_second else _NVLINK
    return expensive | dict.fromkeys((*sorted(model.lacks), *links), UNSUPPORTED)


def _traffic(specimen: Specimen, at: float) -> dict[str, Any]:
    """Returns traffic that follows the load, and changes as often as a driver is asked for it."""
    model, profile = specimen.model, specimen.profile
    reading = int(at // TRAFFIC_SECONDS)
    swing = [0.9 + 0.2 * draw(specimen.seed, 9, reading, way) for way in range(2)]
    busy = utilization_percent(specimen, reading * TRAFFIC_SECONDS) / 100 * 1e9
    received, sent = (
        round(IDLE_BYTES_PER_SECOND + share * busy * model.pcie_gb_per_second * swing[way])
        for way, share in enumerate(profile.pcie)
    )
    between = [round(profile.nvlink * busy * model.nvlink_gb_per_second * one) for one in swing]
    return {
        "pcie_received_bytes_per_second": received,
        "pcie_sent_bytes_per_second": sent,
        "nvlink_received_bytes_per_second": between[0] if model.nvlink_gb_per_second else None,
        "nvlink_sent_bytes_per_second": between[1] if model.nvlink_gb_per_second else None,
    }


def _powered_on(at: float) -> float:
    return POWERED_ON if at >= POWERED_ON else 0.0


def _phases(specimen: Specimen, cycle: int) -> tuple[LoadPhase, ...]:
    return _drawn(specimen.workload, specimen.seed, cycle)


@lru_cache(maxsize=1024)  # a reading uses the same few cycles repeatedly
def _drawn(workload: Workload, seed: int, cycle: int) -> tuple[LoadPhase, ...]:
    return PROFILES[workload].phases(draw(seed, 3, cycle))


def _elapsed(phases: tuple[LoadPhase, ...], seconds: float) -> Iterator[tuple[LoadPhase, float]]:
    """Each phase with its part of the first `seconds` of the cycle."""
    for phase in phases:
        if seconds <= 0:
            return
        yield phase, min(seconds, phase.seconds)
        seconds -= phase.seconds


def _level_watts(specimen: Specimen, phase: LoadPhase) -> float:
    idle = specimen.model.idle_watts
    return idle + (specimen.limit_watts - idle) * phase.power


def _swings(phase: LoadPhase) -> int:
    return max(1, round(phase.seconds / 7.3))


def _partial_joules(specimen: Specimen, moment: CyclePosition, at: float) -> float:
    """Returns the energy of the cycle up to the moment; whole periods of the ripple cancel out."""
    total = 0.0
    for phase, seconds in _elapsed(_phases(specimen, moment.cycle), at - moment.began):
        pace = 2 * math.pi * _swings(phase) / phase.seconds
        ripple = RIPPLE * (1 - math.cos(pace * seconds)) / pace
        total += _level_watts(specimen, phase) * (seconds + ripple)
    return total


def _span_celsius(specimen: Specimen) -> float:
    """Temperature rise above idle at full power."""
    model, excess = specimen.model, specimen.profile.overheating
    if excess:
        return (model.slowdown_celsius - IDLE_CELSIUS) * excess
    return model.full_celsius - IDLE_CELSIUS


def _run(specimen: Specimen, moment: CyclePosition, at: float) -> tuple[int, float]:
    """Returns the number of this run of the program, and when it began."""
    if specimen.profile.dies:
        return moment.cycle, max(0.0, round(moment.began, 2))
    shift = draw(specimen.seed, 4) * RUN_SECONDS
    run = math.floor((at + shift) / RUN_SECONDS)
    return run, max(0.0, round(run * RUN_SECONDS - shift, 2))


def _desktop(specimen: Specimen, at: float) -> tuple[Process, ...]:
    if not specimen.model.desktop:
        return ()
    pid = FIRST_PID - 1 - specimen.index
    return (
        Process(
            pid=pid,
            kind=ProcessKind.GRAPHICS,
            started=max(0.0, at // DAY_SECONDS * DAY_SECONDS - DAY_SECONDS),
            name="Xorg",
            user="root",
            command="/usr/lib/xorg/Xorg :0 -seat seat0 vt1",
            memory_bytes=DESKTOP_BYTES,
            utilization_percent=0,
        ),
    )


def _held_bytes(specimen: Specimen, moment: CyclePosition) -> float:
    """Memory of all programs of the workload, out of what is available."""
    model, profile = specimen.model, specimen.profile
    contexts = CONTEXT_BYTES * (len(profile.programs) + 1)
    room = model.memory_bytes - model.promised_bytes - DESKTOP_BYTES - contexts
    low, high = profile.memory
    return room * (low + (high - low) * _constant(specimen.seed, 7)) * moment.memory_share


def _throttle(specimen: Specimen, load: int, heat: float) -> tuple[str, ...]:
    slowdown = specimen.model.slowdown_celsius
    if load == 0:
        return (IDLE.name,)
    if heat >= slowdown:
        return (HW_SLOWDOWN.name, SW_THERMAL.name, HW_THERMAL.name)
    if heat >= slowdown - 3:
        return (SW_THERMAL.name,)
    return (POWER_CAP.name,) if specimen.profile.limit_share < 1 else ()


def _sm_clock_mhz(model: Model, phase: LoadPhase, load: int, throttle: tuple[str, ...]) -> int:
    if load == 0:
        return model.idle_clock_mhz
    if HW_SLOWDOWN.name in throttle:
        return _step_mhz(0.5 * model.sm_clock_mhz)
    slower = 0.85 if SW_THERMAL.name in throttle else 1.0
    return _step_mhz(slower * phase.clock * model.sm_clock_mhz)


def _step_mhz(clock: float) -> int:
    return 15 * math.floor(clock / 15)


def _fan_percent(model: Model, heat: float) -> int:
    """Returns the fan speed: off below 45 °C, full five degrees below the slowdown."""
    share = (heat - 45) / (model.slowdown_celsius - 5 - 45)
    return 0 if share <= 0 else min(100, round(25 + 75 * share))
