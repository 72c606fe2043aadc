"""A hub's own machine as one of its nodes, so that every hub of one database lists the same."""

import time

from andon.fleet.rules.heartbeat import read_heartbeat
from andon.fleet.rules.nodes import FleetNode, own_token
from andon.model.wire import Json
from andon.web.fleet.hub import Hub


class OwnLink:
    """Takes this machine's reports without a network. Its history is in the same database, so
    nothing of the past is sent."""

    url = "this hub"

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def send(self, path: str, body: bytes) -> Json:
        """Stores a heartbeat, except of a machine without GPUs, which is not listed."""
        hub, at = self._hub, time.time()
        beat, digest = read_heartbeat(body, hub.own, at)
        known = hub.nodes().get(hub.own)
        if digest.gpus or known is not None:
            known = known or FleetNode(hub.own, own_token(hub.own), at)
            hub.keep(known)
            hub.store.take([beat])
            hub.hear(beat, digest)
        return {"at": at, "drained": known is not None and known.drained}

    def close(self) -> None:
        """Does nothing: the hub closes its store."""
