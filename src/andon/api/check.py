"""`andon.check`: measures devices, and says whether they are healthy and fast enough."""

from collections.abc import Sequence

from andon.api import watch as library
from andon.app.checks import CheckRequest, check_cards
from andon.app.leases import open_availability
from andon.checks.rules.plan import CheckMode
from andon.errors import Invalid
from andon.leases.rules.requests import Names
from andon.model.check import CardResult

MODES = (CheckMode.QUICK, CheckMode.USUAL, CheckMode.FULL)


def check(
    devices: Names = (), *, mode: str = "quick", even_if_used: bool = False
) -> tuple[CardResult, ...]:
    """The result of a check of these devices, or of all that are free, each under a lease.

    `quick` takes two seconds a card, `usual` eight, `full` a minute. `verdict` of a result is `ok`,
    `slow` or what is wrong, `text` says it for people, and `value("fp32")` is a number of it.
    """
    if mode not in MODES:
        raise Invalid(f"{mode[:40]!r} is not a mode of a check", hint="use quick, usual or full")
    given: Sequence[str] = (devices,) if isinstance(devices, str) else devices
    names = tuple(name.strip() for text in given for name in str(text).split(",") if name.strip())
    shared = library.shared()
    availability = open_availability(
        shared.settings, lambda: shared.once(with_host=False), simulated=False
    )
    request = CheckRequest(names, bool(names), CheckMode(mode), even_if_used=even_if_used)
    return check_cards(shared, availability, request).checks
