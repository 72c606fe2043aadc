"""Stores the results of checks, a file for each card, in this machine's state folder."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

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


def latest_checks() -> dict[str, CardResult]:
    """Returns the latest result of each card that says something about it."""
    return {one.uuid: one for one in stored_checks() if one.verdict.is_measured or is_fault(one)}


def is_fault(result: CardResult) -> bool:
    return result.verdict.is_bad


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
