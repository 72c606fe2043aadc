"""Opens the record of a run: its file, its samples, and how it is found again."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from andon.errors import AndonError
from andon.host.interpreter import module_environment, process_command
from andon.host.state.user_folder import runs_folder
from andon.model.job.progress import WorkProgress
from andon.model.run.record import RunBegin
from andon.runs.header import record_path
from andon.runs.line_pipe import LinePipe
from andon.runs.record import FindFacts, LineSink, RunRecorder, SampleSource, SampleWriter

if TYPE_CHECKING:
    from andon.explain.conditions.rulebook import Rulebook


class RunRecording(Struct, frozen=True):
    """How this process records its runs."""

    source: SampleSource | None = None  # None: no devices are sampled
    book: "Callable[[], Rulebook] | None" = None  # the thresholds of alerts; None: no alerts
    notify: Callable[[str], None] = lambda text: None
    folder: Path | None = None  # None: in the state folder
    direct: bool = False  # this process writes the lines itself: the folder is known to respond
    indexed: bool = True  # else its records become a part of another one, and are not found

    def open(
        self,
        begin: RunBegin,
        facts: FindFacts | None,
        why_none: str | None = None,
        sample_writer: Callable[[Path], SampleWriter] | None = None,
        progress: Callable[[], WorkProgress | None] = lambda: None,
        path: Path | None = None,
        follows: bool = True,
    ) -> RunRecorder:
        """Begins a record, at this path if one is given. Without devices to sample, `why_none` is
        the reason; without `follows` sampling begins later; `sample_writer` also writes the samples
        in another form."""
        path = path or record_path(self.folder or runs_folder(), begin.name, begin.at)
        recorder = RunRecorder(
            begin,
            self._file(path),
            self.source if why_none is None else None,
            None if sample_writer is None else sample_writer(path),
            why_none=why_none,
            book=self.book,
            progress=progress,
        )
        recorder.start(facts, follows)
        if self.indexed:
            remember(path)
        return recorder

    def _file(self, path: Path) -> LineSink:
        if not self.direct:
            return LinePipe(path, self.notify)
        from andon.runs.files import RecordFile

        return RecordFile(path)

    def resume(self, path: Path) -> RunRecorder | None:
        """Continues a record that another process began; None if complete or unreadable."""
        from andon.runs.files import RecordFile, read_ends

        with suppress(AndonError):
            read = read_ends(path, unfinished_bytes=sys.maxsize)
            if read.fold.end is None:
                recorder = RunRecorder(read.begin, RecordFile(path), self.source, book=self.book)
                recorder.go_on_from(read.fold)
                recorder.follow()
                return recorder
        return None


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
