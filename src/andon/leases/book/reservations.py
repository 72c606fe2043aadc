"""The folder of reservations beside a lease book, on a disk: /run and /tmp are emptied at a reboot.

A file belongs to who made the reservation, as everything in a book; its time is the mark of use.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Denied, Invalid, Unavailable
from andon.host.files import NO_FOLLOW, NO_WAIT, born
from andon.host.users import user_name
from andon.leases.book import files, places
from andon.leases.book.files import BookFile
from andon.leases.book.places import reservations_folder
from andon.leases.rules.reservations import undisputed
from andon.model import wire
from andon.model.codec import document, read_document
from andon.model.lease import Reservation

SUFFIX = ".reservation"
UNUSED_TIME = 0.0
PAST_SECONDS = 86_400.0
"""A reservation that is over is removed so long after its end, by its owner's next one."""
MOST_OF_ONE_USER = 100
LARGEST_BYTES = 8192
"""Of a file; what is larger is not read."""


def read(book: Path) -> tuple[Reservation, ...]:
    """Returns the reservations beside a book; of several files with one id and owner, the latest.
    A folder that cannot be read is an error, as the book itself is."""
    latest: dict[tuple[int, str], tuple[float, float, Reservation]] = {}
    counted = Counter[int]()
    with _opened(book) as folder:
        for found in files.scan(folder, SUFFIX):
            counted[found.uid] += 1
            if found.size > LARGEST_BYTES or counted[found.uid] > MOST_OF_ONE_USER:
                continue
            one = _parsed(found)
            if one is not None:
                before = latest.get((one.uid, one.id))
                if before is None or before[0] <= found.changed:
                    latest[one.uid, one.id] = found.changed, _made(folder, found), one
    return undisputed(((made, one) for _, made, one in latest.values()), time.time())


def _made(folder: int, found: BookFile) -> float:
    """Returns when the kernel made a file, which no one can set."""
    if found.born is not None:
        return found.born
    with suppress(OSError):
        descriptor = os.open(found.name, os.O_RDONLY | NO_FOLLOW | NO_WAIT, dir_fd=folder)
        try:
            return born(descriptor) or found.changed
        finally:
            os.close(descriptor)
    return found.changed


def write(book: Path, one: Reservation, uid: int | None = None) -> None:
    """Writes a reservation of this user, or as root of another, in place of the one with its id:
    whenever it is killed, one of the two is there."""
    owner = os.getuid() if uid is None else uid
    places.prepare_reservations(book)
    with _opened(book) as folder, _translated(book):
        own = [found for found in files.scan(folder, SUFFIX) if found.uid == owner]
        old = [found for found in own if found.name.startswith(f"{one.id}-") or _is_past(found)]
        if len(own) - len(old) >= MOST_OF_ONE_USER:
            raise Conflict(f"you have {len(own)} reservations", hint="andon reserve cancel ID")
        same = (found.name for found in old if found.name.startswith(f"{one.id}-"))
        name = next(same, f"{one.id}-{os.urandom(8).hex()}{SUFFIX}")
        text, mark = wire.dumps(document(one)) + "\n", time.time() if one.used else UNUSED_TIME
        other = None if owner == os.getuid() else owner
        os.close(files.make(folder, name, text, mark, other, lasting=True))
        os.fsync(folder)
        for found in old:
            if found.name != name:
                files.remove(folder, found.name)
        files.remove_drafts(folder, os.getuid())


def mark_used(book: Path, one: Reservation) -> None:
    """Notes that the owner got a lease in its time; what cannot be noted is noted by the next."""
    with suppress(OSError, AndonError), _opened(book) as folder:
        for found in _files_of(folder, one):
            os.utime(found.name, dir_fd=folder, follow_symlinks=False)
            os.utime(folder)  # a change that everyone sees, as every other one


def remove(book: Path, one: Reservation) -> None:
    """Removes a reservation; raises Denied if this user may not."""
    with _opened(book) as folder, _translated(book):
        for found in _files_of(folder, one):
            try:
                os.unlink(found.name, dir_fd=folder)
            except FileNotFoundError:
                continue
            except PermissionError as exc:
                raise Denied(
                    f"reservation {one.id} is {one.user}'s", hint=f"ask {one.user}, or use sudo"
                ) from exc


def _files_of(folder: int, one: Reservation) -> list[BookFile]:
    found = files.scan(folder, SUFFIX)
    return [file for file in found if file.uid == one.uid and file.name.startswith(f"{one.id}-")]


def _parsed(found: BookFile) -> Reservation | None:
    """Parses a reservation; its owner and its use are the file's."""
    try:
        value = wire.loads(found.text or "", wire.NOTE, any_text=True)
        one = read_document(Reservation, value)
    except Invalid:
        return None
    if not found.name.startswith(f"{one.id}-") or one.ends <= one.begins:
        return None
    return replace(
        one, uid=found.uid, user=user_name(found.uid), used=found.modified > 0.0, blocked=False
    )


def _is_past(found: BookFile) -> bool:
    one = _parsed(found)
    return one is not None and one.ends < time.time() - PAST_SECONDS


@contextmanager
def _opened(book: Path) -> Iterator[int]:
    place = reservations_folder(book)
    folder = files.open_folder(place.parent, place.name)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _translated(book: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise Unavailable(f"{reservations_folder(book)} cannot be written: {exc.strerror}") from exc
