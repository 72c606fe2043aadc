"""What a hub knows of cards of the same model on other nodes: `andon check` compares with them."""

from collections.abc import Sequence
from contextlib import suppress

from andon.checks.store import stored_checks
from andon.errors import AndonError
from andon.fleet.sending import read_marks
from andon.host.state.user_folder import node_path
from andon.model.check import CardResult, FleetChecks, card_id, result_of
from andon.model.codec import read_valid
from andon.node.calls import Target
from andon.node.local_server import local_servers
from andon.node.rest import HEALTH, Notify
from andon.node.server import LIMITS, Server, base_url, connect

SECONDS = 10.0


def fleet_checks(
    results: Sequence[CardResult],
    url: str | None,
    token_file: str | None,
    notify: Notify,
) -> Sequence[CardResult]:
    """Returns the last checks of other nodes' cards; none where this node has no hub. One that does
    not answer is named, and the cards are judged without it."""
    models = {one.model for one in results}
    hub = (url or hub_of_this_node()) if models else ""
    if not hub:
        return ()
    try:
        # A token that the environment has is for the server that was named, and for no other.
        found_out = Server(Target(base_url(hub)))
        server = connect(url, token_file, notify) if url else found_out
        server = server.within(LIMITS._replace(timeout_seconds=SECONDS))
        answers = [server.get("/api/checks/fleet", model=model) for model in models]
        found = [one for each in answers for one in read_valid(FleetChecks, each).checks]
    except AndonError as error:
        notify(f"not compared with the fleet: {error.reason}")
        return ()
    own = {card_id(one.uuid) for one in (*results, *stored_checks())}
    return [result_of(one) for one in found if one.card not in own]


def hub_of_this_node() -> str:
    """Returns the hub to which this user's agent reports, or this machine's server; empty if there
    is none."""
    if known := read_marks(node_path()).hub:
        return known.split(",")[0]
    with suppress(AndonError, StopIteration, KeyError, TypeError):
        server = next(local_servers((HEALTH,)))
        found = str(server.get(HEALTH)["hub"]["hub"])
        return found if "://" in found else server.url  # which is the hub itself
    return ""
