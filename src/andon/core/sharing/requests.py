"""A request as people write it: `2`, `2..4`, `10GiB`, `H100,A100`."""

import math
import re
from collections.abc import Sequence

from andon.errors import Invalid
from andon.model.work import DeviceRequest, PlacementOrder
from andon.units import parse_bytes

MOST_GPUS = 1024
LONGEST_WAIT_SECONDS = 30.0  # for a network caller, which keeps a connection open
_COUNT = re.compile(r"(\d{1,6})(?:\.\.(\d{1,6}))?", re.ASCII)

Names = str | Sequence[str]


def parse_count(value: int | str) -> tuple[int, int]:
    """`2` is (2, 2), `2..4` is (2, 4)."""
    match = _COUNT.fullmatch(str(value).strip())
    least, most = (int(match[1]), int(match[2] or match[1])) if match else (-1, -1)
    if isinstance(value, bool) or not 0 <= least <= most <= MOST_GPUS:
        raise Invalid(
            f"{str(value)[:40]!r} is not a number of GPUs", hint="use 1, or 2..4 for a range"
        )
    return least, most


def parse_memory(value: float | str | None) -> int | None:
    """A size in bytes, or with a unit: `10GiB`, `10G`, `8000MB`."""
    if value is None:
        return None
    try:
        size = parse_bytes(value) if isinstance(value, str) else value
    except ValueError as exc:
        raise Invalid(str(exc)) from exc
    if isinstance(size, bool) or not math.isfinite(size) or not 0 < size < 2**63:
        raise Invalid(f"{str(value)[:40]!r} is not an amount of memory", hint="e.g. 10GiB")
    return int(size)


def request_of(
    count: tuple[int, int],
    memory: float | str | None = None,
    *,
    shared: bool = False,
    models: Names = (),
    labels: Names = (),
    devices: Names = (),
    exclude: Names = (),
    prefer: Names = (),
    pack: bool = False,
    balanced: bool = True,
    even_if_used: bool = False,
    priority: int = 0,
) -> DeviceRequest:
    if not -1000 <= priority <= 1000:
        raise Invalid(f"{priority} is not a priority", hint="use -1000 to 1000")
    return DeviceRequest(
        least=count[0],
        most=count[1],
        memory_bytes=parse_memory(memory),
        shared=shared,
        models=_names(models),
        labels=_names(labels),
        devices=_names(devices),
        exclude=_names(exclude),
        prefer=_names(prefer),
        layout=PlacementOrder.PACK if pack else PlacementOrder.SPREAD,
        balanced=balanced,
        even_if_used=even_if_used,
        priority=priority,
    )


def _names(value: Names) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    return tuple(name.strip() for names in given for name in str(names).split(",") if name.strip())
