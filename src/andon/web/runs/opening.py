"""The runs that a server shows: those of its user's index, as long as they can be read.

A server runs without its index: a request for runs gets the reason, and the next one tries to
open the index again.
"""

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from andon.app.runs import open_run_finder
from andon.errors import AndonError, Unavailable
from andon.model.run.record import RunRow
from andon.runs.rules.matching import RunQuery

if TYPE_CHECKING:
    from andon.runs.index import RunFinder
    from andon.web.runs.shown import FoundRuns, ServerRuns
    from andon.web.users.files import SharedFiles

log = logging.getLogger("andon.runs")


def open_server_runs(
    user: str, users: "SharedFiles | None" = None
) -> tuple["ServerRuns", Callable[[], None]]:
    """Returns the runs, and a function that closes them."""
    from andon.web.runs.shown import ServerRuns

    look = RunIndexCache(user)
    look.prepare()
    whose = (
        f"The runs of {user}, who runs this server, and the records of others that {user} added "
        "(andon runs add) and can read"
    )
    return ServerRuns(look, whose, users=users), look.close


class RunIndexCache:
    """Reads the rows again only when the index has changed: ten thousand take a while."""

    def __init__(self, user: str, opened: "Callable[[], RunFinder]" = open_run_finder) -> None:
        self._user, self._opened = user, opened
        self._finder: RunFinder | None = None
        self._stamp: object = None
        self._rows: Sequence[RunRow] = ()
        self._trouble: str | None = None

    def __call__(self) -> "FoundRuns":
        """Returns the runs; raises Unavailable if the index cannot be read. One that cannot be
        written is shown as it is."""
        from andon.web.runs.shown import FoundRuns

        finder = self.prepare()
        if finder is None:
            raise Unavailable(f"the runs cannot be listed: {self._trouble}")
        left, problem = 0, None
        try:
            left = finder.refresh()
        except AndonError as exc:
            problem = f"what is new cannot be added to the list: {exc.reason}"
        stamp = _stamp(Path(finder.index.place))
        if stamp is None or stamp != self._stamp:
            self._rows = [row for row in finder.index.find(RunQuery()) if self._is_open(row)]
            self._stamp = stamp
        return FoundRuns(self._rows, left, problem)

    def prepare(self) -> "RunFinder | None":
        """Opens the index when it is needed; a failure is logged once, when it begins."""
        if self._finder is not None:
            return self._finder
        try:
            self._finder = self._opened()
        except AndonError as exc:
            if exc.reason != self._trouble:
                log.warning("runs are not shown: %s", exc.reason)
            self._trouble = exc.reason
        return self._finder

    def close(self) -> None:
        if self._finder is not None:
            self._finder.index.close()

    def _is_open(self, row: RunRow) -> bool:
        """Whether a run is in progress: its record may have been closed since it was added."""
        return row.user == self._user or os.access(row.path, os.R_OK)


def _stamp(path: Path) -> object:
    """A value that changes with every write of the index's file; None if that is unknown."""
    try:
        files = [path, path.with_name(f"{path.name}-wal")]
        found = [file.stat() for file in files if file.exists()]
    except OSError:
        return None
    return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found) or None
