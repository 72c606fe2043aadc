"""What a request for devices would get now, on this machine or by a server's verdicts."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import Invalid
from andon.leases.rules.eligibility import need_of, no_gpu, obstacles_of, request_text
from andon.leases.rules.verdict import verdict
from andon.model.device import DeviceStatus, Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.naming import device_labels
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.units import distinct_bytes


class OfferRow(Struct, frozen=True):
    """One device: the verdict on it, and what was read."""

    verdict: DeviceVerdict
    model: str
    free_bytes: int | None
    utilization_percent: float | None
    score: float | None = None
    chosen: bool = False

    @property
    def is_free(self) -> bool:
        return self.verdict.kind is VerdictKind.FREE


class Offer(Struct, frozen=True):
    """What a request would get now, or why not; it holds nothing."""

    at: float
    simulated: bool
    requested: str  # `2 GPUs with 40.0 GiB`
    least: int
    rows: tuple[OfferRow, ...]
    reason: str | None = None  # why nothing is chosen although devices are free

    @property
    def available(self) -> bool:
        return any(row.chosen for row in self.rows)


def offer_by(
    snapshot: Snapshot, known: Mapping[str, DeviceVerdict], request: DeviceRequest
) -> Offer:
    """Returns what a server's verdicts on its devices leave for a request."""
    if request.shared or request.labels or request.prefer or request.even_if_used:
        raise Invalid(
            "--shared, --label, --prefer and --even-if-used are for this machine's GPUs",
            hint="of another machine: --gpus, --memory, --model, --devices and --exclude",
        )
    if not snapshot.devices:
        raise no_gpu(snapshot.faults)
    # A mask of this process does not apply to a server's devices.
    statuses = tuple(replace(status, visible=True) for status in snapshot.devices)
    never = obstacles_of(statuses, request, {})
    need, labels = need_of(statuses, request, never), device_labels(statuses)
    rows = []
    for status in statuses:
        uuid, bar = status.device.uuid, never[status.device.uuid]
        found = known.get(uuid) if bar is None else verdict(status.device, labels[uuid], bar)
        row = OfferRow(
            found or _unknown(status, labels[uuid]),
            status.device.name,
            _free_bytes(status),
            status.sample.utilization_percent if status.sample and status.answered else None,
        )
        rows.append(_if_large_enough(row, request.memory_bytes))
    free = [place for place, row in enumerate(rows) if row.is_free]
    if len(free) >= need.least:
        for place in free[: need.most]:
            rows[place] = replace(rows[place], chosen=True)
    requested = request_text(request)
    return Offer(snapshot.at, snapshot.simulated, requested, need.least, tuple(rows))


def _unknown(status: DeviceStatus, label: str) -> DeviceVerdict:
    device, reason = status.device, status.reason or "the server does not report it"
    return DeviceVerdict(
        device.uuid, device.index, label, VerdictKind.WITHHELD, code="unknown", reason=reason
    )


def _if_large_enough(row: OfferRow, size: int | None) -> OfferRow:
    """Returns the row, as in use if a free device has too little free memory for the request."""
    if size is None or not row.is_free:
        return row
    if row.free_bytes is None:
        kind, code, reason = VerdictKind.WITHHELD, "unknown", "its free memory is not known"
    elif row.free_bytes < size:
        kind, code = VerdictKind.IN_USE, "full"
        reason = "{} free, {} requested".format(*distinct_bytes(row.free_bytes, size))
    else:
        return row
    return replace(row, verdict=replace(row.verdict, kind=kind, code=code, reason=reason))


def _free_bytes(status: DeviceStatus) -> int | None:
    return status.sample.memory_free_bytes if status.sample and status.answered else None
