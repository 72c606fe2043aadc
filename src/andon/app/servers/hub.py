"""The parts that only a hub has: its nodes, their alerts, and what keeps them."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from andon.alerts.watcher import Watcher
from andon.app.alerts import open_fleet_watcher
from andon.app.history import maintainer_of, store_kind, store_url
from andon.app.leases import labels_of
from andon.app.messages.digest import Nodes
from andon.app.servers.reloading import SettingsInForce
from andon.errors import AndonError, Conflict, Denied, Unavailable
from andon.fleet.uplink import Uplink
from andon.host.machine_id import node_key, node_name
from andon.node.port import Node
from andon.node.watched.alerts import AlertJudge
from andon.node.watched.node import WatchedNode
from andon.ports import RunIndex
from andon.sampling.sampler import Sampler
from andon.settings.resolution import Settings
from andon.web.fleet.fleet_alerts import FleetAlerts
from andon.web.fleet.hub import Hub
from andon.web.fleet.leader_duties import LeaderDuties
from andon.web.fleet.metrics import FleetMetrics
from andon.web.fleet.nodes import Fleet
from andon.web.fleet.own import OwnLink
from andon.web.listening import ServeOptions, pin_of
from andon.web.transport.keys import Keys


def fleet(settings: Settings, place: ServeOptions, keys: Keys) -> Fleet:
    """The nodes that report here. The named tokens of their store are keys from now on."""
    url = store_url(settings)
    kind: Any = store_kind(url)
    own, notifies = settings.node or node_name(), bool(settings.alerts_notifiers)
    hub = Hub(partial(kind.open_nodes, url), notifies, pin_of(place), own)
    made = Fleet(hub, partial(kind.open_pasts, url), settings.exporter_prefix)
    made.metrics = FleetMetrics(hub, settings.hub_metrics)
    with suppress(Unavailable, Conflict, Denied):  # it may be back later
        hub.nodes()
        made.tokens.refresh()
    keys.named, keys.named_hash = made.tokens.identify, made.tokens.hashed
    keys.named_are_read, made.tokens.ended = lambda: made.tokens.is_read, keys.named_ended
    return made


def fleet_alerts(
    in_force: SettingsInForce, sampler: Sampler, watcher: Watcher, fleet: Fleet
) -> FleetAlerts:
    def opener(*given: Any) -> Watcher:
        return open_fleet_watcher(in_force.settings, *given)

    return FleetAlerts(watcher, sampler.node.name, lambda: fleet.pasts, opener)


def alerts(fleet_alerts: FleetAlerts) -> Iterator[AlertJudge]:
    """The alerts that are shown: this machine's, and those of the nodes while this hub leads."""
    yield fleet_alerts


def leader_duties(settings: Settings, fleet: Fleet, fleet_alerts: FleetAlerts) -> LeaderDuties:
    return LeaderDuties(fleet, fleet_alerts, partial(maintainer_of, settings))


def reported_nodes(fleet: Fleet) -> Iterator[Callable[[], Nodes]]:
    """The nodes that report here, for the digest."""

    def asked(name: str) -> Node | AndonError:
        try:
            return fleet.node(name)
        except AndonError as error:
            return error

    yield lambda: {name: asked(name) for name in fleet.hub.nodes()}


def own_reports(node: WatchedNode, fleet: Fleet, in_force: SettingsInForce) -> Uplink:
    """Reports this machine to the other hubs of the database. It notifies people by itself."""
    labels = lambda: labels_of(in_force.settings)  # noqa: E731
    return Uplink(node, OwnLink(fleet.hub), node_key(), hands_over=False, share_labels=labels)


def everywhere(fleet: Fleet) -> Iterator[Callable[[], RunIndex]]:
    """The runs of all nodes."""
    yield lambda: fleet.pasts.runs(None)
