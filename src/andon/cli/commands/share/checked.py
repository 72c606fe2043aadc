"""`run --check`: the GPUs of a new lease are checked first; bad ones are given back, once."""

from collections.abc import Callable

from msgspec.structs import replace

from andon.app.checks import check_placement
from andon.cli.terminal import Choices, notice
from andon.errors import Conflict, Unavailable
from andon.leases.placement import Grant
from andon.model.check import CardResult
from andon.model.job.device_request import DeviceRequest
from andon.sampling.sampler import Sampler


def checked_grant(
    choices: Choices,
    sampler: Sampler,
    request: DeviceRequest,
    take: Callable[[DeviceRequest], Grant],
) -> Grant:
    """Returns a lease whose GPUs passed a quick check. Those that fail are given back and others
    taken, once; where there are no others, slow ones are used, and broken ones refused."""
    grant, bad = _checked(sampler, take(request))
    if grant is not None:
        return grant
    notice(f"{_sentence(bad)}; taking another", choices)
    others = replace(request, exclude=(*request.exclude, *(one.uuid for one in bad)))
    try:
        grant, second = _checked(sampler, take(others))
    except (Conflict, Unavailable) as error:
        if any(one.verdict.is_broken for one in bad):
            raise Unavailable(
                f"{_sentence(bad)}, and no other is available", hint="andon checks"
            ) from error
        notice("no other is available: the slow one is used", choices)
        return take(request)
    if grant is not None:
        return grant
    if any(one.verdict.is_broken or one.text.startswith("no answer") for one in second):
        raise Unavailable(_sentence([*bad, *second]), hint="andon check --all")
    notice(f"{_sentence(second)}; it is used all the same", choices)
    return take(others)


def _checked(sampler: Sampler, grant: Grant) -> tuple[Grant | None, list[CardResult]]:
    """Returns the lease, or None after it was given back with what is bad about its GPUs."""
    try:
        results, stuck = check_placement(sampler, grant)
    except BaseException:
        grant.release()
        raise
    bad = [one for one in results if one.verdict.is_bad]
    if not bad:
        return grant, []
    if stuck:
        grant.held.hold.close()  # a process in the kernel keeps the lock
    else:
        grant.release()
    return None, bad


def _sentence(results: list[CardResult]) -> str:
    return "; ".join(f"GPU {one.label} failed its check: {one.text}" for one in results)
