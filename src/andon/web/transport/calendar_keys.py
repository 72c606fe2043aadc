"""Keys of calendars: each opens the reservations of one person for reading, until it is replaced.

A calendar program sends no header, so the key is a part of the address, and opens nothing else.
"""

import json
import secrets
import threading
from collections.abc import Callable
from pathlib import Path

from andon.access.server_proof import token_hash
from andon.errors import Unavailable
from andon.failures.log import FailureLog
from andon.host.files import read_regular, replace_file
from andon.host.users import account_name

NAME = "calendars.json"
LARGEST_BYTES = 1024 * 1024
_KEY_BYTES = 24


class CalendarKeys:
    """One key of each user, stored as a hash; without a folder they end with the server."""

    def __init__(
        self, folder: Path | None = None, name_of: Callable[[int], str | None] = account_name
    ) -> None:
        self._path, self._name_of = folder and folder / NAME, name_of
        self._lock = threading.Lock()
        self._failures = FailureLog("andon.web", "links of calendars cannot be read", brief=True)
        self._users = self._load()

    def make(self, uid: int, user: str) -> str:
        """Returns a new key; the user's earlier one ends."""
        key = secrets.token_urlsafe(_KEY_BYTES)
        with self._lock:
            self._save({**self._users, token_hash(key).hex(): (uid, user)}, uid)
        return key

    def revoke(self, uid: int) -> bool:
        """Ends the key of a user; returns whether there was one."""
        with self._lock:
            known = any(one == uid for one, _ in self._users.values())
            if known:
                self._save(self._users, uid, ends=True)
        return known

    def owner(self, key: str) -> int | None:
        """Returns whose key this is; None if it has ended, or its account is another person's."""
        uid, user = self._users.get(token_hash(key).hex(), (None, None))
        return uid if uid is not None and (self._name_of(uid) or str(uid)) == user else None

    def _save(self, users: dict[str, tuple[int, str]], uid: int, ends: bool = False) -> None:
        """Writes these without the user's earlier keys, and then uses them."""
        new = None if ends else next(reversed(users))
        left = {name: who for name, who in users.items() if who[0] != uid or name == new}
        if self._path is not None:
            try:
                replace_file(self._path, json.dumps(left).encode())
            except OSError as exc:
                raise Unavailable(f"{self._path} cannot be written: {exc.strerror}") from exc
        self._users = left

    def _load(self) -> dict[str, tuple[int, str]]:
        if self._path is None:
            return {}
        try:
            found = json.loads(read_regular(self._path, LARGEST_BYTES))
            return {str(name): (int(uid), str(user)) for name, (uid, user) in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            self._failures.add(error)
            return {}
