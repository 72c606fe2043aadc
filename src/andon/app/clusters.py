"""The clusters of the settings, opened by their kinds."""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache, partial

from andon.errors import AndonError, Invalid
from andon.fleet.node_readings import read_nodes
from andon.jobs.clusters.answers import was_used
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.clusters.hosts import HostsDesk
from andon.jobs.clusters.notes import hosts_with_jobs
from andon.jobs.clusters.poller import ClusterPoller
from andon.model.job import HOST, LOCAL, SSH, is_host
from andon.node.ssh.names import checked_host, hosts_of
from andon.ports import Cluster
from andon.registry import CLUSTERS, known_names, load
from andon.settings.clusters import ClusterSettings, is_cluster_name
from andon.settings.resolution import Settings

OTHER_NAMES = {"kubernetes": "k8s", "kube": "k8s"}
"""Of kinds of clusters, as people call them."""


def open_cluster(settings: ClusterSettings) -> Cluster:
    """Opens a cluster; its kind checks its own options. Nothing is asked yet."""
    try:
        found: Cluster = load(CLUSTERS, settings.kind)(settings)
    except AndonError as exc:
        raise type(exc)(f"cluster {settings.name}: {exc.reason}", exc.hint) from exc
    return found


def configured_clusters(settings: Settings) -> list[ClusterDesk]:
    """The clusters of the settings, those that were used without one, and the hosts that have jobs
    of this user; each is opened when it is first asked."""
    named = [cluster_desk(one) for one in _tables(settings, filter(was_used, CLUSTERS)).values()]
    return [*named, *(_host(settings, one) for one in hosts_with_jobs())]


def _tables(settings: Settings, kinds: Iterable[str]) -> dict[str, ClusterSettings]:
    """Returns the tables of clusters by name, and empty ones of these kinds."""
    empty = {name: ClusterSettings(name, name) for name in kinds}
    return empty | {one.name: one for one in settings.clusters}


def cluster_desk(one: ClusterSettings) -> ClusterDesk:
    """Returns the desk of a cluster, which is opened when it is first asked. What andon reads on
    its nodes comes from the hub that they report to."""
    opened = cache(partial(open_cluster, one))
    reader = partial(read_nodes, str(one.options.get("hub", "")))
    return ClusterDesk(one.name, one.timeout_seconds, opened, reader)


def find_cluster(settings: Settings, name: str) -> ClusterDesk | None:
    """Returns a cluster, which needs no table where it has no options, or the queue of one host;
    None if there is none."""
    if is_host(name):
        return _host(settings, name)
    one = _tables(settings, CLUSTERS).get(name)
    return None if one is None else cluster_desk(one)


def _host(settings: Settings, name: str) -> ClusterDesk:
    host = f"{HOST}{checked_host(_named(name))}"
    if host.startswith(f"{HOST}@"):
        raise Invalid(f"{host} is a group, and a job is on one host", hint="andon jobs names it")
    return cluster_desk(ClusterSettings(host, SSH, options={"andon": settings.ssh_andon}))


def _named(hosts: str) -> str:
    return hosts if hosts.startswith(f"{SSH}://") else hosts.removeprefix(HOST)


def cluster_named(settings: Settings, name: str) -> ClusterDesk:
    """Returns a configured cluster, or the hosts of `ssh:n17,n18` and `ssh:@lab`."""
    if is_host(name):
        hosts = hosts_of([_named(name)], dict(settings.ssh_groups))
        return HostsDesk(name, [_host(settings, f"{HOST}{one}") for one in hosts])
    if (found := find_cluster(settings, name)) is not None:
        return found
    shown = name if is_cluster_name(name) else ascii(name[:40])
    known = [*CLUSTERS, *(one.name for one in settings.clusters)]
    meant = OTHER_NAMES.get(name.lower()) or next(iter(get_close_matches(name, known, 1)), None)
    hint = f"did you mean {meant}?" if meant else _how_to(settings)
    raise Invalid(f"no cluster is named {shown}", hint=hint)


def _how_to(settings: Settings) -> str:
    local_hint = f"without --on, or with --on {LOCAL}, it runs on this machine"
    if settings.clusters:
        return f"configured: {', '.join(one.name for one in settings.clusters)}; {local_hint}"
    kinds = ", ".join(known_names(CLUSTERS))
    write = 'write [clusters.NAME] with kind = "…" into ~/.config/andon/andon.toml'
    return f"kinds in this installation: {kinds}; for a cluster with options {write}; {local_hint}"


def open_pollers(settings: Settings, everyone: bool) -> list[ClusterPoller]:
    """Returns a running poller for each cluster. Hosts are asked by commands alone: a server has
    no keys of its user's."""
    every = (one for one in configured_clusters(settings) if not is_host(one.name))
    pollers = [ClusterPoller(one, everyone) for one in every]
    for one in pollers:
        one.start()
    return pollers
