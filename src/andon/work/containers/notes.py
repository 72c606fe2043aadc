"""Notes about the containers that andon made: only a container with a note of ours is ever
removed.

An engine's labels are not enough for that: anyone who may use the engine can write them, and an
engine may lie.
"""

import json
import os
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from andon.errors import AndonError
from andon.host.files import make_private, read_regular, replace_file
from andon.host.state.node_folder import open_node_folder
from andon.host.state.user_folder import node_path
from andon.model.codec import Json, Name, Text, Wrong, read
from andon.model.execution import CreatedWork

FOLDER = "containers"
LARGEST_BYTES = 65_536
RECENT_SECONDS = 600.0


def write_note(engine: str, work: CreatedWork) -> None:
    """Writes a note before the container exists, and again with its id. Without a note only the
    process that made a container removes it."""
    note = {"engine": engine, "id": work.id, "label": work.label, "home": work.home}
    with suppress(AndonError, OSError):
        folder = open_node_folder() / FOLDER
        make_private(folder)
        replace_file(folder / work.note, json.dumps(note).encode())


def drop_note(work: CreatedWork) -> None:
    if work.note:
        with suppress(OSError):
            (node_path() / FOLDER / work.note).unlink(missing_ok=True)


def is_recent(work: CreatedWork) -> bool:
    """Whether the container may be about to be created: its note is written before it."""
    with suppress(OSError):
        return time.time() - (node_path() / FOLDER / work.note).stat().st_mtime < RECENT_SECONDS
    return False


def noted(engine: str) -> list[CreatedWork]:
    """The containers that this user made with this engine on this machine, and did not remove."""
    try:
        names = sorted(os.listdir(node_path() / FOLDER))  # noqa: PTH208 - names alone
    except OSError:
        return []
    found: list[CreatedWork] = []
    for name in names:
        with suppress(OSError, ValueError, RecursionError, Wrong):
            note = json.loads(read_regular(node_path() / FOLDER / name, LARGEST_BYTES))
            if isinstance(note, dict) and note.get("engine") == engine:
                found.append(_work(name, note))
    return found


class _Note(Struct, frozen=True):
    id: Name
    label: Name
    home: Text | None = None


def _work(name: str, value: Json) -> CreatedWork:
    note = read(_Note, value)
    home = note.home if note.home is None or Path(note.home).is_absolute() else None
    return CreatedWork(note.id, note.label, home=home, note=name)
