"""A map that several machines share: a folder with its items, the workers' claims and the results.

The items are in blocks. A worker has a file of its own, and claims a block by a hard link to it:
the link can be made once, and its time is that of the worker's file, which the worker touches as
long as it lives. A block whose worker is silent is claimed again, under the next number; what the
first one has finished is not done again. Times are those of the file system, the same for all.
"""

import base64
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, to_builtins

from andon.host.files import make_private, names_in, replace_file
from andon.model.codec import prepared
from andon.model.run.record import ItemState
from andon.work.rules.map.items import MapItem
from andon.work.rules.map.template import CommandTemplate

FOLDER = "blocks"
"""In the parameters of a map's record: the folder of its results."""
PLAN, WORKERS, CLAIMS, RESULTS, DONE = "plan.json", "workers", "claims", "results", "done"
RUNS, STOP = "runs", "stop"
ENDED = (ItemState.OK, ItemState.FAILED)
BLOCKS_PER_WORKER = 16
MOST_NAMES = 1_000_000
BEAT_SECONDS = 2.0
SILENT_SECONDS = 30.0
"""After so long without a beat a worker is taken for dead."""


class SharedPlan(Struct, frozen=True):
    """What every worker of a map must know."""

    template: CommandTemplate
    units: tuple[tuple[MapItem, ...], ...]  # the items of each call
    block: int = 1  # calls in a block
    retries: int = 0
    grace_seconds: float = 10.0
    timeout_seconds: float | None = None
    run: str = ""  # the map's own

    @property
    def blocks(self) -> int:
        return -(-len(self.units) // self.block)

    def calls(self, block: int) -> range:
        """Returns the calls of a block, by number."""
        return range(block * self.block, min(len(self.units), (block + 1) * self.block))


class CallResult(Struct, frozen=True):
    """The begin or the end of a call, for whoever collects the results."""

    call: int
    state: ItemState
    seconds: float
    attempt: int = 1
    words: str = ""
    where: str = ""  # the worker's machine
    run: str = ""  # the worker's own, whose record has its devices
    at: float | None = None
    output: bytes = b""
    errors: bytes = b""


def block_size(calls: int, workers: int) -> int:
    """Returns how many calls a block has: few enough that the workers end together."""
    return max(1, calls // (workers * BLOCKS_PER_WORKER))


class BlockFolder:
    """The folder of one map, for its workers and for who collects their results."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self, plan: SharedPlan) -> None:
        for name in ("", WORKERS, CLAIMS, RESULTS, DONE, RUNS):
            make_private(self.path / name)
        replace_file(self.path / PLAN, json.dumps(to_builtins(plan)).encode())

    def plan(self) -> SharedPlan:
        return convert(json.loads((self.path / PLAN).read_bytes()), prepared(SharedPlan))

    # A worker.

    def enter(self, worker: str) -> Path:
        """Creates the file of a worker, a new one for each start."""
        file = self.path / WORKERS / f"{worker}.{os.urandom(4).hex()}"
        file.touch(mode=0o600)
        return file

    def claim(self, plan: SharedPlan, worker: Path) -> tuple[int, int] | None:
        """Claims a block for a worker: one that nobody has, else one whose worker is silent.
        Returns the block and the number of the claim; None if there is none now."""
        done, claims = set(names_in(self.path / DONE, MOST_NAMES)), self._claims()
        for block in range(plan.blocks):
            if block not in claims and self._link(worker, block, 1):
                return block, 1
        os.utime(worker)
        late = worker.stat().st_mtime - SILENT_SECONDS
        for block, number in claims.items():
            with suppress(OSError):
                beat = (self.path / CLAIMS / f"{block}.{number}").stat().st_mtime
                if str(block) not in done and beat < late and self._link(worker, block, number + 1):
                    return block, number + 1
        return None

    def _claims(self) -> dict[int, int]:
        """Returns the last claim of each block."""
        found: dict[int, int] = {}
        for name in names_in(self.path / CLAIMS, MOST_NAMES):
            block, _, number = name.partition(".")
            found[int(block)] = max(found.get(int(block), 0), int(number))
        return found

    def _link(self, worker: Path, block: int, number: int) -> bool:
        try:
            (self.path / CLAIMS / f"{block}.{number}").hardlink_to(worker)
        except FileExistsError:
            return False
        return True

    def leave(self, worker: Path) -> None:
        """Gives up all claims of a worker at once."""
        with suppress(OSError):
            os.utime(worker, (0, 0))

    def write(self, block: int, number: int, result: CallResult) -> None:
        fields: dict[str, Any] = {**to_builtins(result, builtin_types=(bytes,))}
        for name in ("output", "errors"):
            fields[name] = base64.b64encode(fields[name]).decode()
        line = json.dumps(fields).encode() + b"\n"
        path = self.path / RESULTS / f"{block}.{number}"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            file.write(line)

    def finish(self, block: int) -> None:
        (self.path / DONE / str(block)).touch(mode=0o600)

    def is_stopped(self) -> bool:
        """Whether no further call may begin, because the map was stopped."""
        return (self.path / STOP).exists()

    def is_over(self, plan: SharedPlan) -> bool:
        return len(names_in(self.path / DONE, MOST_NAMES)) >= plan.blocks

    def of_block(self, block: int, before: int) -> Iterator[CallResult]:
        """Yields the calls of a block that earlier claims have finished."""
        for number in range(1, before):
            for one in self.read(f"{block}.{number}", 0)[0]:
                if one.state in ENDED:
                    yield one

    # The collector.

    def stop(self) -> None:
        (self.path / STOP).touch(mode=0o600)

    def is_alive(self) -> bool:
        """Whether a worker has touched its file lately."""
        beats = [file.stat().st_mtime for file in (self.path / WORKERS).iterdir()]
        return time.time() - max(beats, default=0.0) < SILENT_SECONDS

    def outcomes(self) -> dict[int, tuple[str, ItemState]]:
        """Returns the text of each item that has begun, and how it ended, by its number."""
        plan, found = self.plan(), dict[int, tuple[str, ItemState]]()
        for one in sorted(self.results({}), key=lambda one: one.state in ENDED):
            found |= {item.index: (item.shown, one.state) for item in plan.units[one.call]}
        return found

    def delete(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def results(self, read: dict[str, int]) -> Iterator[CallResult]:
        """Yields the results since the last call; `read` stores how much of each file was read. A
        call that two workers made comes twice."""
        for name in sorted(names_in(self.path / RESULTS, MOST_NAMES)):
            found, read[name] = self.read(name, read.get(name, 0))
            yield from found

    def read(self, name: str, start: int) -> tuple[list[CallResult], int]:
        """Returns the results in a file from a position on, and where its whole lines end."""
        try:
            with (self.path / RESULTS / name).open("rb") as file:
                file.seek(start)
                text = file.read()
        except FileNotFoundError:
            return [], start
        whole = text[: text.rfind(b"\n") + 1]
        found = [convert(json.loads(one), prepared(CallResult)) for one in whole.splitlines()]
        return found, start + len(whole)
