"""The request of a retry after GPU out-of-memory: more memory, if any device here has it."""

from collections.abc import Sequence

from msgspec.structs import replace

from andon.errors import Unavailable
from andon.explain.evidence.blame import LEAST_BYTES, LEAST_SHARE
from andon.leases.rules.eligibility import Labels, empty_bytes, obstacles_of
from andon.model.device import DeviceStatus
from andon.model.job.device_request import DeviceRequest
from andon.units import human_bytes

HINT = "let it need less (a smaller batch), or spread it over several GPUs"


def larger_request(
    request: DeviceRequest,
    had_bytes: int | None,
    statuses: Sequence[DeviceStatus],
    labels: Labels,
    times: int = 1,
) -> DeviceRequest:
    """Returns a request for one and a half times its part of a device, for each time that it ran
    out; otherwise for a device with clearly more than it had. Raises Unavailable, with the
    numbers, if there is none.

    Equal devices differ by what the driver keeps: that much is not more.
    """
    least = request.memory_bytes or 0
    if request.shared:
        more = least * 3**times // 2**times
    elif had_bytes is None:
        return request
    else:
        least = max(least, had_bytes)
        more = least + max(LEAST_BYTES, int(LEAST_SHARE * least))
    larger = replace(request, memory_bytes=more)
    able = [uuid for uuid, bar in obstacles_of(statuses, larger, labels).items() if bar is None]
    if len(able) >= request.least:
        return larger
    bars = obstacles_of(statuses, replace(request, memory_bytes=None), labels)
    sizes = [empty_bytes(one) or 0 for one in statuses if bars[one.device.uuid] is None]
    most = human_bytes(sorted([*sizes, *[0] * request.least], reverse=True)[request.least - 1])
    none = "no GPU here has" if request.least == 1 else f"no {request.least} GPUs here have"
    first = "it had" if not request.shared else f"{human_bytes(more)} are needed after"
    raise Unavailable(f"{first} {human_bytes(least)}, and {none} more than {most}", hint=HINT)
