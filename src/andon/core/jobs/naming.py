"""Which jobs a word means: a number, `@` for the last, `12_3` for an element of an array."""

import re
from collections.abc import Mapping

from andon.errors import Gone, Invalid
from andon.model.job import MOST_ARRAY, ArrayPlace, JobFacts, JobSpec
from andon.model.job.spec_wire import MOST_JOBS

LAST = "@"
MOST_NAMED = 5
_WORD = re.compile(r"(\d{1,8})(?:_(\d{1,8}))?", re.ASCII)
_ARRAY = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?(?:%(\d{1,5}))?", re.ASCII)
_HINT = "a number, @ for the last one, or 12_3 for an element of an array"


def meant(word: str, jobs: Mapping[int, JobFacts]) -> tuple[int, ...]:
    """The numbers of the jobs; the number of an array means all its elements."""
    if word == LAST:
        if not jobs:
            raise Gone("there are no jobs", hint="andon submit -- COMMAND")
        last = jobs[max(jobs)]
        return (last.spec.number,) if last.spec.array is None else _all_of(last.spec.array, jobs)
    number, index = _parsed(word, jobs)
    if index is not None:
        return (_element(number, index, word, jobs),)
    found = jobs.get(number)
    if found is None:
        raise Gone(f"there is no job {word}", hint="andon jobs --all lists them")
    array = found.spec.array
    return (number,) if array is None or array.id != number else _all_of(array, jobs)


def one_meant(word: str, jobs: Mapping[int, JobFacts]) -> int:
    """The same where only one job makes sense."""
    numbers = meant(word, jobs)
    if len(numbers) > 1:
        raise Invalid(
            f"{word} is an array of {len(numbers)} jobs",
            hint=f"name one of them: {jobs[numbers[0]].spec.label}",
        )
    return numbers[0]


def _parsed(word: str, jobs: Mapping[int, JobFacts]) -> tuple[int, int | None]:
    match = _WORD.fullmatch(word)
    if match is None or not 1 <= int(match[1]) <= MOST_JOBS:
        raise Invalid(f"{word[:40]!r} is not a job", hint=_named(word, jobs) or _HINT)
    return int(match[1]), None if match[2] is None else int(match[2])


def _named(word: str, jobs: Mapping[int, JobFacts]) -> str | None:
    """The jobs of that name, the newest first: a name may mean many, so none is taken."""
    found = [facts.spec.label for _, facts in sorted(jobs.items()) if facts.spec.name == word]
    shown = ", ".join(found[: -MOST_NAMED - 1 : -1])
    return f"jobs of that name, by their numbers, the newest first: {shown}" if found else None


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
    """`0-99%4`: the indices, and how many may run at once."""
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
    """Whether they are one job to people, for `unique`: name, command and folder."""
    return (one.name, one.argv, one.folder) == (other.name, other.argv, other.folder)
