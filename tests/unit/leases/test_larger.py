"""A retry with more memory: only where a device here has more, whatever equal devices report."""

from typing import Any

import pytest

from andon.errors import Unavailable
from andon.leases.rules.larger import larger_request
from andon.model.device import DeviceStatus, Process
from andon.units import GIB, MIB, distinct_bytes
from tests.support.rows import rows
from tests.support.sharing_parts import gpu, request

HAD = int(79.4 * GIB)
EQUAL = [gpu(n, 0.6) for n in range(4)]
KEPT = [gpu(n, memory_reserved_bytes=GIB // 2) for n in range(4)]
BUSY = [gpu(n, 20, processes=[Process(7, memory_bytes=20 * GIB)]) for n in range(4)]


@rows(
    ("devices", "asked", "had"),
    [
        (EQUAL, {}, HAD),
        (KEPT, {}, int(79.5 * GIB)),
        (BUSY, {}, HAD),  # equal ones that others use
        (EQUAL, {"memory_bytes": 79 * GIB}, HAD),
        ([*EQUAL, gpu(5, total=141 * GIB, name="H200")], {"models": ("H100",)}, HAD),
        ([*EQUAL, gpu(5, total=141 * GIB)], {"least": 2, "most": 2}, HAD),
        (EQUAL, {"memory_bytes": 60 * GIB, "shared": True}, HAD),
    ],
)
def test_no_retry_asks_for_what_no_device_can_have(
    devices: list[DeviceStatus], asked: dict[str, Any], had: int
) -> None:
    with pytest.raises(
        Unavailable, match=r"no (GPU here has|2 GPUs here have) more than (80\.0|79\.5) GiB"
    ):
        larger_request(request(**asked), had, devices, {})


@rows(
    ("devices", "asked", "had"),
    [
        ([*EQUAL, gpu(5, total=141 * GIB)], {}, HAD),
        (EQUAL, {}, 40 * GIB),  # a desktop has the rest of that one
        (EQUAL, {"memory_bytes": 20 * GIB, "shared": True}, HAD),
    ],
)
def test_a_retry_asks_for_more_where_there_is_more(
    devices: list[DeviceStatus], asked: dict[str, Any], had: int
) -> None:
    before = request(**asked)
    found = larger_request(before, had, devices, {}).memory_bytes or 0
    assert found > (before.memory_bytes or 0) + GIB // 2
    assert before.shared or found >= had + GIB // 2


def test_two_sizes_that_differ_do_not_read_alike() -> None:
    assert distinct_bytes(HAD, HAD + 2 * MIB) == ("81,305 MiB", "81,307 MiB")
    assert distinct_bytes(HAD, HAD + 1) == (f"{HAD:,} bytes", f"{HAD + 1:,} bytes")
    assert distinct_bytes(HAD, HAD) == ("79.4 GiB", "79.4 GiB")
    assert distinct_bytes(GIB, HAD) == ("1.0 GiB", "79.4 GiB")
