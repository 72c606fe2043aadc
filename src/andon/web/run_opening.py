"""The runs that a server shows: those of its user's index, as long as they can be read.

A server runs without its index: a request for runs gets the reason, and the next one tries to
open the index again.
"""

import logging
import os
from collections.abc import Callable

from andon.errors import AndonError, Unavailable
from andon.node.watched.runs import FoundRuns
from andon.runs.index import RunFinder
from andon.runs.rules.matching import RunQuery

log = logging.getLogger("andon.runs")


class OpenRuns:
    """Opens the index of runs, brings it up to date, and hides records of others that can no longer
    be read."""

    def __init__(self, user: str, opened: Callable[[], RunFinder]) -> None:
        self._user, self._opened = user, opened
        self._finder: RunFinder | None = None
        self._trouble: str | None = None

    def __call__(self) -> FoundRuns:
        """Brings the index up to date; raises Unavailable if it cannot be read. One that cannot
        be written is shown as it is."""
        finder = self.prepare()
        if finder is None:
            raise Unavailable(f"the runs cannot be listed: {self._trouble}")
        left, problem = 0, None
        try:
            left = finder.refresh()
        except AndonError as exc:
            problem = f"what is new cannot be added to the list: {exc.reason}"
        others = finder.index.find(RunQuery(not_user=self._user))
        closed = frozenset(row.id for row in others if not os.access(row.path, os.R_OK))
        return FoundRuns(finder.index, closed, left, problem)

    def prepare(self) -> RunFinder | None:
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
