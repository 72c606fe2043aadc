"""`andon free --url HUB`: which nodes of a hub have free devices for a request."""

from andon.cli.json_text import as_json_text
from andon.cli.show.text import say
from andon.cli.terminal import Choices, Terminal
from andon.errors import Invalid, Unavailable
from andon.fleet.rules.states import fitting, list_from_json, most_devices, offers
from andon.leases.rules.offer import requested_words
from andon.model.job.device_request import DeviceRequest
from andon.model.shapes import to_json
from andon.node.server import connect

SCHEMA = "andon.free_nodes/1"
NOT_AVAILABLE = 1


def free_in_fleet(choices: Choices, request: DeviceRequest, as_json: bool) -> int | None:
    """Prints the answer of a hub's nodes; returns the exit code, or None if it is not a hub."""
    if choices.url is None or choices.node_name is not None or "://" not in choices.url:
        return None
    server = connect(choices.url, choices.token_file, lambda _: None)
    try:
        listed = list_from_json(server.get("/api/nodes"))
    except Invalid as exc:
        raise server.of_another_version(exc.reason) from exc
    if not listed.hub:
        return None
    if request.devices or request.exclude or request.shared or request.labels or request.prefer:
        hint = "name the node as well: --node NAME"
        raise Invalid("a hub answers --gpus, --memory and --model", hint=hint)
    if not any(row.heard and row.gpus for row in listed.nodes):
        raise Unavailable("no node of this hub reports a GPU now", hint="see why: andon nodes")
    found = offers(listed.nodes, request.least, request.models, request.memory_bytes)
    words, terminal = requested_words(request), Terminal.of(choices)
    if (most := most_devices(listed.nodes, request.models)) < request.least:
        why = f"{words} requested, one node has {most} at most"
        raise Unavailable(why, hint="which nodes have which GPUs: andon nodes")
    if as_json:
        value = {
            "schema": SCHEMA,
            "at": listed.at,
            "requested": request.least,
            "available": bool(found),
            "nodes": to_json(found),
        }
        terminal.show(as_json_text(value, terminal.live))
    elif found:
        terminal.say(say(" · ".join(one.words for one in found)))
    else:
        some = fitting(listed.nodes, request.models, request.memory_bytes)
        most = max((len(one.labels) for one in some), default=0)
        terminal.say(
            say("no: ", "bold yellow") + say(f"{words} requested, one node has {most} free at most")
        )
    return 0 if found else NOT_AVAILABLE
