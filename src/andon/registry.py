"""Names of adapters and where they are defined; each is imported when first used.

Another package adds its own by an entry point. Those are looked up only for a name that is not
here, because reading the metadata of all installed packages takes about 75 ms.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from andon.errors import Conflict, Invalid, Unavailable
from andon.model.vendors import VENDORS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class AdapterTable(dict[str, str]):
    """The adapters of one kind: name -> "module:Class"; `group` is that of their entry points."""

    def __init__(self, kind: str, group: str, known: Mapping[str, str]) -> None:
        super().__init__(known)
        self.kind, self.group = kind, group


BACKENDS = AdapterTable(
    "backend",
    "andon.backends",
    {
        **{v.name: f"andon.drivers.{v.name}:{v.name.capitalize()}" for v in VENDORS},
        "nvidia_smi": "andon.drivers.nvidia_smi.backend:NvidiaSmi",
        "replay": "andon.drivers.replay:Replay",
        "sim": "andon.drivers.sim.backend:Simulation",
    },
)

STORES = AdapterTable(
    "store",
    "andon.stores",
    {
        "memory": "andon.stores.memory:MemoryStore",
        "postgresql": "andon.stores.postgres_kind:PostgresKind",
        "sqlite": "andon.stores.sqlite_kind:SqliteKind",
    },
)

NOTIFIERS = AdapterTable(
    "notifier",
    "andon.notifiers",
    {
        "alertmanager": "andon.notifiers.alertmanager:Alertmanager",
        "apprise": "andon.notifiers.apprise:AppriseNotifier",
        "command": "andon.notifiers.command:CommandNotifier",
        "desktop": "andon.notifiers.desktop:DesktopNotifier",
        "email": "andon.notifiers.apprise:AppriseNotifier",
        "pagerduty": "andon.notifiers.apprise:AppriseNotifier",
        "slack": "andon.notifiers.apprise:AppriseNotifier",
        "webhook": "andon.notifiers.apprise:AppriseNotifier",
    },
)


ENGINES = AdapterTable(
    "engine",
    "andon.engines",
    {
        "docker": "andon.engines.containers:DockerEngine",
        "podman": "andon.engines.containers:PodmanEngine",
    },
)


CLUSTERS = AdapterTable(
    "kind of cluster",
    "andon.clusters",
    {
        "k8s": "andon.clusters.kubernetes:KubernetesCluster",
        "ray": "andon.clusters.ray:RayCluster",
        "slurm": "andon.clusters.slurm:SlurmCluster",
        "ssh": "andon.clusters.ssh:SshQueue",
    },
)


def is_known(table: AdapterTable, name: str) -> bool:
    """Whether there is an adapter of this name; imports nothing of it."""
    return name in table or bool(_entry_points(table, name))


def known_names(table: AdapterTable) -> list[str]:
    """The names of all adapters, those of other packages included; imports nothing of them."""
    from importlib.metadata import entry_points

    return sorted({*table, *(point.name for point in entry_points(group=table.group))})


def load(table: AdapterTable, name: str) -> type:
    """Returns the class registered under a name, here or by another package."""
    if name not in table:
        return _load_foreign(table, name)
    module, _, attribute = table[name].partition(":")
    found: type = getattr(import_module(module), attribute)
    return found


def unknown(table: AdapterTable, *names: str, also: str = "") -> Invalid:
    """Returns the error for names that neither andon nor an installed package knows."""
    many = "s" * (len(names) != 1)
    known = ", ".join([also] * bool(also) + sorted(table))
    return Invalid(
        f"unknown {table.kind}{many}: {', '.join(names)}",
        hint=f"one of: {known}; or install a package that provides it"
        if known
        else "install a package that provides it",
    )


def _load_foreign(table: AdapterTable, name: str) -> type:
    points = _entry_points(table, name)
    if not points:
        raise unknown(table, name)
    packages = sorted({_package(point) for point in points})
    if len(packages) > 1:
        raise Conflict(
            f"the {table.kind} {name!r} is provided by {' and by '.join(packages)}",
            hint=f"uninstall one of them: pip uninstall {packages[0]}",
        )
    try:
        found = points[0].load()
    except Exception as exc:
        raise _broken(table, name, packages[0], f"{type(exc).__name__}: {exc}") from exc
    if not isinstance(found, type):
        raise _broken(table, name, packages[0], f"{points[0].value} is not a class")
    return found


def _entry_points(table: AdapterTable, name: str) -> "tuple[EntryPoint, ...]":
    from importlib.metadata import entry_points

    return tuple(entry_points(group=table.group, name=name))


def _package(point: "EntryPoint") -> str:
    return point.dist.name if point.dist is not None else "an unknown package"


def _broken(table: AdapterTable, name: str, package: str, why: str) -> Unavailable:
    return Unavailable(
        f"the {table.kind} {name!r} of the package {package} cannot be loaded: {why}",
        hint=f"update it: pip install --upgrade {package}; or remove it from the settings",
    )
