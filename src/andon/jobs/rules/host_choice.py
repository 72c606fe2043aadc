"""Chooses the hosts for jobs: one that can start them now, else where they would start first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf

from andon.model.job.cluster import HostOffer
from andon.model.job.desk import Submission
from andon.model.naming import range_of
from andon.model.redaction import redact
from andon.units import counted, human_seconds, plain, valid_text

MOST_OTHERS = 4
"""Hosts that are named beside the one that was chosen."""


def spread(offers: Mapping[str, HostOffer], gpus: int, count: int) -> list[str]:
    """Returns the host of each of `count` equal jobs, which want `gpus` GPUs each."""
    given = dict.fromkeys(offers, 0)
    chosen = list[str]()
    for _ in range(count):
        best = min(offers, key=lambda host: _order(offers[host], gpus, given[host]))
        given[best] += 1
        chosen.append(best)
    return chosen


def _order(offer: HostOffer, gpus: int, given: int) -> tuple[float, ...]:
    """Returns a sort key for one more job on a host that was `given` some: those that start it at
    once come first, by the GPUs that stay free; then the one whose GPUs it waits for least."""
    left = offer.free - offer.wanted - (given + 1) * gpus
    if offer.starts_in == 0 and left >= 0:
        return (0, -left)
    rounds = (given - min(given, starts_now(offer, gpus))) // max(1, offer.gpus // gpus)
    starts = inf if offer.starts_in is None else offer.starts_in
    return (1, rounds, inf if offer.starts_in == 0 else starts, -left / max(1, offer.gpus))


def starts_now(offer: HostOffer, gpus: int) -> int:
    """Returns how many jobs of so many GPUs a host would start at once."""
    return max(0, offer.free - offer.wanted) // gpus if offer.starts_in == 0 else 0


def offer_text(offer: HostOffer) -> str:
    """Returns `GPU 1 of 3 free now` or `would start in 40 min`."""
    if offer.devices:
        return plain(f"GPU {range_of(offer.devices)} of {offer.free} free now", 200)
    if offer.starts_in:
        return f"would start in {human_seconds(offer.starts_in)}"
    return f"{offer.free} of {counted(offer.gpus, 'GPU')} free"


def chosen_text(
    chosen: Sequence[str], offers: Mapping[str, HostOffer], away: Mapping[str, str]
) -> str:
    """Returns `on n18 (GPU 1 of 3 free now; n17 would start in 40 min)`, or for jobs on several
    hosts how many are on each."""
    if len(set(chosen)) > 1:
        counts = "; ".join(f"{count} on {host}" for host, count in Counter(chosen).items())
        return "; ".join([counts, *host_lines({}, away)])
    host = chosen[0]
    others = {name: one for name, one in offers.items() if name != host}
    lines = [f"{name} {_brief(one)}" for name, one in others.items()] + host_lines({}, away)
    more = [f"{len(lines) - MOST_OTHERS} more"] if len(lines) > MOST_OTHERS else []
    return f"on {host} ({'; '.join([offer_text(offers[host]), *lines[:MOST_OTHERS], *more])})"


def _brief(offer: HostOffer) -> str:
    return f"{offer.free} free" if offer.devices else offer_text(offer)


def host_lines(offers: Mapping[str, HostOffer], away: Mapping[str, str]) -> list[str]:
    """Returns a line for each host: what it offers, or why it does not."""
    lines = [f"{host} {offer_text(offer)}" for host, offer in offers.items()]
    return lines + [f"{host}: {reason}" for host, reason in away.items()]


def preview_text(submission: Submission, lines: Sequence[str]) -> str:
    """Returns what would be run, and a line for each host."""
    job = submission.job
    command = f"in {valid_text(job.folder)}: {redact(job.argv)}"
    return "".join(f"{line}\n" for line in (command, *lines))
