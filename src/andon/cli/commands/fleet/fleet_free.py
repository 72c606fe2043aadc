"""`andon free --url HUB`: which nodes of a hub have free devices for a request."""

from collections.abc import Sequence
from functools import partial

from andon.cli.node_answers import NodeAnswer, NodeTable, free_text, summary
from andon.cli.show.text import styled
from andon.cli.terminal import Choices, Terminal
from andon.errors import Unavailable
from andon.fleet.rules.states import (
    FleetOffer,
    NodeList,
    NodeRow,
    fitting,
    free_of,
    most_devices,
    offers,
)
from andon.leases.rules.eligibility import request_text
from andon.model.codec import read_document
from andon.model.job.device_request import DeviceRequest
from andon.model.shapes import to_json
from andon.node.server import connect
from andon.units import and_more, human_bytes, shell_line

SCHEMA = "andon.free_nodes/1"
NOT_AVAILABLE = 1
MOST_NAMED = 5


def free_in_fleet(choices: Choices, request: DeviceRequest, as_json: bool) -> int | None:
    """Prints the answer of a hub's nodes; returns the exit code, or None if it is not a hub."""
    if choices.url is None or choices.node_name is not None or choices.url.startswith("ssh:"):
        return None
    server = connect(choices.url, choices.token_file, lambda _: None)
    listed = server.get_as("/api/nodes", partial(read_document, NodeList))
    if not listed.hub:
        return None
    if not any(row.heard and row.gpus for row in listed.nodes):
        raise Unavailable("no node of this hub reports a GPU now", hint="see why: andon nodes")
    found = offers(listed.nodes, request.least, request.models, request.memory_bytes)
    text, terminal = request_text(request), Terminal.of(choices)
    if (most := most_devices(listed.nodes, request.models)) < request.least:
        why = f"{text} requested, one node has {most} at most"
        raise Unavailable(why, hint="which nodes have which GPUs: andon nodes")
    some = fitting(listed.nodes, request.models, request.memory_bytes)
    unknown = [row for row in listed.nodes if row.heard and row.gpus and row.offered is None]
    if unknown and not some:
        raise _not_known(unknown)
    if as_json:
        value = {
            "schema": SCHEMA,
            "at": listed.at,
            "requested": request.least,
            "available": bool(found),
            "nodes": to_json(found),
        }
        terminal.show_json(value)
        return 0 if found else NOT_AVAILABLE
    table = NodeTable([one.node for one in found], "text", terminal, "node")
    for place, one in enumerate(found):
        table.add(place, NodeAnswer(one.node, text=_offer_text(one)))
    if found:
        terminal.print(styled(f"on {found[0].node}: {_command_to_run(request)}"))
    else:
        most = max((len(one.labels) for one in some), default=0)
        terminal.print(
            styled("no: ", "bold yellow")
            + styled(f"{text} requested, one node has {most} free at most")
        )
    rows = [NodeAnswer(row.name, free=free_of(row), current=row.heard) for row in listed.nodes]
    terminal.print(styled(summary(rows, "node"), "dim"))
    return 0 if found else NOT_AVAILABLE


def _not_known(rows: Sequence[NodeRow]) -> Unavailable:
    """Returns the error for nodes that do not report which of their devices are free."""
    names = ", ".join(row.name for row in rows[:MOST_NAMED]) + and_more(len(rows) - MOST_NAMED)
    reason = rows[0].allocated_reason
    return Unavailable(f"it is not known which GPUs are free on {names}", hint=reason or "")


def _offer_text(offer: FleetOffer) -> str:
    least = " at least" if len(offer.labels) > 1 else ""
    mark = ", SIMULATED" if offer.simulated else ""
    return free_text(offer.labels, f"{human_bytes(offer.free_bytes)}{least}, {offer.model}{mark}")


def _command_to_run(request: DeviceRequest) -> str:
    """Returns the command that takes such devices."""
    argv = ["andon", "run", "--gpus", str(request.least)]
    argv += [word for model in request.models for word in ("--model", model)]
    if request.memory_bytes is not None:
        argv += ["--memory", f"{-(-request.memory_bytes >> 20)}MiB"]
    return f"{shell_line(*argv)} -- COMMAND"
