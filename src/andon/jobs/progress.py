"""The progress of a running job, from the end of its output."""

import os
from pathlib import Path

from andon.host.files import open_regular
from andon.model.job.progress import WorkProgress
from andon.runs.rules.progress import TAIL_BYTES, progress_in, work_progress


def output_progress(path: Path, started: float | None) -> WorkProgress | None:
    """Returns the progress at the end of an output; None if it shows no steps or cannot be read.
    Only the last bytes are read."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            told_at = os.fstat(file.fileno()).st_mtime
            file.seek(max(0, size - TAIL_BYTES))
            tail = file.read(TAIL_BYTES)
    except OSError:
        return None
    told = progress_in(tail.decode(errors="replace"))
    return None if told is None else work_progress(told, started, told_at)
