"""Notes of submissions to clusters, as if they had been written a minute ago."""

import json

from andon.jobs.clusters.notes import NOTE
from andon.jobs.folder import SUBMISSIONS, jobs_path


def age_notes(seconds: float = 60.0) -> None:
    for path in (jobs_path() / SUBMISSIONS).glob(f"[!.]*{NOTE}"):
        value = json.loads(path.read_text())
        path.write_text(json.dumps({**value, "at": value["at"] - seconds}))
