"""Opens the record of a run: its file, its samples, and how it is found again."""

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from andon.host.interpreter import module_environment, process_command
from andon.model.job.progress import WorkProgress
from andon.model.run.record import RunBegin
from andon.runs.header import record_path, runs_folder
from andon.runs.line_pipe import LinePipe
from andon.runs.record import FindFacts, RunRecorder, SampleSource, SampleWriter

if TYPE_CHECKING:
    from andon.explain.conditions.rulebook import Rulebook


class RunRecording(Struct, frozen=True):
    """How this process records its runs."""

    source: SampleSource
    book: "Callable[[], Rulebook]"  # the thresholds of alerts
    notify: Callable[[str], None]
    folder: Path | None = None  # None: in the state folder

    def open(
        self,
        begin: RunBegin,
        facts: FindFacts,
        why_none: str | None = None,
        also: Callable[[Path], SampleWriter] | None = None,
        progress: Callable[[], WorkProgress | None] = lambda: None,
    ) -> RunRecorder:
        """Begins a record. With `why_none`, the reason, no devices are sampled; `also` makes a
        writer of the samples in another form, beside the record."""
        path = record_path(self.folder or runs_folder(), begin.name, begin.at)
        recorder = RunRecorder(
            begin,
            LinePipe(path, self.notify),
            self.source if why_none is None else None,
            None if also is None else also(path),
            why_none=why_none,
            book=self.book,
            progress=progress,
        )
        recorder.start(facts)
        remember(path)
        return recorder


def remember(path: Path) -> None:
    """Makes a record findable; called once, when its run has begun. Returns at once and cannot
    fail.

    Records in the state folder are found there. A record in another folder is added to the index
    by a separate process: neither a hung folder nor a hung index may delay the run. The state
    and end of a run are read from its record.
    """
    try:
        path = Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would ask the file system
        if path.parent == runs_folder():
            return
        added = subprocess.Popen(
            process_command("run-indexer", str(path)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=module_environment(),
            start_new_session=True,
        )
        threading.Thread(target=added.wait, name="andon remembers", daemon=True).start()
    except (OSError, RuntimeError):  # the current folder was removed; no more processes, or threads
        return  # `andon runs add` finds it later
