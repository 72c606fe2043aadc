"""The files of other users for a server of root: whose are looked at, and through which readers."""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from andon.errors import AndonError
from andon.host.accounts import UserAccount, account_of
from andon.model.lease_list import LeaseList
from andon.node.watched.users import UserNode, read_user
from andon.web.users.processes import MOST_READERS, UserReaders

ROOT = 0
MOST_CACHED = 64
"""The most recently requested users, whose lists are cached: each may have thousands of rows."""
Accounts = Callable[[int | str], UserAccount | None]


class UsersFiles:
    """Users as nodes, by uid: those of accounts that signed in, hold GPUs or wait for them."""

    def __init__(
        self,
        readers: UserReaders,
        signed_in: Callable[[], Iterable[int]],
        book: Callable[[], LeaseList | None],
        accounts: Accounts = account_of,
    ) -> None:
        self._readers, self._signed_in, self._book = readers, signed_in, book
        self._accounts = accounts
        self._nodes: dict[UserAccount, UserNode] = {}
        self._lock = threading.Lock()

    def of(self, uid: int) -> UserNode | None:
        account = self._accounts(uid)
        if account is None or uid in (ROOT, os.getuid()):
            return None
        with self._lock:
            node = self._nodes.pop(account, None)
            self._nodes[account] = node = node or read_user(
                account.name, partial(self._ask, account)
            )
            while len(self._nodes) > MOST_CACHED:
                del self._nodes[next(iter(self._nodes))]
            return node

    def known(self) -> Sequence[UserNode]:
        """Returns at most as many users as there may be readers, by uid."""
        found = (self.of(uid) for uid in sorted(self._uids())[:MOST_READERS])
        return [one for one in found if one is not None]

    def named(self, user: str) -> UserNode | None:
        account = self._accounts(user)
        return None if account is None or account.uid not in self._uids() else self.of(account.uid)

    def close(self) -> None:
        self._readers.close()

    def _ask(self, account: UserAccount, what: str, **given: object) -> dict[str, Any]:
        return self._readers.of(account).ask(what, **given)

    def _uids(self) -> set[int]:
        found = set(self._signed_in())
        with suppress(AndonError):
            book = self._book()
            if book is not None:
                found |= {row.uid for row in book.leases}
                waiting = (self._accounts(row.user) for row in book.waiting)
                found |= {one.uid for one in waiting if one is not None}
        return found - {ROOT, os.getuid()}


def open_shared_files(
    signed_in: Callable[[], Iterable[int]], book: Callable[[], LeaseList | None]
) -> UsersFiles | None:
    """Returns the files of other users; None unless root runs this process: nobody else can read
    as another user."""
    if sys.platform == "win32" or os.getuid() != ROOT:
        return None
    return UsersFiles(UserReaders(), signed_in, book)
