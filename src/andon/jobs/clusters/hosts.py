"""The desk of several machines that are reached over SSH: a job goes to the best of them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar, cast

from msgspec.structs import replace

from andon.errors import AndonError, Gone, Invalid, Unavailable
from andon.jobs.clusters.asking import all_within
from andon.jobs.clusters.desk import ClusterDesk, list_together
from andon.jobs.desk import SeveralDesks
from andon.jobs.rules.host_choice import chosen_text, host_lines, preview_text, spread, starts_now
from andon.jobs.rules.views import JobListing
from andon.model.job import HOST
from andon.model.job.cluster import ClusterNode, HostOffer
from andon.model.job.desk import (
    Able,
    Accepted,
    JobName,
    Submission,
    cluster_in,
)
from andon.ports import Cluster, Offering

LONGEST_SECONDS = 86_400.0
"""Of copying folders; each call has a limit of its own."""
T = TypeVar("T")
Offers = Mapping[str, HostOffer]


class HostsDesk(SeveralDesks, ClusterDesk):
    """Implements JobDesk for `--on ssh:@lab`. Each host has a desk of its own, which has its jobs
    once they are submitted."""

    def __init__(self, name: str, hosts: Sequence[ClusterDesk]) -> None:
        seconds = max(one.timeout_seconds for one in hosts)
        super().__init__(name, seconds, self._refused)
        self.hosts = {one.name: one for one in hosts}

    @property
    def parts(self) -> list[ClusterDesk]:
        return list(self.hosts.values())

    def _refused(self) -> Cluster:
        why = f"{self.name}: hosts over SSH take jobs of andon submit and andon run alone"
        raise Invalid(why, hint="many at once: andon submit --param or --array")

    @property
    def able(self) -> frozenset[Able]:
        return self.parts[0].able

    def refusal(self, able: Able, option: str) -> Invalid:
        return self.parts[0].refusal(able, option)

    # Submitting.

    def submit(self, jobs: Sequence[Submission], dry: bool = False) -> list[Accepted]:
        placed, notes, previews = list[tuple[str, Submission]](), dict[str, str](), []
        for alike in [list(jobs)] if _are_linked(jobs) else _alike(jobs):
            offers, away = self._offers(alike)
            if dry:
                lines = host_lines(_short(offers), _short(away))
                previews += [Accepted(one, "", preview=preview_text(one, lines)) for one in alike]
                continue
            some = list(_placed(alike, offers))
            placed += some
            hosts = [host.removeprefix(HOST) for host, one in some for _ in one.indices or "1"]
            notes[some[0][1].label] = chosen_text(hosts, _short(offers), _short(away))
        if dry:
            return previews
        made = self._handed_in(placed)
        found = [made[one.label] for _, one in placed]
        return [
            replace(one, note=_joined(notes.get(one.submission.label), one.note)) for one in found
        ]

    def _handed_in(self, placed: Sequence[tuple[str, Submission]]) -> dict[str, Accepted]:
        """Submits jobs to their hosts, to all hosts at the same time; returns them by label."""
        by_host = dict[str, list[Submission]]()
        for host, one in placed:
            by_host.setdefault(host, []).append(one)
        calls = {host: partial(self.hosts[host].submit, some) for host, some in by_host.items()}
        found = all_within(LONGEST_SECONDS, calls)
        made = [one for some in found.values() if isinstance(some, list) for one in some]
        for error in (one for one in found.values() if isinstance(one, AndonError)):
            labels = ", ".join(one.label for one in made)
            why = f"{error.reason}; submitted elsewhere: {labels}" if labels else error.reason
            raise type(error)(why, error.hint, error.mistakes) from error
        return {one.submission.label: one for one in made}

    def host_for(self, submission: Submission) -> tuple[ClusterDesk, str]:
        """Returns the desk of the host where a job starts first, and why it is that one."""
        offers, away = self._offers([submission])
        (host,) = spread(offers, submission.job.request.least, 1)
        why = chosen_text([host.removeprefix(HOST)], _short(offers), _short(away))
        return self.hosts[host], why

    def _offers(self, jobs: Sequence[Submission]) -> tuple[Offers, Mapping[str, str]]:
        """Returns what the hosts that take all these jobs offer for the first one, and why the
        others do not."""
        different = [
            some[0] for some in _alike([replace(one, after=(), after_any=()) for one in jobs])
        ]

        def ask(desk: ClusterDesk) -> HostOffer:
            return cast("Offering", desk.open()).offers(different)[0]

        calls = {one.name: partial(ask, one) for one in self._hosts_of(jobs)}
        found = all_within(self.timeout_seconds, calls)
        offers = {name: one for name, one in found.items() if isinstance(one, HostOffer)}
        away = {name: one for name, one in found.items() if isinstance(one, AndonError)}
        if offers:
            return offers, {name: one.reason for name, one in away.items()}
        if len(away) == 1:
            ((name, only),) = away.items()
            raise type(only)(f"{name}: {only.reason}", only.hint)
        lines = tuple(f"{name.removeprefix(HOST)}: {one.reason}" for name, one in away.items())
        hints = {one.hint for one in away.values()}
        hint = hints.pop() if len(hints) == 1 else ""
        raise Unavailable(f"no host of {self.name} takes this job", hint=hint, mistakes=lines)

    def _hosts_of(self, jobs: Sequence[Submission]) -> list[ClusterDesk]:
        """Returns the hosts that jobs may go to: that of the jobs that they come after, or all."""
        words = {word for one in jobs for word in (*one.after, *one.after_any)}
        before = {cluster_in(word) for word in words - {one.job.name for one in jobs}}
        if not before:
            return self.parts
        if len(before) > 1 or not before <= self.hosts.keys():
            why = "a job can come after jobs of one host alone"
            raise Invalid(why, hint="name them as andon jobs does: ssh:n18:42")
        return [self.hosts[one] for one in before]

    # Reading.

    def of(self, word: JobName) -> ClusterDesk:
        """Returns the desk of the host in the name of a job."""
        if (found := self.hosts.get(cluster_in(word))) is None:
            raise Gone(f"no host of {self.name} has a job {str(word)[:60]}", "name it: ssh:n18:42")
        return found

    def listing(self, everyone: bool = False) -> JobListing:
        return list_together(self.parts, everyone)

    def nodes(self) -> list[ClusterNode]:
        """Returns the hosts; one that does not answer is listed with the reason."""
        calls: dict[str, Callable[[], list[ClusterNode]]] = {
            name: desk.nodes for name, desk in self.hosts.items()
        }
        found = all_within(self.timeout_seconds, calls)
        return [node for name, one in found.items() for node in _listed(name, one)]


def _listed(name: str, found: list[ClusterNode] | AndonError) -> list[ClusterNode]:
    if isinstance(found, list):
        return found
    reason = found.reason.removeprefix(f"{name}: ")
    return [ClusterNode(name.removeprefix(HOST), "away", False, 0, 0, 0, note=reason)]


def _alike(jobs: Sequence[Submission]) -> list[list[Submission]]:
    """Groups jobs that ask for the same, so that a host is asked once for all of them. An array is
    alone, and so is a job that comes after others."""
    found = dict[object, list[Submission]]()
    for one in jobs:
        alone = one.indices or one.after or one.after_any
        key: object = one.label if alone else (one.job.request, one.job.folder, one.job.argv[0])
        found.setdefault(key, []).append(one)
    return list(found.values())


def _are_linked(jobs: Sequence[Submission]) -> bool:
    """Whether one comes after another of them: then all go to one host."""
    names = {one.job.name for one in jobs}
    return any(names & {*one.after, *one.after_any} for one in jobs)


def _placed(jobs: Sequence[Submission], offers: Offers) -> Iterator[tuple[str, Submission]]:
    """Yields the host of each job, and of an array of each of its parts. An array that one host
    can start whole, or that has a limit, stays together."""
    gpus, first = jobs[0].job.request.least, jobs[0]
    if _are_linked(jobs):
        (host,) = spread(offers, gpus, 1)
        yield from ((host, one) for one in jobs)
        return
    if not first.indices:
        yield from zip(spread(offers, gpus, len(jobs)), jobs, strict=True)
        return
    hosts = spread(offers, gpus, len(first.indices))
    if first.limit is not None or starts_now(offers[hosts[0]], gpus) >= len(first.indices):
        hosts = hosts[:1] * len(first.indices)
    if len(set(hosts)) > 1:  # its parts have a name together
        first = replace(first, job=replace(first.job, group=first.job.group or first.job.name))
    start = 0
    for place, (host, count) in enumerate(Counter(hosts).items()):
        label = f"{first.label}{place or ''}"
        yield host, replace(first, indices=first.indices[start : start + count], label=label)
        start += count


def _short(named: Mapping[str, T]) -> dict[str, T]:
    return {name.removeprefix(HOST): one for name, one in named.items()}


def _joined(*notes: str | None) -> str:
    return "; ".join(filter(None, notes))
