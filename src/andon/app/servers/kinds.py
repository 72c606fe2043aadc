"""The kinds of servers: they differ in these lists of parts alone."""

from andon.app import parts
from andon.app.servers import door, node, web
from andon.app.servers.devices import DEVICES
from andon.app.servers.door import DOOR
from andon.app.servers.node import WATCHING
from andon.app.servers.web import WEB

Parts = tuple[parts.Part, ...]

ACCOUNTS = (
    door.sign_in,
    web.rest_socket,
    web.usage_meter,
    web.users,
    web.exports,
    web.dispatcher_guard,
)
"""For the people of this machine, and of its own files."""
PLAIN = (*DOOR, *DEVICES, node.distinct_names, *WATCHING, *WEB, *ACCOUNTS)


def hub() -> Parts:
    from andon.app.servers import hub

    shown = parts.instead(WATCHING, hub.alerts)
    return (
        *DOOR, *DEVICES, node.distinct_names, hub.fleet, *shown, hub.fleet_alerts,
        hub.leader_duties, hub.everywhere, hub.reported_nodes, *WEB, *ACCOUNTS, hub.own_reports,
    )  # fmt: skip


def with_hub(server: Parts) -> Parts:
    """A server, or a hub, that reports to another one: --hub."""
    from andon.app import uplink

    return (*server, uplink.past, uplink.uplink)


def demo() -> Parts:
    from andon.app.servers import demo

    return (
        *DOOR, demo.demo_user, demo.simulation, *parts.instead(DEVICES, demo.sampler),
        node.distinct_names, demo.open_book, *WATCHING, door.sign_in, demo.users, demo.demo_runs,
        demo.open_finder, demo.desk, *WEB, demo.code,
    )  # fmt: skip
