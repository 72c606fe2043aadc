"""Which GPUs a model fits on, now and when they are empty, and the smallest size that fits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Struct, field
from msgspec.structs import replace

from andon.estimate.rules.engines import TITLES, refusal, world_size
from andon.estimate.rules.learned import LearnedPeak
from andon.estimate.rules.options import EstimateOptions, ServingEngine, with_size
from andon.estimate.rules.serving import (
    GpuNeed,
    claimed_bytes,
    requests_at_once,
    serving_need,
    stored_as,
)
from andon.estimate.rules.shape import ModelFacts
from andon.estimate.rules.training import training_need
from andon.leases.rules.eligibility import BALANCE
from andon.model.device import Snapshot
from andon.model.naming import device_labels
from andon.model.shapes import Doc
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.units import fixed, human_bytes


class GpuCapacity(Struct, frozen=True):
    """The memory of one GPU, and whether it is available."""

    uuid: str
    label: str
    name: str
    total_bytes: int | None
    free_bytes: int | None
    promised_bytes: int = 0
    vendor: str = ""
    obstacle: str | None = None  # why it is not available now

    @property
    def usable_bytes(self) -> int | None:
        """The memory for a program if nothing else runs: without the driver's reserve."""
        return None if self.total_bytes is None else self.total_bytes - self.promised_bytes


class GpuFit(Struct, frozen=True):
    """Whether it fits on one GPU; null is not known."""

    json_without = ("vendor",)
    uuid: str
    label: str
    name: str
    fits_now: bool | None = field(name="now")
    fits_empty: bool | None = field(name="empty")
    needed_bytes: int  # what it must have free
    claim_bytes: int | None = None
    free_bytes: int | None = None
    total_bytes: int | None = None
    requests_at_once: int | None = None  # of full length
    reason: Annotated[str | None, Doc("why not now")] = None
    vendor: str = ""


class SmallestSize(Struct, frozen=True):
    """The smallest number of GPUs on which it fits."""

    option: str  # which size is varied
    size: int
    world_size: int
    minimum_bytes: int
    devices: tuple[str, ...]  # labels


def need_of_model(facts: ModelFacts, options: EstimateOptions) -> GpuNeed:
    """Returns what the fullest GPU of a group holds."""
    if options.engine is ServingEngine.TRAINING:
        return training_need(facts, options)
    return serving_need(facts, options)


def gpu_capacities(
    snapshot: Snapshot, verdicts: Mapping[str, DeviceVerdict] | None
) -> tuple[GpuCapacity, ...]:
    """Returns the GPUs of a node; boards that are divided into partitions are left out."""
    labels = device_labels(snapshot.devices)
    divided = {status.device.parent for status in snapshot.devices}
    capacities = []
    for status in snapshot.devices:
        device, sample = status.device, status.sample if status.answered else None
        if device.uuid in divided:
            continue
        verdict = None if verdicts is None else verdicts.get(device.uuid)
        capacities.append(
            GpuCapacity(
                uuid=device.uuid,
                label=labels[device.uuid],
                name=device.name,
                total_bytes=device.memory_total_bytes,
                free_bytes=None if sample is None else sample.memory_free_bytes,
                promised_bytes=(sample.memory_reserved_bytes or 0) if sample else 0,
                vendor=device.vendor,
                obstacle=_obstacle(verdict, verdicts is not None),
            )
        )
    return tuple(capacities)


def _obstacle(verdict: DeviceVerdict | None, is_judged: bool) -> str | None:
    if verdict is None:
        return "it is not known whether it is available" if is_judged else None
    if verdict.kind is VerdictKind.FREE:
        return None
    if verdict.kind is VerdictKind.HELD and verdict.by:
        return f"held by {verdict.by}"
    if verdict.kind is VerdictKind.IN_USE and verdict.by:
        return f"in use by {verdict.by}"
    return verdict.reason or "not available"


def measured_fit(capacity: GpuCapacity, peak: int) -> GpuFit:
    """Returns whether one GPU has room for what earlier runs used."""
    usable = capacity.usable_bytes
    if usable is None:
        return _unknown(capacity, peak)
    return _judged(capacity, peak, peak, usable)


def fit_of(
    capacity: GpuCapacity, need: GpuNeed, options: EstimateOptions, learned: LearnedPeak | None
) -> GpuFit:
    """Returns whether one GPU has room; all that a server claims must be free when it starts."""
    total, usable = capacity.total_bytes, capacity.usable_bytes
    if total is None or usable is None:
        return _unknown(capacity, need.minimum_bytes)
    claim = claimed_bytes(need, options, total, usable)
    least = need.minimum_bytes
    peak = None if learned is None else learned.peak_on(capacity.name, options.engine.is_server)
    if peak is not None:
        return _judged(capacity, peak, peak, usable)
    if claim is None:
        return _judged(capacity, least, least, usable)
    fitting = requests_at_once(need, claim, options)
    judged = _judged(capacity, least, max(least, claim), claim)
    if not judged.fits_empty:
        may = f"{TITLES[options.engine]} may use {part_text(claim, total)}"
        judged = replace(judged, reason=f"needs {human_bytes(least)}; {may}")
    return replace(judged, claim_bytes=claim, requests_at_once=fitting)


def part_text(part: int, total: int) -> str:
    """Returns a size and its share: `72.0 of 80.0 GiB (90 %)`."""
    (number, unit), whole = human_bytes(part).split(" "), human_bytes(total)
    first = number if whole.endswith(f" {unit}") else f"{number} {unit}"
    return f"{first} of {whole} ({fixed(100 * part / total) if total else 0} %)"


def _unknown(capacity: GpuCapacity, needed: int) -> GpuFit:
    reason = "its memory is not known"
    return GpuFit(capacity.uuid, capacity.label, capacity.name, None, None, needed, reason=reason,
                  vendor=capacity.vendor)  # fmt: skip


def _judged(capacity: GpuCapacity, least: int, needed: int, limit: int) -> GpuFit:
    """Judges a GPU: `least` must be below `limit`, and `needed` must be free now."""
    empty, free, reason = least <= limit, capacity.free_bytes, capacity.obstacle
    now: bool | None = None
    if reason is not None or not empty:
        now = False
    elif free is not None:
        now = needed <= free
    if not empty:
        reason = f"needs {human_bytes(least)}, has {human_bytes(limit)}"
    elif now is False and reason is None:
        reason = f"needs {human_bytes(needed)} free, has {human_bytes(free or 0)}"
    elif now is None:
        reason = "its free memory is not known"
    return GpuFit(
        uuid=capacity.uuid,
        label=capacity.label,
        name=capacity.name,
        fits_now=now,
        fits_empty=empty,
        needed_bytes=needed,
        free_bytes=free,
        total_bytes=capacity.total_bytes,
        reason=reason,
        vendor=capacity.vendor,
    )


def together(fits: Sequence[GpuFit], count: int, *, now: bool) -> tuple[GpuFit, ...]:
    """Returns GPUs on which the group fits: of one vendor, as similar as possible, and the
    smallest of those. Empty if there are not enough."""
    best: tuple[float, int, tuple[GpuFit, ...]] | None = None
    for vendor in dict.fromkeys(fit.vendor for fit in fits):
        fitting = [
            fit
            for fit in fits
            if fit.vendor == vendor and (fit.fits_now if now else fit.fits_empty)
        ]
        fitting.sort(key=lambda fit: _room(fit, now))
        for place in range(len(fitting) - count + 1):
            group = tuple(fitting[place : place + count])
            largest = _room(group[-1], now)
            likeness = round(_room(group[0], now) / max(1, largest), 1)
            if best is None or (-likeness, largest) < best[:2]:
                best = (-likeness, largest, group)
    return () if best is None else best[2]


def _room(fit: GpuFit, now: bool) -> int:
    return (fit.free_bytes if now else fit.total_bytes) or 0


def smallest_size(
    facts: ModelFacts,
    options: EstimateOptions,
    capacities: Sequence[GpuCapacity],
    *,
    now: bool,
) -> SmallestSize | None:
    """Returns the fewest GPUs on which the model fits, with the other sizes unchanged."""
    name, sizes = _varied(options, len(capacities))
    for size in sizes:
        tried = with_size(options, name, size)
        count = world_size(tried)
        if count > len(capacities) or refusal(facts.shape, stored_as(facts, tried), tried):
            continue
        need = need_of_model(facts, tried)
        found = together(
            [fit_of(capacity, need, tried, None) for capacity in capacities], count, now=now
        )
        if found:
            labels = tuple(fit.label for fit in found)
            return SmallestSize(name, size, count, need.minimum_bytes, labels)
    return None


def _varied(options: EstimateOptions, most: int) -> tuple[str, Iterator[int]]:
    """Returns which size reduces a GPU's share, and its values: layers for Transformers, ranks
    of ZeRO in training.

    A data-parallel group without ZeRO holds everything on each GPU, so more do not help.
    """
    if options.engine is ServingEngine.TRANSFORMERS:
        return "pp", iter(range(1, most + 1))
    if options.engine is ServingEngine.TRAINING:
        return "dp", iter(range(1, most + 1) if options.zero else [1])
    return "tp", iter(range(1, most + 1))


def is_balanced(fits: Sequence[GpuFit]) -> bool:
    """Whether `andon run` takes these devices together by default."""
    now = all(fit.fits_now for fit in fits)
    capacities = [_room(fit, now) for fit in fits]
    return not capacities or min(capacities) >= BALANCE * max(capacities)
