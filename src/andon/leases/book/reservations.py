"""The files of reservations beside a lease book, on a disk: a reboot empties /run and /tmp.

A file belongs to who made the reservation, as everything in a book. It is never changed, so that
the kernel's time of its last change is when it was made. What happens to it later is in notes
beside it: files without content whose owner and time are the kernel's.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Denied, Invalid, Unavailable
from andon.host.users import user_name
from andon.leases.book import files
from andon.leases.book.files import BookFile
from andon.leases.book.places import RESERVATION as SUFFIX
from andon.leases.rules.policy import WEEK_SECONDS
from andon.leases.rules.reservations import lapsing, undisputed
from andon.model import wire
from andon.model.codec import document, read_document
from andon.model.lease import Reservation

NOTE = ".note"
USED, BLOCKED, KILLED = "used", "blocked", "killed"
PAST_SECONDS = WEEK_SECONDS
"""A reservation that is over is removed so long after its end, by its owner's next one: its hours
count until then."""
AGAIN_SECONDS = 10.0
"""How often it is noted that a lease from before is still in the way."""
MOST_OF_ONE_USER = 100
LARGEST_BYTES = 8192
"""Of a file; what is larger is not read."""


def read(
    folder: Path, unused_for: Callable[[int], float | None] = lambda uid: None
) -> tuple[Reservation, ...]:
    """Returns the reservations in a folder; of several files with one id and owner, the latest.
    `unused_for` is how long a user's stays that is not used.
    A folder that cannot be read is an error, as the book itself is."""
    latest: dict[tuple[int, str], tuple[float, Reservation]] = {}
    counted = Counter[int]()
    with _opened(folder) as opened:
        for found in files.scan(opened, SUFFIX):
            counted[found.uid] += 1
            if found.size > LARGEST_BYTES or counted[found.uid] > MOST_OF_ONE_USER:
                continue
            one = _parsed(found)
            if one is not None:
                before = latest.get((one.uid, one.id))
                if before is None or before[0] <= found.changed:
                    latest[one.uid, one.id] = found.changed, one
        notes = tuple(files.scan(opened, NOTE))
    noted = ((made, _noted(one, made, notes)) for made, one in latest.values())
    return undisputed(
        ((made, lapsing(one, unused_for(one.uid))) for made, one in noted), time.time()
    )


def _noted(one: Reservation, made: float, notes: Iterable[BookFile]) -> Reservation:
    """Returns a reservation with what was noted since it was made: its use by its owner or root;
    leases from before by anyone, whose note can only keep it until its end."""
    own = [note for note in notes if note.name.startswith(f"{one.id}-{one.uid}-")]
    own = [note for note in own if note.changed >= made]
    used = any(f"-{USED}-" in note.name and note.uid in (0, one.uid) for note in own)
    seen = [note.changed for note in own if f"-{USED}-" not in note.name]
    return replace(one, used=used, delayed=max(seen, default=0.0))


def write(folder: Path, one: Reservation, uid: int | None = None) -> None:
    """Writes a reservation of this user, or as root of another, in place of the one with its id:
    whenever it is killed, one of the two is there."""
    owner = os.getuid() if uid is None else uid
    with _opened(folder) as opened, _translated(folder):
        own = [found for found in files.scan(opened, SUFFIX) if found.uid == owner]
        crowded = len(own) >= MOST_OF_ONE_USER
        old = [f for f in own if f.name.startswith(f"{one.id}-") or _is_past(f, crowded)]
        if len(own) - len(old) >= MOST_OF_ONE_USER:
            raise Conflict(f"you have {len(own)} reservations", hint="andon reserve cancel ID")
        same = (found.name for found in old if found.name.startswith(f"{one.id}-"))
        name = next(same, f"{one.id}-{os.urandom(8).hex()}{SUFFIX}")
        other = None if owner == os.getuid() else owner
        text = wire.dumps(document(one)) + "\n"
        os.close(files.make(opened, name, text, None, other, lasting=True))
        if one.used:
            _note(opened, replace(one, uid=owner), USED)
        os.fsync(opened)
        for found in old:
            if found.name != name:
                files.remove(opened, found.name)
        _remove_notes(opened, "" if one.used else f"{one.id}-{owner}")
        files.remove_drafts(opened, os.getuid())


def note_use(folder: Path, one: Reservation) -> None:
    """Notes that the owner got a lease in its time; what cannot be noted is noted by the next."""
    with suppress(OSError, AndonError), _opened(folder) as opened:
        if _files_of(opened, one):
            _note(opened, one, USED)


def note_blocked(folder: Path, one: Reservation) -> None:
    """Notes that a lease from before is in its way now, unless someone has a moment ago."""
    if time.time() - one.delayed < AGAIN_SECONDS:
        return
    with suppress(OSError, AndonError), _opened(folder) as opened:
        if _files_of(opened, one):
            _note(opened, one, BLOCKED)


def note_killed(folder: Path, one: Reservation) -> bool:
    """Notes that the file of a killed lease from before was seen: by one look only. Returns whether
    it was this one."""
    with suppress(OSError, AndonError), _opened(folder) as opened:
        start = f"{one.id}-{one.uid}-{KILLED}-"
        known = any(note.name.startswith(start) for note in files.scan(opened, NOTE))
        if not known and _files_of(opened, one):
            _note(opened, one, KILLED)
            return True
    return False


def _note(folder: int, one: Reservation, what: str) -> None:
    """Writes a note of this user, or gives the one that is there the time of now."""
    start = f"{one.id}-{one.uid}-{what}-"
    own = [note.name for note in files.scan(folder, NOTE) if note.uid == os.getuid()]
    name = next((name for name in own if name.startswith(start)), None)
    if name is None:
        os.close(files.make(folder, f"{start}{os.urandom(8).hex()}{NOTE}", ""))
    else:
        os.utime(name, dir_fd=folder, follow_symlinks=False)
        os.utime(folder)  # a change that everyone sees, as every other one


def _remove_notes(folder: int, about: str = "") -> None:
    """Removes notes about this reservation, and about none that is there, as far as allowed."""
    there = {f"{one.name.partition('-')[0]}-{one.uid}" for one in files.scan(folder, SUFFIX)}
    for note in files.scan(folder, NOTE):
        start = "-".join(note.name.split("-")[:2])
        if start == about or start not in there:
            files.remove(folder, note.name)


def remove(folder: Path, one: Reservation) -> None:
    """Removes a reservation; raises Denied if this user may not."""
    with _opened(folder) as opened, _translated(folder):
        for found in _files_of(opened, one):
            try:
                os.unlink(found.name, dir_fd=opened)
            except FileNotFoundError:
                continue
            except PermissionError as exc:
                raise Denied(
                    f"reservation {one.id} is {one.user}'s", hint=f"ask {one.user}, or use sudo"
                ) from exc
        _remove_notes(opened)


def _files_of(folder: int, one: Reservation) -> list[BookFile]:
    found = files.scan(folder, SUFFIX)
    return [file for file in found if file.uid == one.uid and file.name.startswith(f"{one.id}-")]


def _parsed(found: BookFile) -> Reservation | None:
    """Parses a reservation; its owner is the file's, and its use is noted elsewhere."""
    try:
        value = wire.loads(found.text or "", wire.NOTE, any_text=True)
        one = read_document(Reservation, value)
    except Invalid:
        return None
    if not found.name.startswith(f"{one.id}-") or one.ends <= one.begins:
        return None
    return Reservation(
        one.id, one.devices, one.begins, one.ends, one.name, one.simulated, found.uid,
        user_name(found.uid),
    )  # fmt: skip


def _is_past(found: BookFile, crowded: bool) -> bool:
    one = _parsed(found)
    return one is not None and one.ends < time.time() - (0.0 if crowded else PAST_SECONDS)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    opened = files.open_folder(folder.parent, folder.name)
    try:
        yield opened
    finally:
        os.close(opened)


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise Unavailable(f"{folder} cannot be written: {exc.strerror}") from exc
