"""Messages about jobs, through the notifiers that are configured."""

import time

from andon.app.alerts import open_notifiers
from andon.app.jobs import Queue
from andon.core.settings.resolution import Settings
from andon.engine.jobs.folder import JobsFolder
from andon.errors import AndonError
from andon.host.system import node_name
from andon.model.alert import Alert, Level, Notice, NoticeKind, Phase
from andon.model.job import JobState, JobView
from andon.units import human_seconds


def send_job_message(settings: Settings, folder: JobsFolder, number: int) -> None:
    """One message to each notifier; raises what the last one that failed said."""
    view = Queue(folder).view(number)
    failed: AndonError | None = None
    for notifier, _ in open_notifiers(settings):
        try:
            notifier.send([job_notice(view, time.time(), node_name())], [])
        except AndonError as error:
            failed = error
        finally:
            notifier.close()
    if failed is not None:
        raise failed


def job_notice(view: JobView, at: float, node: str) -> Notice:
    """A job's end as a notice: a failure is a warning, a success only information."""
    good = view.state is JobState.SUCCEEDED
    took = "" if view.seconds is None else f" after {human_seconds(view.seconds)}"
    why = f": {view.reason}" if view.reason else ""
    alert = Alert(
        id=f"job@{view.label}#{view.attempt}",
        rule="job",
        subject=f"job {view.label}",
        level=Level.INFO if good else Level.WARNING,
        state=Phase.FIRING,
        since=at,
        where=f"job {view.label} ({view.name})",
        message=f"Job {view.label} ({view.name}) {view.state.words}{took}{why}",
        advice=f"andon logs {view.label}",
    )
    return Notice(f"{alert.id}:end", NoticeKind.FIRING, alert, at, node, view.simulated)
