"""Messages about jobs, through the notifiers that are configured."""

import time
from collections import Counter
from collections.abc import Sequence

from andon.alerts.rules.messages import JOB_RULE
from andon.app.messages.personal import personal_notifiers, send_all
from andon.host.machine_id import node_name
from andon.jobs.folder import JobsFolder
from andon.jobs.queue import Queue
from andon.model.alert import Alert, Level, Notice, NoticeKind, Phase
from andon.model.job.facts import JobState, JobView
from andon.settings.resolution import Settings
from andon.units import counted, human_seconds, sh


def send_job_message(settings: Settings, folder: JobsFolder, numbers: Sequence[int]) -> None:
    """Sends one message to each notifier about all these jobs; raises the error of the last one
    that failed. A job that was deleted meanwhile is left out."""
    queue, at, node = Queue(folder), time.time(), node_name()
    views = queue.views([one for one in numbers if one in queue.jobs])
    notices = [
        job_notice(found[0], at, node) if len(found) == 1 else group_notice(found, at, node)
        for found in _by_group(views)
    ]
    if not notices:
        return
    send_all(personal_notifiers(settings), notices)


def _by_group(views: Sequence[JobView]) -> list[list[JobView]]:
    """Jobs of one group together; others alone."""
    found: dict[str, list[JobView]] = {}
    for view in views:
        found.setdefault(f"job {view.label}" if view.group is None else view.group, []).append(view)
    return list(found.values())


def group_notice(views: Sequence[JobView], at: float, node: str) -> Notice:
    """The end of all jobs of a group as one notice."""
    first, states = views[0], Counter(view.state for view in views)
    group, good = first.group or "", set(states) == {JobState.SUCCEEDED}
    ended = ", ".join(f"{count} {state.text}" for state, count in states.most_common())
    alert = Alert(
        id=f"job@{first.label}#{first.attempt}",
        rule=JOB_RULE,
        subject=f"group {group}",
        level=Level.INFO if good else Level.WARNING,
        state=Phase.FIRING,
        since=at,
        where=f"group {group}",
        message=f"{counted(len(views), 'job')} of group {group} ended: {ended}",
        advice=f"andon runs compare --group {sh(group)}",
    )
    return Notice(f"{alert.id}:end", NoticeKind.FIRING, alert, at, node, first.simulated)


def job_notice(view: JobView, at: float, node: str) -> Notice:
    """A job's end as a notice: a failure is a warning, a success only information."""
    good = view.state in (JobState.SUCCEEDED, JobState.RUNNING)
    took = "" if view.seconds is None else f" after {human_seconds(view.seconds)}"
    why = f": {view.reason}" if view.reason else ""
    alert = Alert(
        id=f"job@{view.label}#{view.attempt}",
        rule=JOB_RULE,
        subject=f"job {view.label}",
        level=Level.INFO if good else Level.WARNING,
        state=Phase.FIRING,
        since=at,
        where=f"job {view.label} ({view.name})",
        message=f"Job {view.label} ({view.name}) {_state_text(view)}{took}{why}",
        advice=f"andon logs {view.label}",
    )
    return Notice(f"{alert.id}:end", NoticeKind.FIRING, alert, at, node, view.simulated)


def _state_text(view: JobView) -> str:
    if view.state is not JobState.RUNNING:
        return view.state.text
    return f"has its turn: it runs on GPU {', '.join(view.devices)}" if view.devices else "runs"
