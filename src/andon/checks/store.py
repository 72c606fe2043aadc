"""Stores the results of checks, a file for each card, in this machine's state folder."""

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from andon.errors import Invalid, Unavailable
from andon.host.files import make_private, names_in, open_regular, read_regular, replace_file
from andon.host.state.node_folder import open_node_folder
from andon.host.state.user_folder import CHECKS, is_own, node_path
from andon.model.check import CardResult
from andon.model.codec import document, read_document
from andon.model.wire import ANSWER, dumps, loads

LARGEST_BYTES = 1 << 20
TRIMMED_TO = 50  # results of a card, once its file is full
MOST_CARDS = 1024
MOST_RECENT = 8  # of a card
MOST_REPORTED = 64  # cards, to a hub


def checks_folder() -> Path:
    """Returns the folder, not created."""
    return node_path() / CHECKS


def store_check(result: CardResult) -> Path:
    """Appends a result to those of its card."""
    folder = open_node_folder() / CHECKS
    path = folder / _name(result.uuid)
    line = dumps(document(result)).encode(errors="replace") + b"\n"
    try:
        make_private(folder)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        descriptor = open_regular(path, flags, own=True)
        try:
            os.write(descriptor, line)  # whole, or torn by a full disk: then it is left out
            full = os.fstat(descriptor).st_size > LARGEST_BYTES // 2
        finally:
            os.close(descriptor)
        if full:
            latest = read_regular(path, LARGEST_BYTES * 2, own=True).splitlines()[-TRIMMED_TO:]
            replace_file(path, b"".join(one + b"\n" for one in latest))
    except OSError as exc:
        raise Unavailable(f"the check cannot be stored in {folder}: {exc.strerror}") from exc
    return path


def stored_checks(uuid: str | None = None) -> list[CardResult]:
    """Returns the results of one card or of all, the oldest first; lines that cannot be read are
    left out."""
    folder = checks_folder()
    if not folder.is_dir() or not is_own(folder.parent):
        return []
    names = names_in(folder, MOST_CARDS) if uuid is None else [_name(uuid)]
    found = (one for name in names for one in _read(folder / name))
    return sorted(found, key=lambda one: one.at)


class RecentChecks:
    """The latest checks of each card; the files are read again when one has changed."""

    def __init__(self) -> None:
        self._stamps: dict[str, int] = {}
        self._known: dict[str, list[CardResult]] = {}

    def __call__(self) -> dict[str, list[CardResult]]:
        """Returns the last few of each card that say something about it, the oldest first."""
        if (stamps := _stamps()) != self._stamps:
            self._stamps, self._known = stamps, {}
            for one in stored_checks():
                if one.verdict.is_measured or one.verdict.is_bad:
                    self._known.setdefault(one.uuid, []).append(one)
            self._known = {uuid: some[-MOST_RECENT:] for uuid, some in self._known.items()}
        return self._known

    def latest(self) -> dict[str, CardResult]:
        return {uuid: some[-1] for uuid, some in self().items()}

    def brief(self) -> list[CardResult]:
        """Returns all of them without their evidence, for a report."""
        every = (one for some in list(self().values())[:MOST_REPORTED] for one in some)
        return [replace(one, wrong=(), evidence={}) for one in every]


def _stamps() -> dict[str, int]:
    with suppress(OSError), os.scandir(checks_folder()) as entries:
        return {one.name: one.stat().st_mtime_ns for one in entries}
    return {}


def _name(uuid: str) -> str:
    return f"{hashlib.sha256(uuid.encode()).hexdigest()[:24]}.jsonl"


def _read(path: Path) -> Iterable[CardResult]:
    try:
        lines = read_regular(path, LARGEST_BYTES, own=True).splitlines()
    except OSError:
        return
    for line in lines:
        try:
            yield read_document(CardResult, loads(line, ANSWER))
        except Invalid:
            continue
