"""What an andon hub knows of the cluster's nodes."""

from collections.abc import Mapping

from andon.clusters.kubernetes.rules.rooms import NodeLook
from andon.errors import AndonError, Invalid
from andon.fleet.rules.states import NodeRow, list_from_json
from andon.node.server import connect, own_server


def hub_looks(url: str, seconds: float) -> Mapping[str, NodeLook]:
    """Returns the readings of nodes by name; none if there is no hub, or it does not answer."""
    try:
        server = connect(url, None, lambda _: None) if url else own_server()
        if server is None:
            return {}
        return {row.name: look_of(row) for row in list_from_json(server.get("/api/nodes")).nodes}
    except (AndonError, Invalid):
        return {}


def look_of(row: NodeRow) -> NodeLook:
    models = list(row.models)
    return NodeLook(
        row.age_seconds or 0.0,
        row.utilization_percent,
        row.memory_percent,
        None,
        models[0] if len(models) == 1 else None,
        row.idle,
        trouble=row.reason if row.heard else None,
    )
