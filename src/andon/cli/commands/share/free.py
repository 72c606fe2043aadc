"""`andon free`, `wait` and `env`: what could be had now; they look, and claim nothing."""

import os
import shlex
import time
from typing import TYPE_CHECKING, Any

import click

from andon.cli.commands.watch.status import as_json_text
from andon.cli.device_request import asking, patience, queueing, request_from, surveyor_of
from andon.cli.options import chosen, shared
from andon.cli.show.text import say
from andon.cli.show.waiting import WaitingLine
from andon.cli.sources import sampling_ahead
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import Invalid

if TYPE_CHECKING:
    from andon.engine.sharing.availability import Availability, Candidates
    from andon.model.work import DeviceRequest

LOOK_SECONDS = 1.0
CONFLICT = 6


@click.command()
@asking
@click.option("--json", "as_json", is_flag=True, help="Print every device with the reason.")
@shared
def free(as_json: bool, **asked: Any) -> int:
    """Print which GPUs are available now, and why the others are not.

    This does not reserve anything: another user may take them before you do. The exit code
    is 0 if the request can be met, else 6.
    """
    from andon.engine.sharing.refusal import device_lines

    outlook = _look(chosen(), request_from(asked))
    terminal = Terminal.of(chosen())
    if as_json:
        terminal.show(as_json_text(_as_json(outlook), terminal.live))
        return 0 if outlook.choice.chosen else CONFLICT
    if outlook.snapshot.simulated:
        terminal.say(say("SIMULATED", "reverse"))
    names = [c.obstacle is None for c in outlook.choice.candidates]
    for is_free, line in zip(names, device_lines(outlook), strict=True):
        terminal.say(say("● " if is_free else "○ ", "green" if is_free else "dim") + say(line))
    if outlook.choice.reason and not outlook.choice.chosen:
        terminal.say(say(outlook.choice.reason, "yellow"))
    return 0 if outlook.choice.chosen else CONFLICT


@click.command()
@asking
@queueing
@shared
def wait(**asked: Any) -> int:
    """Wait until GPUs are available (does not reserve them). Exit code 75 after --timeout.

    To wait and reserve in one step, use andon run or andon lease.
    """
    from andon.core.sharing.queueing import NO_TURNS, Turns
    from andon.engine.sharing.availability import BookPages
    from andon.engine.sharing.granter import Progress
    from andon.engine.sharing.refusal import is_hopeless, refusal
    from andon.leases.book import Book

    choices, request = chosen(), request_from(asked)
    seconds, began, line = patience(asked), time.monotonic(), WaitingLine(chosen())
    turns = NO_TURNS.since
    with sampling_ahead(choices) as sampler:
        surveyor = surveyor_of(choices, sampler)
        _refuse_nothing(request)
        try:
            while True:
                sight = surveyor.see()
                pages, now = BookPages.of(Book(make=False)), Turns(time.monotonic(), turns)
                outlook = surveyor.outlook(sight, pages, request, None, time.time(), now)
                turns = outlook.turns
                if outlook.choice.chosen:
                    break
                waited = time.monotonic() - began
                if waited >= seconds or is_hopeless(outlook):
                    raise refusal(outlook, request, waited if 0 < seconds <= waited else None)
                line(Progress(waited, outlook))
                time.sleep(min(LOOK_SECONDS, max(0.0, seconds - waited)))
        finally:
            line.clear()
    indices = ", ".join(str(r.status.device.index) for r in outlook.choice.chosen)
    notice(f"could be had now: GPU {indices}", choices)
    return 0


@click.command()
@asking
@click.option("--lease", "lease_id", metavar="ID", help="Use the devices of your lease.")
@shared
def env(lease_id: str | None, **asked: Any) -> int:
    """Print variables that make a program see these devices alone: eval "$(andon env)"

    With --lease they are those of a lease; without, the best that are available now, and
    nothing is reserved.
    """
    from andon.cli.running import attached
    from andon.core.sharing.launching import environment

    choices, request = chosen(), request_from(asked)
    name = lease_id or os.environ.get("ANDON_LEASE")
    if name:
        with sampling_ahead(choices) as sampler:
            found = attached(name, surveyor_of(choices, sampler).see(), request)
        everyone = [status.device for status in found.snapshot.devices]
        variables = environment(found.devices, everyone, found.lease.id)
    else:
        outlook = _look(choices, request)
        if not outlook.choice.chosen:
            from andon.engine.sharing.refusal import refusal

            raise refusal(outlook, request, None)
        devices = [room.status.device for room in outlook.choice.chosen]
        variables = environment(devices, [s.device for s in outlook.snapshot.devices])
        notice("nothing is claimed; andon lease and andon run do", choices)
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    Terminal.of(choices).show("".join(lines))
    return 0


def _look(choices: Choices, request: "DeviceRequest") -> "Candidates":
    from andon.engine.sharing.availability import BookPages
    from andon.leases.book import Book

    _refuse_nothing(request)
    with sampling_ahead(choices) as sampler:
        surveyor: Availability = surveyor_of(choices, sampler)
        sight = surveyor.see()
        pages = BookPages.of(Book(make=False))
        return surveyor.outlook(sight, pages, request, None, time.time())


def _refuse_nothing(request: "DeviceRequest") -> None:
    if request.most == 0:
        raise Invalid("0 GPUs are always free", hint="andon run --gpus 0 hides them all")


def _as_json(outlook: "Candidates") -> dict[str, Any]:
    return {
        "schema": "andon.free/1",
        "at": outlook.snapshot.at,
        "simulated": outlook.snapshot.simulated,
        "requested": outlook.need.least,
        "available": bool(outlook.choice.chosen),
        "chosen": [room.uuid for room in outlook.choice.chosen],
        "reason": outlook.choice.reason,
        "devices": [
            {
                "uuid": c.uuid,
                "index": c.index,
                "free_bytes": c.free_bytes,
                "utilization_percent": c.utilization_percent,
                "score": None if c.score is None else round(c.score, 4),
                "chosen": c.chosen,
                "code": None if c.obstacle is None else str(c.obstacle.kind),
                "reason": None if c.obstacle is None else c.obstacle.words,
                "until": None if c.obstacle is None else c.obstacle.until,
            }
            for c in outlook.choice.candidates
        ],
    }
