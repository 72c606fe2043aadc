"""The runs that a server shows: those of its user's index, as long as they can be read."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from andon.app.runs import open_run_finder
from andon.core.runs.matching import RunQuery
from andon.model.run import RunRow

if TYPE_CHECKING:
    from andon.engine.records.finder import RunFinder
    from andon.web.server_runs import FoundRuns, ServerRuns
    from andon.web.user_files import SharedFiles


def open_server_runs(
    user: str, users: "SharedFiles | None" = None
) -> tuple["ServerRuns", Callable[[], None]]:
    """The runs, and how to close them."""
    from andon.web.server_runs import ServerRuns

    finder = open_run_finder()
    whose = (
        f"The runs of {user}, who runs this server, and the records of others that {user} added "
        "(andon runs add) and can read"
    )
    return ServerRuns(IndexLook(finder, user), whose, users=users), finder.index.close


class IndexLook:
    """Reads the rows again only when the index has changed: ten thousand take a while."""

    def __init__(self, finder: "RunFinder", user: str) -> None:
        self._finder, self._user = finder, user
        self._stamp: object = None
        self._rows: Sequence[RunRow] = ()

    def __call__(self) -> "FoundRuns":
        from andon.web.server_runs import FoundRuns

        left = self._finder.refresh()
        stamp = _stamp(Path(self._finder.index.place))
        if stamp is None or stamp != self._stamp:
            self._stamp = stamp
            self._rows = [row for row in self._finder.index.find(RunQuery()) if self._is_open(row)]
        return FoundRuns(self._rows, left)

    def _is_open(self, row: RunRow) -> bool:
        """Another user may have closed a record since it was added."""
        return row.user == self._user or os.access(row.path, os.R_OK)


def _stamp(path: Path) -> object:
    """What changes with every write of the index's file; None if that is unknown."""
    try:
        files = [path, path.with_name(f"{path.name}-wal")]
        found = [file.stat() for file in files if file.exists()]
    except OSError:
        return None
    return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found) or None
