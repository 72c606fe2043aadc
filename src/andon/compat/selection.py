"""The kept functions that find available devices; `andon.lease` is what reserves them."""

import logging
import time

from andon import leasing
from andon.core.sharing.requests import checked
from andon.engine.sharing.availability import Candidates
from andon.engine.sharing.refusal import refusal
from andon.errors import AndonError, Invalid
from andon.model.work import DeviceRequest
from andon.units import MIB

log = logging.getLogger("andon.selection")


def check_gpu_availability(
    required_gpus: int, min_memory_mb: float | None = None
) -> tuple[bool, str]:
    """Whether this many devices are available now, and which, or why not."""
    try:
        request = _request(required_gpus, min_memory_mb)
        found = leasing.candidates(request)
    except AndonError as error:
        return False, _words(error)
    if found.choice.chosen:
        return True, f"available: GPU {', '.join(map(str, _indices(found)))}"
    return False, _words(refusal(found, request, None))


def wait_for_gpu_availability(
    required_gpus: int,
    min_memory_mb: float | None = None,
    timeout_seconds: float = 300,
    check_interval: float = 30,
) -> tuple[bool, str]:
    """Poll until they are available or the timeout is over; every check is logged."""
    end = time.monotonic() + timeout_seconds
    while True:
        is_free, words = check_gpu_availability(required_gpus, min_memory_mb)
        log.info("%d GPUs requested: %s", required_gpus, words)
        left = end - time.monotonic()
        if is_free or left <= 0:
            return is_free, words
        time.sleep(min(check_interval, left))


def select_gpus_for_task(required_gpus: int, min_memory_mb: float = 8000) -> list[int]:
    """The indices of the best devices now, best first; RuntimeError says why there are none.

    Another user may take them before they are used: `andon.lease` reserves them.
    """
    try:
        request = _request(required_gpus, min_memory_mb)
        found = leasing.candidates(request)
        if not found.choice.chosen:
            raise refusal(found, request, None)
    except AndonError as error:
        raise RuntimeError(_words(error)) from error
    return _indices(found)


def _request(required_gpus: int, min_memory_mb: float | None) -> DeviceRequest:
    if isinstance(required_gpus, bool) or required_gpus < 1:
        raise Invalid(f"{required_gpus!r} is not a number of GPUs")
    size = None if not min_memory_mb else int(min_memory_mb * MIB)
    return checked(DeviceRequest(required_gpus, required_gpus, size))


def _indices(found: Candidates) -> list[int]:
    return [room.status.device.index for room in found.choice.chosen]


def _words(error: AndonError) -> str:
    return "; ".join((error.reason, *error.mistakes))
