"""Checks the lease books: who owns them, what their owners could forge, odd files in them."""

from collections.abc import Iterable, Iterator

from andon.doctor.rules.facts import BookFolder, MachineFacts, StrayFiles, StrayReason
from andon.doctor.rules.findings import Check, CheckResult, Value, failure, ok, warning
from andon.model.lease_wire import MOST_OF_ONE_USER
from andon.units import and_more, sh

MANY_FILES = 256  # of one user in one book; more than any real use
MOST_OWNERS = 3
_SET_UP = "sudo andon setup"
_SWEEP = f"{_SET_UP} # removes files that no process holds"


def judge(facts: MachineFacts) -> Iterator[CheckResult]:
    own = facts.own
    if not any(book.path == own.book_place for book in own.books):
        message = f"no lease book yet; the first lease creates {own.book_place}, owned by its user"
        yield ok(Check.BOOK, message)
    for book in own.books:
        yield _owner(book, facts)
        if _decides(book, facts):
            yield from _contents(book, facts)
    if (place := own.reserved_in) is not None and place.uid not in (0, facts.user.uid):
        yield _reserved(place, own.reserved_closed)


def _reserved(place: BookFolder, closed: bool) -> CheckResult:
    message = f"{place.owner} owns {place.path}, where reservations are, and can remove them"
    if closed:
        message = (
            f"{place.owner} has closed {place.path}, where reservations would be: they are in the "
            "lease book, which a reboot empties"
        )
    facts: dict[str, Value] = {"path": place.path, "owner": place.owner, "uid": place.uid}
    return warning(Check.RESERVATIONS_FOREIGN, message, _SET_UP, **facts)


def _decides(book: BookFolder, facts: MachineFacts) -> bool:
    """Whether the book's entries count for this user: the book in use, root's, or their own."""
    return book.path == facts.own.book_place or book.uid in (0, facts.user.uid)


def _owner(book: BookFolder, facts: MachineFacts) -> CheckResult:
    place: dict[str, Value] = {
        "path": book.path,
        "owner": book.owner,
        "uid": book.uid,
        "mode": f"{book.mode:04o}",
    }
    if not _decides(book, facts):
        return _ignored(book, facts, place)
    unsafe = _unsafe(book, facts, place)
    if unsafe is not None:
        return unsafe
    if book.uid not in (0, facts.user.uid):
        message = (
            f"no root book: {book.owner} owns {book.path} and can cordon devices, reorder the "
            "queue and remove leases"
        )
        return warning(Check.BOOK_FOREIGN, message, _SET_UP, **place)
    use = "used for new leases" if book.path == facts.own.book_place else "its leases count too"
    alone = ", and only root can cordon or reorder" if book.uid == 0 else ""
    message = f"the lease book {book.path} belongs to {book.owner}; {use}{alone}"
    return ok(Check.BOOK, message, **place)


def _ignored(book: BookFolder, facts: MachineFacts, place: dict[str, Value]) -> CheckResult:
    message = (
        f"{book.path} belongs to {book.owner} and is ignored: new leases go to "
        f"{facts.own.book_place}"
    )
    quoted = sh(book.path)
    fix = f"ls -la {quoted} && sudo rm -rI {quoted}"
    return warning(Check.BOOK_IGNORED, message, fix, **place)


def _unsafe(book: BookFolder, facts: MachineFacts, place: dict[str, Value]) -> CheckResult | None:
    quoted = sh(book.path)
    again = f"ls -ld {quoted} && sudo rm -rI {quoted} && {_SET_UP}"
    if book.link or book.mode & 0o022:
        how = "is a link" if book.link else f"is writable by others ({book.mode:04o})"
        message = f"the lease book {book.path} of {book.owner} {how}: its leases cannot be trusted"
        return failure(Check.BOOK_UNSAFE, message, again, **place)
    if book.contents.closed:
        message = f"{facts.user.name} cannot read the lease book {book.path} of {book.owner}"
        return failure(Check.BOOK_UNSAFE, message, again, **place)
    if book.leases_mode is not None and book.leases_mode != 0o1777:
        message = (
            f"{book.path}/leases has mode {book.leases_mode:04o}: not everyone can take a lease"
        )
        return failure(Check.BOOK_UNSAFE, message, f"sudo chmod 1777 {quoted}/leases", **place)
    return None


# Contents. File names are chosen by their owners, so none appears in a fix that root may run.


def _contents(book: BookFolder, facts: MachineFacts) -> Iterator[CheckResult]:
    strays = book.contents.strays
    bad = [stray for stray in strays if stray.odd is not StrayReason.UNLOCKED]
    left = [s for s in strays if s.odd is StrayReason.UNLOCKED and s.uid != facts.user.uid]
    if bad:
        count = sum(stray.count for stray in bad)
        what = f"{_files(count)} that {_is(count)} not {_entry(count)}"
        message = f"{book.path} has {what}: {_owners(bad)}"
        yield warning(Check.BOOK_MALFORMED, message, _list(book, bad), path=book.path, count=count)
    if left:
        count = sum(stray.count for stray in left)
        message = f"{book.path} has {_files(count)} that no process holds: {_owners(left)}"
        yield warning(Check.BOOK_LEFTOVERS, message, _SWEEP, path=book.path, count=count)
    yield from _crowds(book)


def _crowds(book: BookFolder) -> Iterator[CheckResult]:
    for owner, uid, count in book.contents.counts:
        if count > MANY_FILES:
            message = f"{owner} has {count:,} files in {book.path}, which slows every lease"
            if count > MOST_OF_ONE_USER:
                message += f"; leases and tickets beyond {MOST_OF_ONE_USER:,} are ignored"
            yield warning(Check.BOOK_CROWDED, message, _SWEEP, path=book.path, uid=uid, count=count)
    if not book.contents.complete:
        message = f"{book.path} has more files than are examined here"
        yield warning(Check.BOOK_CROWDED, message, _SWEEP, path=book.path)


def _list(book: BookFolder, strays: Iterable[StrayFiles]) -> str:
    most = max(strays, key=lambda stray: stray.count)
    return f"sudo find {sh(book.path)} -mindepth 2 -uid {most.uid} -ls && {_SET_UP}"


def _owners(strays: Iterable[StrayFiles]) -> str:
    """Returns the owners with the most files as text, each with a count."""
    counts: dict[str, int] = {}
    for stray in strays:
        counts[stray.owner] = counts.get(stray.owner, 0) + stray.count
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = ", ".join(f"{owner} ({count})" for owner, count in ranked[:MOST_OWNERS])
    return shown + and_more(len(ranked) - MOST_OWNERS, "users")


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _entry(count: int) -> str:
    return "an entry" if count == 1 else "entries"
