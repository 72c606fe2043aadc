"""Failures of single nodes: what one of them sent stops nothing for the others."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from andon.errors import AndonError
from andon.failures.rules.repeats import RepeatLimiter

log = logging.getLogger("andon.hub")


class NodeFailures:
    """Contains failures: one node's is logged once a minute, and the others go on."""

    def __init__(self) -> None:
        self._repeats = RepeatLimiter()

    @contextmanager
    def of(self, node: str, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever a node sent, it is that node's
            if self._repeats.happened((node, what), time.monotonic()) is not None:
                trace = None if isinstance(error, AndonError) else error
                log.warning("%s: %s: %s", node, what, error, exc_info=trace)
