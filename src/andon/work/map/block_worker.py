"""The process `map-worker FOLDER NAME`: works on blocks of a shared map until none is left.

It is the command of one job of many, on the devices of that job.
"""

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

from msgspec.structs import replace

from andon.host.machine_id import node_name
from andon.model.run.record import ItemState
from andon.runs.rules.ranks import RECORD_VARIABLE, RUN_VARIABLE, run_variables
from andon.work.map.blocks import BEAT_SECONDS, BlockFolder, CallResult, SharedPlan
from andon.work.map.calls import CallEnd, CommandCaller, ItemLimits
from andon.work.rules.map.plan import BACK_OFF, MapUnit
from andon.work.rules.map.template import FIRST_GPU

PAUSE_SECONDS = 0.5


class BlockWorker:
    """One worker of a shared map: claims blocks, makes their calls, and writes the results."""

    def __init__(self, folder: BlockFolder, name: str) -> None:
        self._folder, self._plan = folder, folder.plan()
        self._file, self._ended = folder.enter(name), threading.Event()
        self._caller = _caller(self._plan)

    def run(self) -> int:
        beats = threading.Thread(target=self._beat, name="andon beats", daemon=True)
        beats.start()
        failed = 0
        try:
            while not self._is_enough() and not self._folder.is_over(self._plan):
                claimed = self._folder.claim(self._plan, self._file)
                if claimed is None:
                    self._ended.wait(PAUSE_SECONDS)
                else:
                    failed += self._work(*claimed)
        except FileNotFoundError:
            if self._folder.path.exists():
                raise
        finally:
            self._folder.leave(self._file)
        return 1 if failed else 0

    def _is_enough(self) -> bool:
        return self._ended.is_set() or self._folder.is_stopped()

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal: ends the current call; its block is left to other workers."""
        self._ended.set()
        self._caller.end(number)

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            with suppress(FileNotFoundError):  # the map is over, and its folder gone
                os.utime(self._file)

    def _work(self, block: int, claim: int) -> int:
        """Makes the calls of a block; returns how many failed."""
        before = {one.call for one in self._folder.of_block(block, claim)}
        failed = 0
        for call in self._plan.calls(block):
            if self._is_enough():
                return failed
            if call not in before:
                failed += self._call(block, claim, call)
        if self._ended.is_set():
            return failed
        self._folder.finish(block)
        return failed

    def _call(self, block: int, claim: int, call: int) -> int:
        retries = self._plan.retries
        for attempt in range(1, retries + 2):
            self._write(block, claim, CallResult(call, ItemState.START, 0.0, attempt))
            end = self._caller.call(MapUnit(self._plan.units[call], attempt))
            if self._ended.is_set() and not end.ok:
                return 0  # it was ended with its job
            again = not end.ok and attempt <= retries and not self._folder.is_stopped()
            state = ItemState.OK if end.ok else ItemState.RETRY if again else ItemState.FAILED
            self._write(block, claim, _result(call, attempt, state, end))
            if not again:
                return 0 if end.ok else 1
            self._ended.wait(BACK_OFF.seconds(attempt))
        return 1

    def _write(self, block: int, claim: int, result: CallResult) -> None:
        run = os.environ.get(RUN_VARIABLE, "")
        found = replace(result, where=node_name(), run=run, at=time.time())
        self._folder.write(block, claim, found)


def _caller(plan: SharedPlan) -> CommandCaller:
    outer = {name: value for name, value in os.environ.items() if name != RECORD_VARIABLE}
    return CommandCaller(
        lambda unit: plan.template.command(unit.items, FIRST_GPU),
        {**outer, **run_variables(plan.run)},
        lambda: (),
        ItemLimits(plan.grace_seconds, plan.timeout_seconds),
    )


def _result(call: int, attempt: int, state: ItemState, end: CallEnd) -> CallResult:
    texts = []
    for output in (end.output, end.errors):
        pieces: list[bytes] = []
        if output is not None:
            output.copy_to(pieces.append)
        texts.append(b"".join(pieces))
    seconds = round(end.seconds, 6)
    return CallResult(call, state, seconds, attempt, end.reason, output=texts[0], errors=texts[1])


def main(argv: list[str]) -> int:
    name = argv[1] if len(argv) > 1 else f"{node_name()}-{os.getpid()}"
    folder = BlockFolder(Path(argv[0]))
    if not folder.path.exists():
        return 0  # the others have done all, before this one came
    worker = BlockWorker(folder, name)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, worker.stop)
    return worker.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
