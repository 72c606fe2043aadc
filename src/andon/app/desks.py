"""The desk that a name means: that of --on, or that of the setting jobs.on."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from andon.errors import AndonError, Invalid
from andon.model.job import LOCAL

if TYPE_CHECKING:  # most machines have no cluster, and `run` must be quick
    from andon.jobs.clusters.desk import ClusterDesk
    from andon.settings.resolution import Settings

T = TypeVar("T")


def desk_named(
    on: str | None, settings: Callable[[], "Settings"], local: Callable[[], T]
) -> "T | ClusterDesk":
    """Returns the cluster of this name, or what `local` returns for this machine. Without a
    name the setting jobs.on decides."""
    name = (settings().jobs_on or LOCAL) if on is None else on
    if name == LOCAL:
        return local()
    from andon.app.clusters import cluster_named

    return cluster_named(settings(), name)


def check_clusters(settings: "Settings") -> None:
    """Opens every cluster; Invalid lists all that cannot be used."""
    from andon.app.clusters import open_cluster

    mistakes = []
    for one in settings.clusters:
        try:
            open_cluster(one)
        except AndonError as exc:
            mistakes.append(f"{exc.reason} ({exc.hint})" if exc.hint else exc.reason)
    try:
        desk_named(None, lambda: settings, lambda: None)
    except Invalid as exc:
        mistakes.append(f"jobs.on: {exc.reason} ({exc.hint})")
    if mistakes:
        count = len(mistakes)
        reason = mistakes[0] if count == 1 else f"there are {count} mistakes about clusters"
        raise Invalid(reason, hint="andon config lists the settings", mistakes=tuple(mistakes))
