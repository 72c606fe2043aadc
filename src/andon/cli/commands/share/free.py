"""`andon free`, `wait` and `env`: which devices are available now; they reserve nothing."""

import os
import shlex
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from andon.cli.commands.watch.status import as_json_text
from andon.cli.device_request import (
    availability_of,
    queue_options,
    request_from,
    request_options,
    wait_seconds,
)
from andon.cli.options import chosen, shared
from andon.cli.show.text import say
from andon.cli.show.waiting import WaitingLine
from andon.cli.sources import sampling_ahead
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import Invalid

if TYPE_CHECKING:
    from andon.engine.sharing.availability import Candidates
    from andon.model.work import DeviceRequest

POLL_SECONDS = 1.0
CONFLICT = 6


@click.command()
@request_options
@click.option("--json", "as_json", is_flag=True, help="Print every device with the reason.")
@shared
def free(as_json: bool, **asked: Any) -> int:
    """Print which GPUs are available now, and why the others are not.

    This does not reserve anything: another user may take them before you do. The exit code
    is 0 if the request can be met, else 6.
    """
    from andon.engine.sharing.refusal import device_lines

    candidates = _candidates(chosen(), request_from(asked))
    terminal = Terminal.of(chosen())
    if as_json:
        terminal.show(as_json_text(_as_json(candidates), terminal.live))
        return 0 if candidates.choice.chosen else CONFLICT
    if candidates.snapshot.simulated:
        terminal.say(say("SIMULATED", "reverse"))
    names = [c.obstacle is None for c in candidates.choice.candidates]
    for is_free, line in zip(names, device_lines(candidates), strict=True):
        terminal.say(say("● " if is_free else "○ ", "green" if is_free else "dim") + say(line))
    if candidates.choice.reason and not candidates.choice.chosen:
        terminal.say(say(candidates.choice.reason, "yellow"))
    return 0 if candidates.choice.chosen else CONFLICT


@click.command()
@request_options
@queue_options
@shared
def wait(**asked: Any) -> int:
    """Wait until GPUs are available (does not reserve them). Exit code 75 after --timeout.

    To wait and reserve in one step, use andon run or andon lease.
    """
    from andon.core.sharing.queueing import Place, Turns
    from andon.engine.sharing.granter import Progress
    from andon.engine.sharing.refusal import chosen_title, is_hopeless, refusal
    from andon.leases.book import Book

    choices, request = chosen(), request_from(asked)
    seconds, began, line = wait_seconds(asked), time.monotonic(), WaitingLine(chosen())
    turns: Mapping[Place, float] = {}
    with sampling_ahead(choices) as sampler:
        availability = availability_of(choices, sampler)
        _refuse_nothing(request)
        try:
            while True:
                now = Turns(time.monotonic(), turns) if seconds > 0 else None
                candidates = availability.offer(Book(make=False), request, now)
                turns = candidates.turns
                if candidates.choice.chosen:
                    break
                waited = time.monotonic() - began
                if waited >= seconds or is_hopeless(candidates):
                    raise refusal(candidates, request, waited if 0 < seconds <= waited else None)
                line(Progress(waited, candidates))
                time.sleep(min(POLL_SECONDS, max(0.0, seconds - waited)))
        finally:
            line.clear()
    notice(f"available now: {chosen_title(candidates)}", choices)
    return 0


@click.command()
@request_options
@click.option("--lease", "lease_id", metavar="ID", help="Use the devices of your lease.")
@shared
def env(lease_id: str | None, **asked: Any) -> int:
    """Print variables that make a program see only these devices: eval "$(andon env)"

    With --lease they select a lease's devices; without, the best available now, which are not
    reserved.
    """
    from andon.cli.running import attached
    from andon.core.sharing.launching import environment

    choices, request = chosen(), request_from(asked)
    name = lease_id or os.environ.get("ANDON_LEASE")
    if name:
        with sampling_ahead(choices) as sampler:
            found = attached(name, availability_of(choices, sampler).view(), request)
        everyone = [status.device for status in found.snapshot.devices]
        variables = environment(found.devices, everyone, found.lease.id)
    else:
        candidates = _candidates(choices, request)
        if not candidates.choice.chosen:
            from andon.engine.sharing.refusal import refusal

            raise refusal(candidates, request, None)
        devices = [capacity.status.device for capacity in candidates.choice.chosen]
        variables = environment(devices, [s.device for s in candidates.snapshot.devices])
        notice("this does not reserve the GPU; use andon run or andon lease", choices)
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    Terminal.of(choices).show("".join(lines))
    return 0


def _candidates(choices: Choices, request: "DeviceRequest") -> "Candidates":
    from andon.leases.book import Book

    _refuse_nothing(request)
    with sampling_ahead(choices) as sampler:
        return availability_of(choices, sampler).offer(Book(make=False), request)


def _refuse_nothing(request: "DeviceRequest") -> None:
    if request.most == 0:
        raise Invalid("0 GPUs are always available", hint="to hide all GPUs: andon run --gpus 0")


def _as_json(candidates: "Candidates") -> dict[str, Any]:
    from andon.model.verdict import verdict_to_json

    return {
        "schema": "andon.free/1",
        "at": candidates.snapshot.at,
        "simulated": candidates.snapshot.simulated,
        "requested": candidates.need.least,
        "available": bool(candidates.choice.chosen),
        "chosen": [capacity.uuid for capacity in candidates.choice.chosen],
        "reason": candidates.choice.reason,
        "devices": [
            {
                **verdict_to_json(verdict),
                "free_bytes": c.free_bytes,
                "utilization_percent": c.utilization_percent,
                "score": None if c.score is None else round(c.score, 4),
                "chosen": c.chosen,
            }
            for c, verdict in zip(candidates.choice.candidates, candidates.verdicts, strict=True)
        ],
    }
