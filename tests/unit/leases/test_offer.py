"""What another machine's verdicts leave for a request."""

import pytest
from msgspec.structs import replace

from andon.errors import Invalid
from andon.leases.rules.offer import Offer, offer_by
from andon.leases.rules.verdict import by_readings
from andon.model.device import DeviceStatus, Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.verdict import VerdictKind
from andon.units import GIB, MIB
from tests.support.sharing_parts import gpu


def offered(status: DeviceStatus, request: DeviceRequest) -> Offer:
    known = {one.uuid: one for one in by_readings([gpu(0)])}
    return offer_by(Snapshot("n", 1.0, devices=(status,)), known, request)


def with_free(free_bytes: int | None) -> DeviceStatus:
    status = gpu(0)
    assert status.sample is not None
    return replace(status, sample=replace(status.sample, memory_free_bytes=free_bytes))


def test_two_sizes_that_differ_never_read_alike() -> None:
    [row] = offered(with_free(40 * GIB - MIB), DeviceRequest(1, 1, 40 * GIB)).rows
    assert (row.verdict.kind, row.verdict.code) == (VerdictKind.IN_USE, "full")
    assert row.verdict.reason == "40,959 MiB free, 40,960 MiB requested"


def test_free_memory_that_is_not_known_is_not_in_use() -> None:
    found = offered(with_free(None), DeviceRequest(1, 1, 40 * GIB))
    assert not found.available
    [row] = found.rows
    assert (row.verdict.kind, row.verdict.code) == (VerdictKind.WITHHELD, "unknown")
    assert row.verdict.reason == "its free memory is not known"
    assert offered(with_free(None), DeviceRequest(1, 1)).available


def test_options_that_another_machine_does_not_answer_are_named() -> None:
    with pytest.raises(Invalid, match="--shared, --label, --prefer and --even-if-used") as wrong:
        offered(gpu(0), DeviceRequest(1, 1, prefer=("H200",)))
    assert "--url" not in wrong.value.reason
