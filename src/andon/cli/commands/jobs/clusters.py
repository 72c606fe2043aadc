"""The clusters that a command line means: --on NAME, NAME:ID, and all of them in a list."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from andon.cli.options import whole
from andon.cli.terminal import Choices
from andon.errors import AndonError, Invalid
from andon.host.state.user_folder import config_mentions

if TYPE_CHECKING:  # most machines have no cluster, and `submit` must be quick
    from andon.jobs.clusters.asking import OpenCluster
    from andon.jobs.rules.cluster_views import ClusterPage
    from andon.model.job.facts import JobView
    from andon.settings.resolution import Settings

F = TypeVar("F", bound=Callable[..., Any])
HERE = "here"  # as in settings.clusters, which most commands need not import
VARIABLE = "ANDON_JOBS_ON"
FOLLOW_SECONDS = 5.0
_OPTION, _PER_GPU = "--engine-option", "--per-gpu"


def on_options(command: F) -> F:
    """Adds --on, and --engine-option for what only the cluster understands."""
    command = click.option(
        _OPTION,
        "engine_options",
        multiple=True,
        metavar="OPTION",
        help="With --on: an option in the cluster's own words.",
    )(command)
    return click.option(
        "--on", metavar="NAME", help=f"Run it on this cluster; {HERE} is this machine."
    )(command)


def per_gpu_option(command: F) -> F:
    """Adds --per-gpu: a process for each GPU of a job on a cluster."""
    return click.option(
        _PER_GPU,
        "processes",
        type=whole,
        metavar="N",
        help="With --on: N processes for each GPU, which see that one alone.",
    )(command)


def target_of(choices: Choices, asked: dict[str, Any]) -> "OpenCluster | None":
    """Takes --on out of the options; returns the cluster, or None for this machine. Without it
    the setting jobs.on decides, unless devices are named here by a lease or a simulation."""
    on: str | None = asked.pop("on")
    if on is None:
        here = choices.simulate is not None or choices.replay is not None
        named = here or asked.get("lease_id") or "ANDON_LEASE" in os.environ
        if named or not (os.environ.get(VARIABLE) or config_mentions(b"clusters")):
            on = HERE
        else:
            on = _settings(choices).jobs_on or HERE
    if on == HERE:
        given = {_OPTION: asked.pop("engine_options"), _PER_GPU: asked.pop("processes", None),
                 "--kind": asked.pop("kind", None)}  # fmt: skip
        for option in (option for option, value in given.items() if value):
            raise Invalid(f"{option} is for jobs on a cluster", hint="add --on NAME")
        return None
    if choices.simulate is not None or choices.replay is not None:
        raise Invalid("simulated and recorded devices are on this machine", hint="leave out --on")
    from andon.app.clusters import cluster_named

    return cluster_named(_settings(choices), on)


def refuse_unasked(choices: Choices, named: Sequence[int | None] = (None,)) -> None:
    """Refuses jobs here while the variable or the file names simulated devices and neither the
    command nor the job does: it would wait for real ones, which no other command shows."""
    if choices.simulate is not None or None not in named:
        return
    may_be_set = os.environ.get("ANDON_SIMULATE") or config_mentions(b"simulation")
    if may_be_set and _settings(choices).simulate:
        from andon.leases.availability import unasked_simulation

        raise unasked_simulation()


def clusters_of(choices: Choices) -> "list[OpenCluster]":
    """The clusters; settings are read only if the file may have some, or one was used."""
    from andon.jobs.folder import CLUSTER_PAGES, SUBMISSIONS, jobs_path

    used = any((jobs_path() / name).is_dir() for name in (CLUSTER_PAGES, SUBMISSIONS))
    if not used and not config_mentions(b"clusters"):
        return []
    from andon.app.clusters import configured_clusters

    return configured_clusters(_settings(choices))


def _settings(choices: Choices) -> "Settings":
    from andon.app.settings import load_settings

    return load_settings(choices.flags()).settings


def apart(
    choices: Choices, words: Sequence[str]
) -> "tuple[list[str], dict[str, tuple[OpenCluster, list[str]]]]":
    """Returns the words that mean jobs of this machine, and by cluster those of others with their
    ids: lab:4711. A word whose beginning names no cluster is one of this machine, or a group of
    jobs that were submitted to clusters."""
    words = [one for word in words for one in (_group_elsewhere(word) or [word])]
    if not any(":" in word for word in words):
        return words, {}
    from andon.registry import CLUSTERS

    known = {one.name: one for one in clusters_of(choices)}
    for name in {word.partition(":")[0] for word in words} & set(CLUSTERS) - set(known):
        from andon.app.clusters import cluster_named

        if (found := cluster_named(_settings(choices), name)) is not None:
            known[name] = found
    here, elsewhere = list[str](), dict[str, tuple["OpenCluster", list[str]]]()
    for word in words:
        name, sign, job = word.partition(":")
        if sign and job and name in known:
            elsewhere.setdefault(name, (known[name], []))[1].append(job)
        else:
            here.append(word)
    return here, elsewhere


def _group_elsewhere(word: str) -> list[str]:
    """The jobs on clusters that are of a group; empty if none is."""
    from andon.jobs.folder import SUBMISSIONS, jobs_path

    if ":" in word or not (jobs_path() / SUBMISSIONS).is_dir():
        return []
    from andon.jobs.clusters.notes import recent_notes
    from andon.jobs.rules.cluster_views import named
    from andon.jobs.rules.polling import PAST_SECONDS

    notes = [n for n in recent_notes(time.time() - PAST_SECONDS) if n.submission.job.group == word]
    return [named(note.cluster, note.id) for note in notes if note.id is not None]


def one_apart(choices: Choices, word: str) -> "tuple[OpenCluster, str] | None":
    """Returns the cluster and the id of `lab:4711`; None for a job of this machine."""
    for cluster, ids in apart(choices, [word])[1].values():
        return cluster, ids[0]
    return None


def refuse_elsewhere(choices: Choices, words: Iterable[str]) -> None:
    """Refuses jobs of clusters, for commands about this machine's queue."""
    for name, (_, ids) in apart(choices, list(words))[1].items():
        raise Invalid(
            f"{name}:{ids[0]} is a job of a cluster, which has its own queue",
            hint="andon jobs show, wait, cancel, logs and why work on it",
        )


class ClusterJobs(NamedTuple):
    """The jobs of all clusters, and a line about each that does not answer."""

    views: "Sequence[JobView]" = ()
    notes: Sequence[str] = ()
    pages: "Sequence[ClusterPage]" = ()

    def to_json(self) -> list[dict[str, object]]:
        """Returns the state of each cluster, without its jobs."""
        names = ("name", "at", "failing_since", "trouble")
        return [{name: getattr(page, name) for name in names} for page in self.pages]


def cluster_list(
    choices: Choices, state: str | None, everything: bool, meanwhile: Callable[[], object]
) -> ClusterJobs:
    """Returns the jobs of all clusters; with `everything` root sees everyone's. Settings that
    cannot be read cost a line, not the list. `meanwhile` is called while clusters are asked."""
    try:
        clusters = clusters_of(choices)
    except AndonError as error:
        return ClusterJobs(notes=[f"clusters are not known: {error.reason}"])
    if not clusters:
        return ClusterJobs()
    from andon.jobs.clusters.pages import listed, pages_now

    pages = pages_now(clusters, everyone=everything and os.getuid() == 0, meanwhile=meanwhile)
    found = listed(pages, time.time())
    views = [view for view in found.views if state is None or view.state == state]
    return ClusterJobs(views if everything else _latest(views), found.notes, pages)


def _latest(views: "list[JobView]") -> "list[JobView]":
    """Returns the last jobs that ended, the running ones and the first that wait."""
    from andon.cli.commands.jobs.common import MOST_ENDED, MOST_WAITING
    from andon.model.job.facts import UNSETTLED, JobState

    ended = [view for view in views if view.state.is_settled]
    running = [view for view in views if view.state is JobState.RUNNING]
    waiting = [view for view in views if view.state in UNSETTLED - {JobState.RUNNING}]
    return [*ended[-MOST_ENDED:], *running, *waiting[:MOST_WAITING]]


class ClusterFollower:
    """Reports the jobs of clusters that change, as often as clusters may be asked."""

    def __init__(
        self, choices: Choices, first: ClusterJobs, changed: "Callable[[JobView], None]"
    ) -> None:
        self._choices, self._changed, self._last = choices, changed, time.monotonic()
        self._known = {view.label: view.state for view in first.views}
        self.active = bool(first.pages) and any(not one.is_settled for one in self._known.values())

    def look(self) -> None:
        """Asks again, if it is time."""
        if not self.active or time.monotonic() - self._last < FOLLOW_SECONDS:
            return
        views = cluster_list(self._choices, None, everything=True, meanwhile=lambda: None).views
        for view in views:
            if self._known.get(view.label) != view.state:
                self._known[view.label] = view.state
                self._changed(view)
        self.active = any(not view.state.is_settled for view in views)
        self._last = time.monotonic()
