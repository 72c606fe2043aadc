"""`run --check`: the GPUs of a new lease are checked first; bad ones are given back, once."""

from collections.abc import Callable

from msgspec.structs import replace

from andon.checks.checking import check_placement
from andon.checks.rules.before_work import AfterCheck, after_check, bad_cards, sentence, unusable
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
    grant, bad = _checked(choices, sampler, take(request), is_second=False)
    if grant is not None:
        return grant
    notice(f"{sentence(bad)}; taking another", choices)
    others = replace(request, exclude=(*request.exclude, *(one.uuid for one in bad)))
    try:
        found = take(others)
    except (Conflict, Unavailable) as error:
        if unusable(bad):
            raise Unavailable(
                f"{sentence(bad)}, and no other is available", hint="andon checks"
            ) from error
        notice("no other is available: the slow one is used", choices)
        return take(request)
    grant, second = _checked(choices, sampler, found, is_second=True)
    if grant is None:
        raise Unavailable(sentence([*bad, *second]), hint="andon check --all")
    if second:
        notice(f"{sentence(second)}; it is used all the same", choices)
    return grant


def _checked(
    choices: Choices, sampler: Sampler, grant: Grant, is_second: bool
) -> tuple[Grant | None, list[CardResult]]:
    """Returns the lease, or None after it was given back; and what is bad about its GPUs."""
    try:
        results, stuck = check_placement(sampler, grant)
    except BaseException:
        grant.release()
        raise
    for one in results:
        if not one.verdict.is_measured and not one.verdict.is_bad:
            notice(f"GPU {one.label} was not checked: {one.text}", choices)
    if after_check(results, is_second) is AfterCheck.USE:
        return grant, bad_cards(results)
    if stuck:
        grant.held.hold.close()  # a process in the kernel keeps the lock
    else:
        grant.release()
    return None, bad_cards(results)
