"""Parses a job file: its jobs, or every mistake in it at once, with path and line."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec.structs import replace

from andon.errors import Invalid
from andon.jobs.rules.file_keys import (
    KEYS,
    READERS,
    REQUEST_KEYS,
    SPEC_NAMES,
    FileCombination,
    FileJob,
    flag_of,
    texts_of,
)
from andon.jobs.rules.file_lines import KeyPath, Lines, line_of, shown_path
from andon.jobs.rules.parameters import (
    Parameters,
    check_use,
    combinations,
    command_of,
    fitted,
)
from andon.leases.rules.requests import RequestOptions
from andon.model.job.device_request import DeviceRequest
from andon.units import command_name

MOST_FILE_JOBS = 10_000
MOST_MISTAKES = 50
JOBS = "job"
HINT = "docs/job-files.md has all keys"


class Mistakes:
    """Collects mistakes with their lines; what several jobs share is named once."""

    def __init__(self, path: str, lines: Lines) -> None:
        self._path, self._lines = path, lines
        self._found: dict[str, int] = {}

    @property
    def is_enough(self) -> bool:
        """Whether further mistakes are ignored: nobody reads so many, and each takes time."""
        return len(self._found) >= MOST_MISTAKES

    def add(self, place: KeyPath, message: str) -> None:
        if self.is_enough:
            return
        line, shown = line_of(place, self._lines), shown_path(place)
        where = f"{self._path}:{line}" if line is not None else self._path
        text = f"{where}: {shown}: {message}" if shown else f"{where}: {message}"
        self._found.setdefault(text, line or 0)

    def check(self) -> None:
        """Raises Invalid if there are mistakes."""
        mistakes = tuple(sorted(self._found, key=self._found.__getitem__))
        if len(mistakes) == 1:
            raise Invalid(mistakes[0], hint=HINT)
        if mistakes:
            least = "at least " if self.is_enough else ""
            reason = f"{self._path} has {least}{len(mistakes)} mistakes"
            raise Invalid(reason, hint=HINT, mistakes=mistakes)


def jobs_in(document: object, path: str, lines: Lines) -> tuple[FileJob, ...]:
    """Returns the jobs of a document; keys outside `[[job]]` are the defaults of every job."""
    mistakes = Mistakes(path, lines)
    if not isinstance(document, Mapping):
        mistakes.add((), "not a table of settings")
        mistakes.check()
        return ()
    common = {key: value for key, value in document.items() if key != JOBS}
    listed = document.get(JOBS)
    places: list[tuple[KeyPath, Mapping[str, Any]]] = []
    if listed is None:
        places.append(((), {}))
    elif not isinstance(listed, list) or not listed or len(listed) > MOST_FILE_JOBS:
        mistakes.add((JOBS,), f"not a list of 1 to {MOST_FILE_JOBS} jobs: write [[job]]")
    else:
        for index, own in enumerate(listed):
            if isinstance(own, Mapping):
                places.append(((JOBS, index), own))
            else:
                mistakes.add((JOBS, index), "not a table of settings")
    jobs = [_job(common, own, place, mistakes) for place, own in places]
    _check_names(jobs, mistakes)
    mistakes.check()
    swept = [
        _swept(job, {**common, **own}, place, mistakes)
        for job, (place, own) in zip(jobs, places, strict=True)
    ]
    mistakes.check()
    return tuple(swept)


def _swept(job: FileJob, given: Mapping[str, Any], place: KeyPath, mistakes: Mistakes) -> FileJob:
    """Adds the combinations of a job's parameters to it."""
    if not job.parameters:
        return job
    try:
        if job.array or job.spec.unique:
            key = "array" if job.array else "unique"
            raise Invalid(f"{key} cannot be combined with parameters")
        check_use(list(job.parameters), job.command, () if job.server is None else ("port",))
        found = combinations(job.parameters, job.zip, job.sample, job.sample_seed)
        each = tuple(_combination(job, values, given) for values in found)
    except Invalid as wrong:
        mistakes.add((*place, "parameters"), f"{wrong.reason}; {wrong.hint}".removesuffix("; "))
        return job
    group = job.spec.group or job.spec.name or command_name(job.command)
    spec = replace(job.spec, name=job.spec.name or group, group=group)
    return replace(job, spec=spec, each=each)


def _combination(job: FileJob, values: Parameters, given: Mapping[str, Any]) -> FileCombination:
    argv = command_of(job.command, values)
    request = fitted(job.request, argv, values, "gpus" not in given, "memory" not in given)
    return FileCombination(argv, {**job.spec.params, **values}, request)


def _check_names(jobs: list[FileJob], mistakes: Mistakes) -> None:
    """Checks that each name in `after` is that of one earlier job of the file."""
    seen: dict[str, int] = {}
    for index, job in enumerate(jobs):
        for key, refs in (("after", job.after), ("after_any", job.after_any)):
            for ref in refs:
                if not is_job_word(ref) and seen.get(ref, 0) != 1:
                    why = "two earlier jobs have this name" if ref in seen else "no earlier job"
                    place = (JOBS, index, key) if len(jobs) > 1 else (key,)
                    problem = f"{ref[:40]!r} is neither a job's number nor an earlier job's name"
                    mistakes.add(place, f"{problem} here ({why})")
        if name := job.spec.name:
            seen[name] = seen.get(name, 0) + 1


def is_job_word(word: str) -> bool:
    """Whether the text is a number, `@`, `12_3` or `lab:4711`, and not a name."""
    return word == "@" or ":" in word or word.replace("_", "", 1).isdecimal()


def _job(
    common: Mapping[str, Any], own: Mapping[str, Any], place: KeyPath, mistakes: Mistakes
) -> FileJob:
    values: dict[str, Any] = {}
    request_values: dict[str, Any] = {}
    for key, given, where in _given(common, own, place):
        if mistakes.is_enough:
            break
        if key in REQUEST_KEYS:
            request_values[key] = given
            continue
        if key not in KEYS:
            mistakes.add((*where, key), f"there is no such key{_meant(key)}")
            continue
        try:
            read = READERS[KEYS[key].kind](given)
        except ValueError as wrong:
            mistakes.add((*where, key), str(wrong))
            continue
        if key == "environment":
            read = {**values.get("environment", {}), **read}
        values[KEYS[key].name] = read
    if (server := values.get("server")) is not None:
        _check_server(values, place, mistakes)
        values["command"] = server.command or (server.image,)
    elif "command" not in own and "command" not in common:
        mistakes.add(place, 'there is no command: write command = ["python", "train.py"]')
    if values.get("bind") and values.get("image"):
        where = (*place, "bind") if "bind" in own else ("bind",)
        mistakes.add(where, "is for commands outside of a container")
    request = _request(request_values, own, place, mistakes)
    given = {name: values.pop(name) for name in SPEC_NAMES if name in values}
    return FileJob(replace(FileJob().spec, **given), request=request, **values)


def _check_server(values: Mapping[str, Any], place: KeyPath, mistakes: Mistakes) -> None:
    if "command" in values:
        mistakes.add((*place, "command"), "a job has either a command or a server")
    if not values.get("loads"):
        mistakes.add((*place, "server"), "there is no [[load]] for it")
    for key in ("image", "array", "on"):
        if values.get(key):
            mistakes.add((*place, key), "cannot be combined with a server")


def _given(
    common: Mapping[str, Any], own: Mapping[str, Any], place: KeyPath
) -> Iterator[tuple[str, Any, KeyPath]]:
    for key, value in common.items():
        if key not in own or key == "environment":
            yield str(key), value, ()
    for key, value in own.items():
        yield str(key), value, place


def _request(
    values: Mapping[str, Any], own: Mapping[str, Any], place: KeyPath, mistakes: Mistakes
) -> DeviceRequest:
    fine: dict[str, Any] = {}
    for key, given in values.items():
        where = (*place, key) if key in own else (key,)
        try:
            fine[key] = _option(key, given)
        except ValueError as wrong:
            mistakes.add(where, str(wrong))
        except Invalid as wrong:
            mistakes.add(where, f"{wrong.reason}; {wrong.hint}")
    try:
        request = RequestOptions(**fine).request()
    except Invalid as wrong:
        mistakes.add(place, f"{wrong.reason}; {wrong.hint}")
        return DeviceRequest()
    if request.most < 1:
        where = (*place, "gpus") if "gpus" in own else ("gpus",)
        mistakes.add(where, "a job needs at least one GPU")
    return request


def _option(key: str, given: Any) -> Any:
    row = REQUEST_KEYS[key]
    if row.type is bool:
        return flag_of(given)
    if isinstance(given, bool | Mapping):
        raise ValueError(f"not {row.metavar or 'a value'}")
    if isinstance(row.default, tuple):
        return list(texts_of(given))
    if isinstance(given, list | float):
        raise ValueError(f"not {row.metavar or 'a value'}")
    options: dict[str, Any] = {key: given}
    RequestOptions(**options).request()
    return given


def _meant(key: str) -> str:
    close = get_close_matches(key, [*KEYS, *REQUEST_KEYS, JOBS], n=1)
    return f": did you mean {close[0]}?" if close else ""
