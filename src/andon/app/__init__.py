"""The composition root: the only place that reads the configuration and picks adapters.

`app.serving` puts the server together; only `andon serve` imports it.
"""

from andon.app.alerts import (
    open_alert_store,
    open_notifiers,
    open_watcher,
    rulebook,
    with_thresholds,
)
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
from andon.app.sampler import open_sampler, with_driver_versions
from andon.app.settings import check_settings, config_path, load_settings
from andon.app.sharing import open_availability, open_lease_tracker, refuse_ambiguous_names
from andon.host.server.state_folder import state_folder

__all__ = [
    "check_settings",
    "config_path",
    "find_store",
    "load_settings",
    "maintainer_of",
    "open_alert_store",
    "open_availability",
    "open_lease_tracker",
    "open_notifiers",
    "open_past",
    "open_recorder",
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
