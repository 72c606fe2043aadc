"""Keeps a card busy for a short time, in a process of its own that ends with this one."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory, TemporaryFile

from andon.checks.rules.lines import failure
from andon.checks.rules.plan import START_SECONDS
from andon.checks.session import end, output_lines, start
from andon.errors import Unavailable

LOAD = "load"
MAX_SECONDS = 10.0


@contextmanager
def loaded(uuid: str, seconds: float) -> Iterator[int]:
    """Keeps the card busy inside the block, ten seconds at most; yields the pid."""
    arguments = LOAD, uuid, f"{min(seconds, MAX_SECONDS):g}"
    with TemporaryDirectory(prefix="andon-check-") as cache, TemporaryFile() as errors:
        process = start(arguments, [uuid], cache, errors)
        try:
            for line in output_lines(process, lambda: START_SECONDS):
                if line is None:
                    raise Unavailable("the load did not start in time")
                if line.get("event") == "failed":
                    why = failure(line["kind"], line["text"], line["code"], begun=True)[1]
                    raise Unavailable(why)
                if line.get("event") == "tick":
                    break
            else:
                raise Unavailable("the load ended without output")
            yield process.pid
        finally:
            end(process)
