"""The folder that is the queue: files written whole, synced, renamed, and never rewritten.

`submit` must be quick: nothing here imports the sampler or the settings.
"""

import errno
import os
import re
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.errors import AndonError, Denied, Gone, Invalid, Unavailable
from andon.host.files import (
    FOLDER,
    make_private,
    open_regular,
    read_regular,
    require_locks,
)
from andon.host.machine_id import node_key
from andon.host.state.user_folder import NODES, is_own, refuse_foreign, state_folder
from andon.model.codec import Json, Wrong, read, to_json
from andon.model.job.spec import (
    LARGEST_JOB_BYTES,
    MOST_JOBS,
    JobSpec,
    dumps,
    loads,
    spec_from_json,
    spec_to_json,
)

if TYPE_CHECKING:
    from andon.model.job.facts import Holdup, JobNote

JOBS = "jobs"
CLUSTER_PAGES, SUBMISSIONS = "clusters", "elsewhere"
LOCK, COUNTER, PAUSED, BELL = "lock", "counter", "paused", "bell"
HOLDUPS, INDEX, LOG = "holdups.json", "index.json", "dispatcher.log"
JOB, HELD, CANCELLED, AGAIN, EXPIRED, ORDER, NOTIFIED = (
    "job.json", "held", "cancelled", "again", "expired", "order", "notified",
)  # fmt: skip
CLAIM, OUTPUT, END, VERDICT = "claim", "output.log", "end.json", "verdict.json"
CONTAINER, ADOPTED = "container", "adopted"
SMALL_BYTES = 64 * 1024
MOST_TRIES = 100_000
FEW, SYNC_THREADS = 8, 16
REMOVAL_TRIES = 5
_ATTEMPT = re.compile(r"attempt-([1-9]\d{0,6})", re.ASCII)


def jobs_path() -> Path:
    """Returns where this user's jobs on this machine are, whether the folder exists or not."""
    return state_folder() / NODES / node_key() / JOBS


def cluster_page_path(name: str) -> Path:
    """Returns the path of the cache of a cluster's last answer."""
    return jobs_path() / CLUSTER_PAGES / f"{name.replace('/', '%2F')}.json"


def open_jobs_folder() -> "JobsFolder":
    """Returns the folder, created if necessary, accessible only to this user."""
    path = jobs_path()
    if path.is_dir() and is_own(path.parent):
        return JobsFolder(path)
    from andon.host.state.node_folder import open_node_folder

    path = open_node_folder() / JOBS
    try:
        make_private(path)
    except OSError as exc:
        raise unwritable(path, exc) from exc
    return JobsFolder(path)


def own_jobs_folder() -> "JobsFolder":
    """Returns the folder, whether it exists or not; raises Denied if another user can write to
    it: a job in it would be started as this user's."""
    require_locks()
    path = jobs_path()
    try:
        if not path.is_dir() or is_own(path.parent):
            return JobsFolder(path)
        for one in (state_folder(), path.parent.parent, path.parent):
            refuse_foreign(one)
    except OSError as exc:
        raise Denied(
            f"{path} cannot be read: {exc.strerror}", hint="check XDG_STATE_HOME and HOME"
        ) from exc
    return JobsFolder(path)


def unwritable(path: Path, exc: OSError) -> AndonError:
    """Returns the error of a file that could not be written."""
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return Unavailable(
            f"{path} cannot be written: {exc.strerror}", hint="free some space, then try again"
        )
    return Denied(
        f"{path} cannot be written: {exc.strerror}", hint="check its owner and its file system"
    )


def write_draft(folder: Path | str, name: str, text: str, sync: bool = True) -> str:
    """Writes a whole file under a draft name; it is renamed later."""
    draft = f"{folder}/.{name}.{os.urandom(6).hex()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        left = memoryview(text.encode())
        while left:
            left = left[os.write(descriptor, left) :]
        if sync:
            os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)  # noqa: PTH108 - many times
        raise
    finally:
        os.close(descriptor)
    return draft


def write_whole(folder: Path, name: str, text: str, sync: bool = True, settle: bool = True) -> None:
    """Writes a file that appears under its name only when all of it is on the disk. Without
    `settle` the name may not survive a power failure."""
    draft = write_draft(folder, name, text, sync)
    try:
        os.rename(draft, folder / name)  # noqa: PTH104 - many times
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)  # noqa: PTH108
        raise
    if sync and settle:
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder survive a power failure, if the file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | FOLDER)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_all(paths: Sequence[Path | str]) -> None:
    """Brings many files or folders to the disk: threads that wait at the same time share the
    commits of the file system. Raises the error of one that could not be written."""
    left, failed = iter(paths), list[OSError]()

    def work() -> None:
        for path in left:  # each thread takes the next one
            try:
                _sync(path)
            except OSError as exc:
                failed.append(exc)

    if len(paths) < FEW:
        work()
    else:
        threads = [threading.Thread(target=work) for _ in range(SYNC_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]


def _sync(path: Path | str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class JobsFolder:
    """The jobs of one user on one machine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # Paths.

    def job(self, number: int) -> Path:
        return self.path / str(number)

    def attempt(self, number: int, attempt: int) -> Path:
        return self.path / str(number) / f"attempt-{attempt}"

    def output(self, number: int, attempt: int) -> Path:
        return self.attempt(number, attempt) / OUTPUT

    # Writing.

    def _make_next(self, number: int) -> int:
        """Creates the first free number from this one on; creating its folder decides between
        two processes."""
        for _ in range(MOST_TRIES):
            try:
                os.mkdir(f"{self.path}/{number}", 0o700)  # noqa: PTH102 - many times
            except FileExistsError:
                number += 1
                continue
            except OSError as exc:
                raise unwritable(self.path, exc) from exc
            return number
        raise Unavailable(f"no free number for a job in {self.path}")

    def _next_number(self) -> int:
        if number := self._counter():
            return number
        try:
            names = os.listdir(self.path)  # noqa: PTH208 - names alone
        except OSError as exc:
            raise unwritable(self.path, exc) from exc
        return max((int(name) for name in names if is_number(name)), default=0) + 1

    def _counter(self) -> int:
        """Returns the counter; 0 if it cannot be read: it is only a hint."""
        with suppress(OSError, ValueError):
            number = int(read_regular(self.path / COUNTER, 64))
            if 1 <= number <= MOST_JOBS:
                return number
        return 0

    def _count_from(self, number: int) -> None:
        """Writes the counter once per submission: ext4 writes a truncated file to the disk when
        it is closed, which took most of the time of a large array."""
        if self._counter() >= number:  # somebody else's, meanwhile
            return
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            descriptor = open_regular(self.path / COUNTER, flags)
            os.write(descriptor, f"{number}\n".encode())
            os.close(descriptor)

    def submit(self, specs: Iterable[JobSpec]) -> list[JobSpec]:
        """Writes new jobs and returns them with their numbers; all of them or none.

        All are on the disk before the first gets its name: a process that is killed meanwhile
        has queued nothing. The elements of an array get the number of its first job as their id.
        """
        made: list[JobSpec] = []
        drafts: list[str] = []
        environment, variables = None, ""  # most jobs of one submission share it
        try:
            number = 0
            for spec in specs:
                number = self._make_next(number + 1 if made else self._next_number())
                array = spec.array
                if array is not None:
                    first = made[0].number if made else number
                    array = replace(array, id=first)
                made.append(replace(spec, number=number, array=array))
                fields = spec_to_json(replace(made[-1], environment={}))  # which comes last
                checked = fields
                if spec.environment is not environment:
                    environment = spec.environment
                    checked = {**fields, "environment": dict(environment)}
                    variables = dumps(checked["environment"])
                text = f"{dumps(fields).removesuffix('{}}')}{variables}}}"
                if array is None or number == array.id:  # its elements differ by their index alone
                    _check_readable(checked, len(text))
                drafts.append(write_draft(f"{self.path}/{number}", JOB, text, sync=False))
            sync_all(drafts)
            self._count_from(number + 1)
            for draft in drafts:
                os.rename(draft, f"{os.path.dirname(draft)}/{JOB}")  # noqa: PTH104, PTH120 - many
        except BaseException as exc:
            for spec in made:
                self._discard(spec.number)
            if isinstance(exc, OSError):
                raise unwritable(self.path, exc) from exc
            raise
        with suppress(KeyboardInterrupt):  # they are queued
            self.settle(spec.number for spec in made)
        sync_folder(self.path)
        self.ring()
        return made

    def _discard(self, number: int) -> None:
        """Removes what a submission has written, but no job that has begun."""
        with suppress(OSError):
            for entry in os.scandir(self.job(number)):
                if entry.name == JOB or entry.name.startswith(f".{JOB}."):
                    os.unlink(entry.path)  # noqa: PTH108 - many times
            self.job(number).rmdir()

    def sweep(self, before: float) -> None:
        """Removes the remains of submissions that were killed before this time."""
        try:
            names = os.listdir(self.path)  # noqa: PTH208 - names alone
        except OSError:
            return
        for name in filter(is_number, names):
            folder = self.path / name
            with suppress(OSError):
                if folder.stat().st_mtime < before and not (folder / JOB).exists():
                    self._discard(int(name))

    def note(self, number: int, name: str, note: "JobNote", settle: bool = True) -> None:
        """Writes `cancelled`, `again` or `expired`; without `settle` it is not synced yet."""
        self.small(number, name, dumps(to_json(note)), settle)

    def settle(self, numbers: Iterable[int]) -> None:
        """Makes the names of files in these jobs survive a power failure. Many jobs at once take
        one commit of the file system, and not one each."""
        with suppress(OSError):  # some file systems cannot
            sync_all([f"{self.path}/{number}" for number in numbers])

    def small(self, number: int, name: str, text: str, settle: bool = True) -> None:
        """Writes a small file of a job whole, and notifies the dispatcher."""
        try:
            write_whole(self.job(number), name, text + "\n", settle=settle)
        except FileNotFoundError as exc:
            raise Gone(f"there is no job {number}") from exc
        except OSError as exc:
            raise unwritable(self.job(number), exc) from exc
        self.ring()

    def drop(self, number: int, name: str) -> None:
        _unlink(self.job(number) / name)
        self.ring()

    def remove(self, number: int) -> None:
        """Deletes a job with its output, its description last: until then it can be listed."""
        folder = self.job(number)
        for attempt in attempts_in(folder):
            _remove_files(folder / f"attempt-{attempt}")
        _remove_files(folder)
        self.ring()

    # The queue as a whole.

    @property
    def paused(self) -> bool:
        return (self.path / PAUSED).exists()

    def pause(self) -> None:
        try:
            write_whole(self.path, PAUSED, f"{time.time()}\n")
        except OSError as exc:
            raise unwritable(self.path, exc) from exc
        self.ring()

    def unpause(self) -> None:
        _unlink(self.path / PAUSED)
        self.ring()

    def ring(self) -> None:
        """Notifies a dispatcher that something changed: it checks this file's time."""
        bell, now = self.path / BELL, time.time_ns()
        with suppress(OSError):
            try:
                os.utime(bell, ns=(now, now))
            except FileNotFoundError:
                bell.touch(mode=0o600)

    def changed_at(self) -> int:
        """Returns when something last changed; 0 if nothing ever did."""
        try:
            return (self.path / BELL).stat().st_mtime_ns
        except OSError:
            return 0

    # Reading.

    def spec(self, number: int) -> JobSpec:
        """Reads one job with its whole environment."""
        try:
            content = read_regular(self.job(number) / JOB, LARGEST_JOB_BYTES)
            return spec_from_json(loads(content))
        except FileNotFoundError as exc:
            raise Gone(f"there is no job {number}", hint="andon jobs --all lists them") from exc
        except (OSError, Wrong) as exc:
            raise Unavailable(f"job {number} cannot be read: {exc}") from exc

    def holdups(self) -> "dict[int, Holdup]":
        """Returns why jobs wait, as the dispatcher last wrote it; may be missing or old."""
        from andon.model.job.facts import Holdup

        try:
            document = loads(read_regular(self.path / HOLDUPS, 16 * 1024 * 1024))
            return {
                int(number): read(Holdup, one)
                for number, one in read(dict[str, Json], document.get("jobs")).items()
                if is_number(number)
            }
        except (OSError, Wrong):
            return {}

    def write_holdups(self, holdups: "dict[int, Holdup]", at: float) -> None:
        jobs = to_json({str(number): one for number, one in holdups.items()})
        with suppress(OSError):
            write_whole(self.path, HOLDUPS, dumps({"at": at, "jobs": jobs}), sync=False)


def _check_readable(fields: Json, size: int) -> None:
    """Refuses a job that could not be read back: it would wait unseen."""
    if size > LARGEST_JOB_BYTES:
        raise Invalid(
            f"the job has {size:,} bytes, more than {LARGEST_JOB_BYTES:,}",
            hint="most of it are its environment and its command",
        )
    try:
        spec_from_json(fields)
    except Wrong as exc:
        raise Invalid(f"the job cannot be queued: {exc}") from exc


def attempts_in(folder: Path) -> list[int]:
    """Returns the numbers of a job's attempts, in order."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names alone
    except OSError:
        return []
    found = (_ATTEMPT.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in found if match is not None)


def is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) <= 8 and not name.startswith("0")


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as exc:
        raise unwritable(path, exc) from exc


def _remove_files(folder: Path) -> None:
    """Removes the files of a folder, then the folder; the job's description last."""
    for tries_left in reversed(range(REMOVAL_TRIES)):
        try:
            names = sorted(os.listdir(folder), key=lambda name: name == JOB)  # noqa: PTH208
            for name in names:
                (folder / name).unlink(missing_ok=True)
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError as exc:
            # The dispatcher may have written the verdict of a job that has just ended.
            if exc.errno != errno.ENOTEMPTY or not tries_left:
                raise unwritable(folder, exc) from exc
