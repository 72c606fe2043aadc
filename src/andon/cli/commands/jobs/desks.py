"""The desks that a command uses: the queue, the desk of a named job, and all desks."""

import os
import time
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from andon.cli.commands.jobs.on import settings_named
from andon.cli.terminal import Choices, notice
from andon.host.state.user_folder import config_mentions, config_path
from andon.jobs.folder import CLUSTER_PAGES, SUBMISSIONS, jobs_path
from andon.jobs.queue import Queue
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.starting import start_dispatcher
from andon.model.job import is_host
from andon.units import sh

if TYPE_CHECKING:  # most machines have no cluster, and `submit` must be quick
    from andon.jobs.clusters.desk import ClusterDesk
    from andon.jobs.desk import Desks, JobDesk
    from andon.leases.rules.eligibility import Labels
    from andon.model.device import Snapshot


def queue_desk(choices: Choices, wakes: bool = True) -> QueueDesk:
    """Returns the queue of this machine; a dispatcher is started where jobs wait and none runs."""
    return QueueDesk(
        partial(_open_queue, choices),
        wake=start_dispatcher if wakes else None,
        sample=cache(partial(sampled, choices)),
        labels=partial(_labels, choices),
        notify=lambda text: notice(text, choices),
    )


def desks_of(choices: Choices, wakes: bool = True) -> "Desks":
    """Returns the queue of this machine and the clusters."""
    from andon.jobs.desk import Desks

    named = cache(partial(_cluster_of, choices))
    return Desks(queue_desk(choices, wakes), named, partial(clusters_of, choices), _group)


def desk_of_machine(choices: Choices) -> "JobDesk":
    """Returns the desk for a command's jobs: that of --url, else those of this machine and of its
    clusters."""
    if choices.url is None:
        return desks_of(choices)
    from andon.cli.sources import node_of

    return node_of(choices).jobs


def refuse_unstartable(choices: Choices, named: Sequence[int | None] = (None,)) -> None:
    """Raises an error if a job would never start: the variable or the file names simulated devices
    but neither the command nor the job does, or the settings cannot be read."""
    if not os.access(config_path() or "/", os.R_OK):
        settings_named(choices)  # says why
    if choices.simulate is not None or None not in named:
        return
    may_be_set = os.environ.get("ANDON_SIMULATE") or config_mentions(b"simulation")
    if may_be_set and settings_named(choices).simulate:
        from andon.leases.availability import implicit_simulation

        raise implicit_simulation()


def sampled(choices: Choices) -> "Snapshot":
    from andon.cli.sources import sampling_ahead

    with sampling_ahead(choices) as sampler:
        return sampler.once(with_host=False)


def clusters_of(choices: Choices) -> "list[ClusterDesk]":
    """The clusters; settings are read only if the file may have some, or one was used."""
    used = any((jobs_path() / name).is_dir() for name in (CLUSTER_PAGES, SUBMISSIONS))
    if not used and not config_mentions(b"clusters"):
        return []
    from andon.app.clusters import configured_clusters

    return configured_clusters(settings_named(choices))


def _cluster_of(choices: Choices, name: str) -> "ClusterDesk | None":
    from andon.registry import CLUSTERS

    if name not in CLUSTERS and not is_host(name) and not config_mentions(b"clusters"):
        return None
    from andon.app.clusters import find_cluster

    return find_cluster(settings_named(choices), name)


def _group(word: str) -> list[str]:
    """The jobs on clusters that are of a group; empty if none is."""
    if ":" in word or not (jobs_path() / SUBMISSIONS).is_dir():
        return []
    from andon.jobs.clusters.notes import recent_notes
    from andon.jobs.rules.cluster_views import named
    from andon.jobs.rules.polling import PAST_SECONDS

    notes = [n for n in recent_notes(time.time() - PAST_SECONDS) if n.submission.job.group == word]
    return [named(note.cluster, note.id) for note in notes if note.id is not None]


def _open_queue(choices: Choices) -> Queue:
    queue = Queue()
    for path, why in list(queue.unread.items())[:5]:
        notice(_passed_over(path, why), choices)
    return queue


def _passed_over(path: str, why: str) -> str:
    """Returns the notice about an unreadable file."""
    folder = Path(path).parent
    if folder.name.isdecimal():
        give_up = f"rm -r {sh(folder)}"
        return f"job {folder.name} is passed over: job.json: {why}; to give it up: {give_up}"
    return f"{path} is passed over: {why}"


def _labels(choices: Choices) -> "Labels":
    from andon.app.leases import labels_of
    from andon.cli.sources import resolved_of

    return labels_of(resolved_of(choices).settings)
