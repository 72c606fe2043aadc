"""Resolves names of jobs: a number, a name, a group, `@` for the last, `12_3` in an array."""

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from andon.errors import Conflict, Gone, Invalid
from andon.model.job.desk import JobAct
from andon.model.job.facts import JobFacts, JobState
from andon.model.job.spec import MOST_ARRAY, MOST_JOBS, ArrayPlace, JobSpec

LAST = "@"
MOST_NAMED = 5
_WORD = re.compile(r"(\d{1,8})(?:_(\d{1,8}))?", re.ASCII)
_ARRAY = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?(?:%(\d{1,5}))?", re.ASCII)
_HINT = (
    "a number, @ for the last one, 12_3 for an element of an array, the name of a job or a group"
)


def _silent(text: str) -> None:
    """Does nothing: no notice is printed."""


class NameRule(Struct, frozen=True):
    """How a name of several jobs is resolved: to the newest, which `notify` reports, or with
    `only_one` to none. Jobs that a command can act on (`fits`) come before others."""

    notify: Callable[[str], None] = _silent
    only_one: bool = False
    fits: Callable[[int], bool] | None = None


NEWEST = NameRule()
_WAITS = (JobState.WAITING, JobState.LATER)
_FITTING: Mapping[JobAct | None, Callable[[JobState], bool]] = {
    JobAct.CANCEL: lambda state: not state.is_settled,
    JobAct.REMOVE: lambda state: state.is_settled,
    JobAct.RETRY: lambda state: state.is_settled,
    JobAct.REQUEUE: lambda state: state is JobState.RUNNING,
    JobAct.HOLD: lambda state: state in _WAITS,
    JobAct.RESUME: lambda state: state is JobState.HELD,
}


def name_rule(
    act: JobAct | None, state: Callable[[int], JobState], notify: Callable[[str], None]
) -> NameRule:
    """Returns the rule for names where something is done to the job."""
    fits = _FITTING.get(act)
    one = act in (JobAct.CANCEL, JobAct.REMOVE, JobAct.REQUEUE)
    return NameRule(notify, one, None if fits is None else lambda n: fits(state(n)))


def meant(word: str, jobs: Mapping[int, JobFacts], rule: NameRule = NEWEST) -> tuple[int, ...]:
    """Returns the numbers of the jobs that a word names; an array's names all its elements."""
    if word == LAST:
        if not jobs:
            raise Gone("there are no jobs", hint="andon submit -- COMMAND")
        last = jobs[max(jobs)]
        return (last.spec.number,) if last.spec.array is None else _all_of(last.spec.array, jobs)
    match = _WORD.fullmatch(word)
    number = int(match[1]) if match is not None else 0
    if match is not None and match[2] is not None and 1 <= number <= MOST_JOBS:
        return (_element(number, int(match[2]), word, jobs),)
    if number in jobs:
        array = jobs[number].spec.array
        return (number,) if array is None or array.id != number else _all_of(array, jobs)
    if found := tuple(n for n, facts in sorted(jobs.items()) if facts.spec.group == word):
        fits = rule.fits
        return found if fits is None else tuple(n for n in found if fits(n)) or found
    if found := _named(word, jobs, rule):
        return found
    if match is not None and 1 <= number <= MOST_JOBS:
        raise Gone(f"there is no job {word}", hint="andon jobs --all lists them")
    raise Invalid(f"{word[:40]!r} is not a job", hint=_HINT)


def one_meant(word: str, jobs: Mapping[int, JobFacts], rule: NameRule = NEWEST) -> int:
    """Returns the number where only one job makes sense."""
    numbers = meant(word, jobs, rule)
    if len(numbers) > 1:
        kind = "a group" if jobs[numbers[0]].spec.group == word else "an array"
        raise Invalid(
            f"{word} is {kind} of {len(numbers)} jobs",
            hint=f"name one of them: {jobs[numbers[0]].spec.label}",
        )
    return numbers[0]


def _named(word: str, jobs: Mapping[int, JobFacts], rule: NameRule) -> tuple[int, ...]:
    """Returns the newest job or array of that name, by the rule; empty if there is none."""
    found = [number for number, facts in sorted(jobs.items()) if facts.spec.name == word]
    if rule.fits is not None:
        found = [number for number in found if rule.fits(number)] or found
    arrays = ((n, jobs[n].spec.array) for n in found)
    groups = {n if array is None else array.id: n for n, array in arrays}
    if not groups:
        return ()
    newest = groups[max(groups)]
    labels = ", ".join(str(one) for one in sorted(groups)[: -MOST_NAMED - 1 : -1])
    if len(groups) > 1 and rule.only_one:
        hint = f"name one by its number, the newest first: {labels}"
        raise Conflict(f"{len(groups)} jobs are called {word[:40]!r}", hint=hint)
    if len(groups) > 1:
        rule.notify(
            f"job {max(groups)} is the newest of {len(groups)} called {word[:40]}: {labels}"
        )
    array = jobs[newest].spec.array
    return (newest,) if array is None else _all_of(array, jobs)


def _element(array: int, index: int, word: str, jobs: Mapping[int, JobFacts]) -> int:
    for number, facts in jobs.items():
        place = facts.spec.array
        if place is not None and (place.id, place.index) == (array, index):
            return number
    raise Gone(f"there is no job {word}", hint="andon jobs --all lists them")


def _all_of(array: ArrayPlace, jobs: Mapping[int, JobFacts]) -> tuple[int, ...]:
    return tuple(
        number
        for number, facts in sorted(jobs.items())
        if facts.spec.array is not None and facts.spec.array.id == array.id
    )


def parse_array(text: str) -> tuple[tuple[int, ...], int | None]:
    """Parses `0-99%4`: the indices, and how many may run at once."""
    match = _ARRAY.fullmatch(text.strip())
    if match is None:
        raise Invalid(f"{text[:40]!r} is not an array", hint="use 0-9, or 0-99%4 for 4 at once")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first or last - first >= MOST_ARRAY:
        raise Invalid(f"{text[:40]!r} is not an array of 1 to {MOST_ARRAY} jobs", hint="use 0-9")
    limit = None if match[3] is None else int(match[3])
    if limit == 0:
        raise Invalid(f"{text[:40]!r} lets no job run at once", hint="use %1 or more")
    return tuple(range(first, last + 1)), limit


def is_same(one: JobSpec, other: JobSpec) -> bool:
    """Whether two jobs count as the same, for `unique`: name, command and folder."""
    return (one.name, one.argv, one.folder) == (other.name, other.argv, other.folder)


def deleted_meanwhile(label: str) -> Gone:
    gone = "is no longer known" if ":" in label else "was deleted meanwhile"
    return Gone(f"job {label} {gone}: how it ended is not known")


def no_job(job: int | str) -> Gone:
    return Gone(f"there is no job {job}", hint="to list them: andon jobs --all")
