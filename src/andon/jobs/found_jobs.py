"""The jobs of a folder as a mapping; an indexed job is decoded only when it is requested."""

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from andon.jobs.index import IndexedJob, facts_from_row
from andon.jobs.rules.order import OrderKey, order_key
from andon.jobs.rules.states import JobStatus, job_statuses, lasting_status
from andon.model.job import JobFacts


class CachedJob(Struct):
    """A job as it was read or as the index has it, and its folder's time then."""

    stamp: int
    final: bool  # no attempt is going on: only a new file in the folder can change it
    facts: JobFacts | None = None  # None: not decoded yet
    indexed: IndexedJob | None = None


class FoundJobs(Mapping[int, JobFacts]):
    """Every readable job by its number, in the order of numbers."""

    def __init__(
        self, known: Mapping[int, CachedJob], read_again: Callable[[int], JobFacts | None]
    ) -> None:
        self._known = known
        self._read_again = read_again

    def __getitem__(self, number: int) -> JobFacts:
        known = self._known[number]
        if known.facts is None and known.indexed is not None:
            known.facts = facts_from_row(known.indexed.row) or self._read_again(number)
        if known.facts is None:
            raise KeyError(number)
        return known.facts

    def __contains__(self, number: object) -> bool:
        return number in self._known

    def __iter__(self) -> Iterator[int]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def statuses(self, at: float, paused: bool = False) -> dict[int, JobStatus]:
        """The state of each; decodes only those that depend on the time or on other jobs."""
        told: dict[int, JobStatus] = {}
        open_: list[JobFacts] = []
        for number, known in self._known.items():
            if known.facts is None and known.indexed is not None and known.indexed.status:
                told[number] = known.indexed.status
            else:
                open_.append(self[number])
        return job_statuses(open_, at, paused, told)

    def order_keys(self) -> dict[int, OrderKey]:
        """Returns the key of each job's place by its number; the smallest key comes first."""
        return {
            number: known.indexed.key
            if known.facts is None and known.indexed is not None
            else order_key(self[number])
            for number, known in self._known.items()
        }


class StatusCache:
    """Caches the states of jobs that nothing can change any more."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[JobFacts, JobStatus | None]] = {}

    def judge(
        self, jobs: Mapping[int, JobFacts], at: float, paused: bool = False
    ) -> dict[int, JobStatus]:
        """As `job_statuses`; a job whose facts are the same object is not judged again."""
        before, self._kept = self._kept, {}
        told: dict[int, JobStatus] = {}
        open_: list[JobFacts] = []
        for number, facts in jobs.items():
            kept = before.get(number)
            if kept is None or kept[0] is not facts:
                kept = (facts, lasting_status(facts))
            self._kept[number] = kept
            if kept[1] is None:
                open_.append(facts)
            else:
                told[number] = kept[1]
        return job_statuses(open_, at, paused, told)
