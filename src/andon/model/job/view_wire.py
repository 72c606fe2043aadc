"""A job as a server shows it, read from its JSON."""

from andon.model.codec import Json, Wrong, read
from andon.model.job.facts import JobView


def view_from_json(value: Json) -> JobView:
    """Wrong names the field that is not as it should be."""
    found = read(JobView, value)
    if found.progress is not None and found.progress.step > found.progress.total:
        raise Wrong("progress.step", f"is {found.progress.step}, more than {found.progress.total}")
    return found
