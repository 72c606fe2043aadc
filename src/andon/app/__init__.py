"""The composition root: the only place that reads the configuration and picks adapters.

`andon.web.server` puts the server together from these parts. A part is imported when its name is
first used: a command that lists runs needs neither sampler nor alerts.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from andon.app.alerts import open_alert_store, open_notifiers, open_watcher
    from andon.app.clusters import configured_clusters
    from andon.app.history import (
        find_store,
        maintainer_of,
        open_past,
        open_recorder,
        open_store,
        retention_of,
        separate_history,
        store_files,
        store_url,
    )
    from andon.app.leases import open_availability, open_lease_tracker, refuse_ambiguous_names
    from andon.app.runs import open_run_finder
    from andon.app.sampler import open_sampler, with_driver_versions
    from andon.app.settings import check_settings, config_path, load_settings
    from andon.app.thresholds import rulebook, with_thresholds
    from andon.host.state.user_folder import state_folder

__all__ = [
    "check_settings",
    "config_path",
    "configured_clusters",
    "find_store",
    "load_settings",
    "maintainer_of",
    "open_alert_store",
    "open_availability",
    "open_lease_tracker",
    "open_notifiers",
    "open_past",
    "open_recorder",
    "open_run_finder",
    "open_sampler",
    "open_store",
    "open_watcher",
    "refuse_ambiguous_names",
    "retention_of",
    "rulebook",
    "separate_history",
    "state_folder",
    "store_files",
    "store_url",
    "with_driver_versions",
    "with_thresholds",
]

_PLACES = {
    "check_settings": "andon.app.settings",
    "config_path": "andon.app.settings",
    "configured_clusters": "andon.app.clusters",
    "find_store": "andon.app.history",
    "load_settings": "andon.app.settings",
    "maintainer_of": "andon.app.history",
    "open_alert_store": "andon.app.alerts",
    "open_availability": "andon.app.leases",
    "open_lease_tracker": "andon.app.leases",
    "open_notifiers": "andon.app.alerts",
    "open_past": "andon.app.history",
    "open_recorder": "andon.app.history",
    "open_run_finder": "andon.app.runs",
    "open_sampler": "andon.app.sampler",
    "open_store": "andon.app.history",
    "open_watcher": "andon.app.alerts",
    "refuse_ambiguous_names": "andon.app.leases",
    "retention_of": "andon.app.history",
    "rulebook": "andon.app.thresholds",
    "separate_history": "andon.app.history",
    "state_folder": "andon.host.state.user_folder",
    "store_files": "andon.app.history",
    "store_url": "andon.app.history",
    "with_driver_versions": "andon.app.sampler",
    "with_thresholds": "andon.app.thresholds",
}
"""Each name, and the module that it is in."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return found
