"""The composition root: the only place that reads the configuration and picks adapters.

It stands above `web` and `exporter`, because `servers` puts servers together from their parts; they
get what they need and never ask for it. The names below are what a node of this machine is made of
(`node.port.LocalParts`): each is imported when it is first used, because a list of runs needs
neither sampler nor store.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from andon.app.clusters import configured_clusters as configured_clusters
    from andon.app.history import find_store as find_store
    from andon.app.history import open_past as open_past
    from andon.app.leases import open_availability as open_availability
    from andon.app.leases import open_lease_tracker as open_lease_tracker
    from andon.app.runs import open_run_finder as open_run_finder
    from andon.app.sampler import open_sampler as open_sampler
    from andon.app.sampler import with_driver_versions as with_driver_versions
    from andon.app.thresholds import rulebook as rulebook

_PLACES = {
    "configured_clusters": "clusters",
    "find_store": "history",
    "open_availability": "leases",
    "open_lease_tracker": "leases",
    "open_past": "history",
    "open_run_finder": "runs",
    "open_sampler": "sampler",
    "rulebook": "thresholds",
    "with_driver_versions": "sampler",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"andon.app.{_PLACES[name]}"), name)
