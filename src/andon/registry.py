"""Names of adapters and where they are defined; each is imported when first used."""

from importlib import import_module

from andon.errors import Invalid
from andon.model.vendors import VENDORS

BACKENDS = {
    **{v.name: f"andon.backends.{v.name}:{v.name.capitalize()}" for v in VENDORS},
    "nvidia_smi": "andon.backends.nvidia_smi:NvidiaSmi",
    "replay": "andon.backends.replay:Replay",
    "sim": "andon.backends.sim:Simulation",
}

STORES = {
    "memory": "andon.stores.memory:MemoryStore",
    "sqlite": "andon.stores.sqlite:SqliteStore",
}

ALERT_STORES = {
    "memory": "andon.stores.memory_alerts:MemoryAlertStore",
    "sqlite": "andon.stores.sqlite_alerts:SqliteAlertStore",
}

NOTIFIERS = {
    "alertmanager": "andon.notifiers.alertmanager:Alertmanager",
    "apprise": "andon.notifiers.apprise:AppriseNotifier",
    "command": "andon.notifiers.command:CommandNotifier",
}


def load(table: dict[str, str], name: str) -> type:
    """The class registered under a name."""
    try:
        module, _, attribute = table[name].partition(":")
    except KeyError:
        raise Invalid(
            f"unknown name {name!r}", hint=f"one of: {', '.join(sorted(table))}"
        ) from None
    found: type = getattr(import_module(module), attribute)
    return found
