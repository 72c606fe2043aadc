"""Advice on what to improve in a run, with the evidence: one function each, listed in `ADVICE`.

A function takes the report and returns what it found, in order of the devices; the next piece of
advice is one function, its line in `ADVICE` and a row in `tests/unit/runs/test_run_advice.py`.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from andon.model.naming import title
from andon.model.run.record import WAITED, RunState
from andon.model.run.use import IdleSpells
from andon.model.throttling import ThrottleKind, reason_of
from andon.model.utilisation import BARELY_BUSY_PERCENT
from andon.runs.rules.reports.report import DeviceReport, ReadingFigures, RunReport
from andon.units import fixed, human_bytes, human_seconds, measured_seconds

STARVED_PERCENT = 75.0  # below this on average, while it was at work
OUTSIDE_SHARE = 0.25  # of all idle spells: with more before and after its work, they say little
HARDLY_PERCENT = 5.0
PAUSE_SECONDS = 10.0  # longer spells are no loader's
CPU_BUSY_PERCENT = 90.0
ALWAYS_PERCENT = 90.0
LOW_SM_PERCENT = 40.0
LOW_POWER_SHARE = 0.4
MEMORY_BOUND_PERCENT = 60.0
POWER_SHARE = 0.1
NEAR_CAP_SHARE = 0.9
THERMAL_SHARE = 0.01
ROOM_SHARE = 0.5  # of the memory that was never used
FULL_SHARE = 0.95
UNBALANCED_PERCENT = 25.0  # between the busiest and the least busy device
LONG_SECONDS, LONG_SHARE = 60.0, 0.1  # a beginning or an end without work is long from here
SHORT_SECONDS = 5.0  # a shorter run says nothing about how it would go on


class Advice(Struct, frozen=True):
    """One thing that could be better: the evidence, and what to do about it."""

    name: str
    evidence: str
    advice: str
    device: str | None = None  # its label; None for the run as a whole

    @property
    def text(self) -> str:
        return f"{self.evidence}: {self.advice}"


def advice_on(report: RunReport) -> list[Advice]:
    """Returns all advice that applies, the most important first."""
    return [found for ask in ADVICE for found in ask(report)]


def out_of_memory(report: RunReport) -> Iterator[Advice]:
    found = report.out_of_memory
    if found is None:
        return
    wanted = f": {human_bytes(found.wanted_bytes)} more were wanted" if found.wanted_bytes else ""
    evidence = f"GPU memory ran out{wanted}"
    others = found.held_by_others_bytes or 0
    if others and others >= (found.wanted_bytes or 0) > 0:
        advice = f"others held {human_bytes(others)}; ask for a device of your own (andon run)"
    elif found.growth == "leak":
        advice = "memory grew until it was full; look for tensors that are kept from step to step"
    elif found.growth == "step":
        advice = "one large step did not fit; use a smaller batch or accumulate gradients"
    elif (found.held_by_cache_bytes or 0) >= (found.wanted_bytes or 0) > 0:
        cached = human_bytes(found.held_by_cache_bytes or 0)
        advice = f"the allocator's cache held {cached}; it is fragmented (expandable segments help)"
    else:
        advice = "use a smaller batch, or a device with more memory"
    yield Advice("out_of_memory", evidence, advice)


def never_used(report: RunReport) -> Iterator[Advice]:
    unused = [device for device in report.devices if _never_busy(device)]
    if not unused or not _long_enough(report):
        return
    held = human_seconds(report.duration_seconds or 0)
    if len(unused) == len(report.devices):
        labels = ", ".join(device.device.label for device in unused)
        evidence = f"{title(labels)} was held for {held} and nothing ran on it"
        yield Advice("never_used", evidence, "does the program use the CPU instead?")
        return
    for device in unused:
        evidence = f"{_gpu(device)} was held for {held} and nothing ran on it"
        yield Advice("never_used", evidence, "ask for fewer devices", device.device.label)


def starved_loader(report: RunReport) -> Iterator[Advice]:
    cpu, waited = report.cpu.mean, report.last_values.get(WAITED)
    for device, evidence in _waiting(report, pausing=False):
        if waited is not None:
            evidence += f"; the loop waited for data {fixed(waited)} % of the time"
        if waited is not None and waited < HARDLY_PERCENT:
            advice = "it is not the loader; larger batches, or less work on the CPU between kernels"
        elif cpu is not None and cpu >= CPU_BUSY_PERCENT:
            advice = (
                f"the loader starves it; CPU was at {fixed(cpu)} %, so do less work there per item"
            )
        else:
            known = "" if cpu is None else f" (CPU was at {fixed(cpu)} %)"
            advice = (
                f"the loader starves it{known}; try more loader workers, faster storage or larger "
                "batches; normal for a server with few requests"
            )
        yield Advice("starved_loader", evidence, advice, device.device.label)


def long_pauses(report: RunReport) -> Iterator[Advice]:
    """Advises on long pauses, which are not the data loader's: that delays a device for seconds."""
    advice = "something else runs in between, such as evaluation or checkpoints on the CPU"
    for device, evidence in _waiting(report, pausing=True):
        yield Advice("long_pauses", evidence, advice, device.device.label)


def _waiting(report: RunReport, pausing: bool) -> Iterator[tuple[DeviceReport, str]]:
    """Yields devices that waited between their first and last work, with the evidence."""
    if not _long_enough(report):
        return
    for device in report.devices:
        busy, spells = _busy_at_work(device), _spells_at_work(device)
        if busy is None or busy >= STARVED_PERCENT or _never_busy(device):
            continue
        if pausing == (spells is not None and spells["mean_seconds"] >= PAUSE_SECONDS):
            when = "" if spells == device.spells else " between its first and its last work"
            evidence = f"{_gpu(device)} was busy {fixed(busy)} % of the time{when}"
            yield device, evidence + _stretches(spells)


def _stretches(spells: IdleSpells | None) -> str:
    """Describes how long a device was idle at a time; pauses within one reading are unseen."""
    if spells is None:
        return ""
    if not spells["count"]:
        return ", with pauses shorter than a reading"
    return f", idle in stretches of {measured_seconds(spells['mean_seconds'])}"


def small_kernels(report: RunReport) -> Iterator[Advice]:
    advice = "many small kernels; larger batches, fused kernels or CUDA graphs would use more of it"
    for device in report.devices:
        busy, active = _busy_at_work(device), device.mean("sm_active_percent")
        if busy is None or busy < ALWAYS_PERCENT:
            continue
        evidence = f"{_gpu(device)} was busy {fixed(busy)} %, "
        if active is not None and active < LOW_SM_PERCENT:
            evidence += f"SMs active {fixed(active)} %"
        elif active is None and (share := _low_power(device)) is not None:
            evidence += f"but drew {fixed(100 * share)} % of its power limit"
        else:
            continue
        yield Advice("small_kernels", evidence, advice, device.device.label)


def thermal(report: RunReport) -> Iterator[Advice]:
    for device in report.devices:
        share = _throttled(device, ThrottleKind.THERMAL)
        if share >= THERMAL_SHARE:
            hottest = device.most("temperature_celsius")
            most = "" if hottest is None else f" (up to {fixed(hottest)} °C)"
            evidence = f"Heat slowed {_gpu(device)} down {_percent(share)} of the time{most}"
            yield Advice("thermal", evidence, "check airflow and fans", device.device.label)


def hardware_slowdown(report: RunReport) -> Iterator[Advice]:
    for device in report.devices:
        share = _throttled(device, ThrottleKind.HARDWARE)
        if share >= THERMAL_SHARE:
            evidence = f"The board slowed {_gpu(device)} down {_percent(share)} of the time"
            advice = "check power supply and cooling (andon why)"
            yield Advice("hardware_slowdown", evidence, advice, device.device.label)


def power_capped(report: RunReport) -> Iterator[Advice]:
    for device in report.devices:
        share, limit = _throttled(device, ThrottleKind.POWER), device.device.power_limit_watts
        drawn = device.readings.get("power_watts", ReadingFigures()).p95
        # Drivers name the cap for short bursts too, far below it on average.
        near = limit is None or drawn is None or drawn >= NEAR_CAP_SHARE * limit
        if share >= POWER_SHARE and near:
            at = "" if limit is None else f" of {fixed(limit)} W"
            evidence = f"{_gpu(device)} was at its power cap{at} {_percent(share)} of the time"
            advice = "normal under full load; below the default limit a higher one makes it faster"
            yield Advice("power_capped", evidence, advice, device.device.label)


def unbalanced(report: RunReport) -> Iterator[Advice]:
    if not _long_enough(report):
        return
    used = [
        (busy, device)
        for device in report.devices
        if (busy := device.mean("utilization_percent")) is not None and not _never_busy(device)
    ]
    if len(used) < 2:
        return
    least, most = min(used, key=lambda pair: pair[0]), max(used, key=lambda pair: pair[0])
    if most[0] - least[0] >= UNBALANCED_PERCENT:
        evidence = (
            f"{_gpu(least[1])} was busy {fixed(least[0])} % and {_gpu(most[1])} {fixed(most[0])} % "
            "of the time"
        )
        yield Advice("unbalanced", evidence, "the work is not divided evenly between the devices")


def long_warm_up(report: RunReport) -> Iterator[Advice]:
    for device in report.devices:
        phases, held = device.phases, device.held_seconds
        if phases is not None and held and _is_long(phases.idle_before_seconds, held):
            first = human_seconds(phases.idle_before_seconds)
            evidence = (
                f"Nothing ran on {_gpu(device)} in the first {first} of {human_seconds(held)}"
            )
            advice = "load and prepare the data before the devices are taken"
            yield Advice("long_warm_up", evidence, advice, device.device.label)


def idle_end(report: RunReport) -> Iterator[Advice]:
    if report.state is RunState.RUNNING:
        return
    for device in report.devices:
        phases, held = device.phases, device.held_seconds
        if phases is not None and held and _is_long(phases.idle_after_seconds, held):
            last = human_seconds(phases.idle_after_seconds)
            evidence = f"{_gpu(device)} was held but idle for the last {last}"
            advice = "end the run, or release the device, when its work is done"
            yield Advice("idle_end", evidence, advice, device.device.label)


def memory_room(report: RunReport) -> Iterator[Advice]:
    """Advises on unused memory of devices that worked."""
    if report.out_of_memory is not None or not _long_enough(report):
        return
    for device in report.devices:
        peak, total = device.peak_memory_bytes, device.device.memory_total_bytes
        if peak is None or not total or _busy_at_work(device) is None or _never_busy(device):
            continue
        if peak <= (1 - ROOM_SHARE) * total:
            evidence = f"{_gpu(device)} used {human_bytes(peak)} of {human_bytes(total)} at most"
            advice = "a larger batch fits, or a smaller device would do"
            yield Advice("memory_room", evidence, advice, device.device.label)


def memory_full(report: RunReport) -> Iterator[Advice]:
    if report.out_of_memory is not None:
        return
    for device in report.devices:
        peak, total = device.peak_memory_bytes, device.device.memory_total_bytes
        if peak is not None and total and peak >= FULL_SHARE * total:
            evidence = f"{_gpu(device)} used {human_bytes(peak)} of {human_bytes(total)}"
            advice = "a slightly larger batch would not fit"
            yield Advice("memory_full", evidence, advice, device.device.label)


def failed_items(report: RunReport) -> Iterator[Advice]:
    counted = [device.items for device in report.devices if device.items is not None]
    failed, retried = (sum(getattr(i, name) for i in counted) for name in ("failed", "retried"))
    if failed or retried:
        evidence = (
            f"Of {report.items_done + failed} items {failed} failed, {retried} tries were repeated"
        )
        advice = "their output says why (andon runs tail)"
        yield Advice("failed_items", evidence, advice)


ADVICE: tuple[Callable[[RunReport], Iterator[Advice]], ...] = (
    out_of_memory, never_used, starved_loader, long_pauses, small_kernels, thermal,
    hardware_slowdown, unbalanced, long_warm_up, idle_end, failed_items, power_capped,
    memory_full, memory_room,
)  # fmt: skip
"""In the order in which they are shown."""


def _gpu(device: DeviceReport) -> str:
    return title(device.device.label)


def _long_enough(report: RunReport) -> bool:
    return (report.duration_seconds or 0.0) >= SHORT_SECONDS


def _never_busy(device: DeviceReport) -> bool:
    most = device.most("utilization_percent")
    return most is not None and most <= BARELY_BUSY_PERCENT


def _busy_at_work(device: DeviceReport) -> float | None:
    """Returns the busy share between the device's first and last work; over the whole run if its
    phases are not known."""
    if device.phases is not None:
        return device.phases.busy_percent
    return device.mean("utilization_percent")


def _spells_at_work(device: DeviceReport) -> IdleSpells | None:
    """Returns the idle spells, if they cover the time between the first and the last work."""
    spells, phases = device.spells, device.phases
    if spells is None or phases is None or not spells["count"]:
        return spells
    outside = phases.idle_before_seconds + phases.idle_after_seconds
    return spells if outside <= OUTSIDE_SHARE * spells["count"] * spells["mean_seconds"] else None


def _low_power(device: DeviceReport) -> float | None:
    """Returns the share of the power limit, if it is low for no other reason."""
    watts, limit = device.mean("power_watts"), device.device.power_limit_watts
    slowed = any(device.throttle_shares.values())
    memory_bound = (device.mean("memory_utilization_percent") or 0) >= MEMORY_BOUND_PERCENT
    if watts is None or not limit or slowed or memory_bound or watts >= LOW_POWER_SHARE * limit:
        return None
    return watts / limit


def _throttled(device: DeviceReport, kind: ThrottleKind) -> float:
    """Returns the share of time throttled for a kind of reason: the largest of its reasons."""
    shares = (s for name, s in device.throttle_shares.items() if reason_of(name).kind is kind)
    return max(shares, default=0.0)


def _is_long(seconds: float, held: float) -> bool:
    return seconds >= LONG_SECONDS and seconds >= LONG_SHARE * held


def _percent(share: float) -> str:
    return f"{fixed(100 * share)} %"
