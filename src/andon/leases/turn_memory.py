"""Remembers which users left available devices untaken, for requests that do not wait."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from andon.errors import AndonError
from andon.host.clock import boot_seconds
from andon.host.files import PRIVATE_FILE, open_regular, read_regular
from andon.host.processes.kin import here
from andon.host.state.user_folder import is_own, node_path
from andon.leases.rules.queue import MEMORY_SECONDS

NAME = "turns.json"
LARGEST_BYTES = 64 * 1024
MOST_USERS = 1000


class TurnMemory:
    """A small file in this machine's state folder; where it cannot be kept, nothing is remembered.

    It changes only what this user's own requests wait for. Times count from the boot, so that no
    clock that is set can move them.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def read(self) -> dict[int, float]:
        """uid -> since when, in seconds since the boot."""
        folder = self._folder or node_path()
        try:
            if not is_own(folder):
                return {}
            found = json.loads(read_regular(folder / NAME, LARGEST_BYTES))
            if found["boot"] != here().boot:
                return {}
            times = {int(uid): float(since) for uid, since in found["users"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}
        now = boot_seconds()
        return {uid: since for uid, since in times.items() if 0 <= now - since <= MEMORY_SECONDS}

    def write(self, users: Mapping[int, float]) -> None:
        from andon.host.state.node_folder import open_node_folder  # where someone is in front

        kept = dict(sorted(users.items(), key=lambda item: item[1])[:MOST_USERS])
        content = json.dumps({"boot": here().boot, "users": kept})
        with suppress(OSError, AndonError):
            folder = self._folder or open_node_folder()
            draft = folder / f".{NAME}.{os.getpid()}"
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                with os.fdopen(open_regular(draft, flags, PRIVATE_FILE), "w") as file:
                    file.write(content)
                draft.replace(folder / NAME)
            finally:
                draft.unlink(missing_ok=True)
