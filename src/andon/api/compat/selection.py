"""The kept functions that find available devices; `andon.lease` is what reserves them."""

import logging
import time

from andon.api import lease as leasing
from andon.errors import AndonError, Invalid
from andon.leases.availability import Candidates
from andon.leases.refusal import is_hopeless, refusal
from andon.leases.rules.requests import checked
from andon.model.job.device_request import DeviceRequest
from andon.units import MIB, counted

log = logging.getLogger("andon.selection")


def check_gpu_availability(
    required_gpus: int,
    min_memory_mb: float | None = None,
    *,
    balanced: bool = True,
    even_if_used: bool = False,
) -> tuple[bool, str]:
    """Whether this many devices are available now, and which, or why not.

    They must have similar free memory (the smallest at least 80 % of the largest), as for every
    request; `balanced=False` allows any. `even_if_used` allows devices with processes that have no
    lease, as for the other two functions.
    """
    try:
        return _check(_request(required_gpus, min_memory_mb, balanced, even_if_used))
    except AndonError as error:
        return False, _message(error)


def wait_for_gpu_availability(
    required_gpus: int,
    min_memory_mb: float | None = None,
    timeout_seconds: float = 300,
    check_interval: float = 30,
    *,
    balanced: bool = True,
    even_if_used: bool = False,
) -> tuple[bool, str]:
    """Poll until they are available or the timeout is over; every check is logged.

    What can never be met (no GPU here, 80 of 8, more memory than a device has) is refused at once.
    `balanced=False` allows devices with different free memory.
    """
    end = time.monotonic() + timeout_seconds
    try:
        request = _request(required_gpus, min_memory_mb, balanced, even_if_used)
        while True:
            is_free, message = _check(request)
            log.info("%s requested: %s", counted(required_gpus, "GPU"), message)
            left = end - time.monotonic()
            if is_free or left <= 0:
                return is_free, message
            time.sleep(min(check_interval, left))
    except AndonError as error:
        log.info("%s requested: %s", counted(required_gpus, "GPU"), _message(error))
        return False, _message(error)


def select_gpus_for_task(
    required_gpus: int,
    min_memory_mb: float = 8000,
    *,
    balanced: bool = True,
    even_if_used: bool = False,
) -> list[int]:
    """The indices of the best devices now, best first; RuntimeError says why there are none.

    Another user may take them before they are used: `andon.lease` reserves them. They have similar
    free memory (the smallest at least 80 % of the largest); `balanced=False` allows any.
    """
    try:
        request = _request(required_gpus, min_memory_mb, balanced, even_if_used)
        found = leasing.candidates(request)
        if not found.choice.chosen:
            raise refusal(found, request, None)
    except AndonError as error:
        raise RuntimeError(_message(error)) from error
    return _indices(found)


def _check(request: DeviceRequest) -> tuple[bool, str]:
    """Checks once; returns whether devices are available, and which or why not. Raises an error
    if no wait can change that."""
    found = leasing.candidates(request)
    if found.choice.chosen:
        return True, f"available: GPU {', '.join(map(str, _indices(found)))}"
    why = refusal(found, request, None)
    if is_hopeless(found):
        raise why
    return False, _message(why)


def _request(
    required_gpus: int, min_memory_mb: float | None, balanced: bool, used: bool
) -> DeviceRequest:
    if isinstance(required_gpus, bool) or required_gpus < 1:
        raise Invalid(f"{required_gpus!r} is not a number of GPUs")
    size = None if not min_memory_mb else int(min_memory_mb * MIB)
    count = required_gpus
    return checked(DeviceRequest(count, count, size, balanced=balanced, even_if_used=used))


def _indices(found: Candidates) -> list[int]:
    return [capacity.status.device.index for capacity in found.choice.chosen]


def _message(error: AndonError) -> str:
    return "; ".join((error.reason, *error.mistakes))
