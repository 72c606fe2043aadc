"""`andon free`, `wait` and `env`: which devices are available now; they lease nothing."""

import os
import time
from collections.abc import Mapping
from typing import Any

import click

from andon.cli.device_request import (
    for_option,
    lease_option,
    queue_options,
    request_devices,
    request_from,
    request_options,
    wait_seconds,
)
from andon.cli.options import chosen, elsewhere, fresh_option, shared
from andon.cli.show.offer import offer_to_json, render_offer
from andon.cli.show.waiting import WaitingLine
from andon.cli.sources import (
    WAITED_SECONDS,
    availability_of,
    node_of,
    notify_given_back,
    notify_turn,
    sampling_ahead,
    settings_of,
)
from andon.cli.terminal import Terminal, notice
from andon.errors import Invalid
from andon.leases.book.lease_book import Book
from andon.leases.refusal import chosen_title, is_hopeless, refusal
from andon.leases.rules.queue import Place, TurnTimes
from andon.model.job.device_request import DeviceRequest
from andon.units import sh

POLL_SECONDS = 1.0
NOT_AVAILABLE = 1


@click.command()
@request_devices
@request_options
@click.option("--at", "moment", metavar="TIME", help="At a time to come: 2h, 'Fri 20:00'.")
@click.option("--next", "is_next", is_flag=True, help="When the request can next be met.")
@for_option("With --next: free for at least so long.")
@click.option("--json", "as_json", is_flag=True, help="Print andon.free/1: why, for every device.")
@fresh_option
@elsewhere
@shared
def free(
    moment: str | None, is_next: bool, length: float | None, as_json: bool, **options: Any
) -> int:
    """Print which GPUs are free to use now, and why the others are not.

    With --gpus 2 the first line answers yes or no. This leases nothing: another user
    may take them before you do. --at and --next answer for a time to come, by the ends of leases
    and by what is reserved. A hub answers for all its nodes, best first. The exit code is 0 if the
    request can be met, 1 if not now, and 3 if this machine never can or no GPU can be read.
    """
    choices, request = chosen(), request_from(options)
    _refuse_nothing(request)
    if moment is not None or is_next or length is not None:
        from andon.cli.commands.share.free_later import free_later

        return free_later(choices, request, moment, is_next, length, as_json)
    if choices.url is not None:
        from andon.cli.commands.fleet.fleet_free import free_in_fleet

        if (code := free_in_fleet(choices, request, as_json)) is not None:
            return code
    notify_given_back(choices)
    found = node_of(choices).leases.offer(request)
    terminal = Terminal.of(choices)
    if as_json:
        terminal.show_json(offer_to_json(found))
    else:
        wants_more = _is_given("gpus") or _is_given("memory")
        terminal.print(*render_offer(found, wants_more, terminal.width))
    return 0 if found.available else NOT_AVAILABLE


def _is_given(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source is click.core.ParameterSource.COMMANDLINE


@click.command()
@request_devices
@request_options
@queue_options
@click.option("--notify", is_flag=True, help="Send a message when they are available.")
@shared
def wait(notify: bool, **options: Any) -> int:
    """Wait until GPUs are available (does not lease them). Exit code 75 after --timeout.

    To wait and lease in one step, use andon run or andon lease.
    """
    from andon.leases.granter import Progress

    choices, request = chosen(), request_from(options)
    seconds, began, line = wait_seconds(options), time.monotonic(), WaitingLine(chosen())
    turns: Mapping[Place, float] = {}
    lacked = False
    with sampling_ahead(choices) as sampler:
        availability = availability_of(choices, sampler)
        _refuse_nothing(request)
        try:
            while True:
                now = TurnTimes(time.monotonic(), turns) if seconds > 0 else None
                candidates = availability.offer(Book(make=False), request, now)
                turns = candidates.turns
                if candidates.choice.chosen:
                    break
                waited = time.monotonic() - began
                vain = is_hopeless(candidates) or (lacked and candidates.lacks_memory)
                if waited >= seconds or vain:
                    raise refusal(candidates, request, waited if 0 < seconds <= waited else None)
                lacked = candidates.lacks_memory
                line(Progress(waited, candidates, queued=False))
                time.sleep(min(POLL_SECONDS, max(0.0, seconds - waited)))
        finally:
            line.clear()
    title = chosen_title(candidates)
    notice(f"available now: {title}", choices)
    waited = time.monotonic() - began
    if notify or (waited > WAITED_SECONDS and settings_of(choices).notify_me_turn):
        notify_turn(choices, title)
    return 0


@click.command()
@request_devices
@request_options
@lease_option
@shared
def env(lease_id: str | None, **options: Any) -> int:
    """Print variables that make a program see only these devices: eval "$(andon env)"

    With --lease they select a lease's devices; without, the best available now, which are not
    leased.
    """
    from andon.leases.placement import on_lease
    from andon.leases.rules.environment import environment

    choices, request = chosen(), request_from(options)
    name = lease_id or os.environ.get("ANDON_LEASE")
    if name:
        with sampling_ahead(choices) as sampler:
            found = on_lease(name, availability_of(choices, sampler).view(), request)
        variables = found.environment
    else:
        _refuse_nothing(request)

        with sampling_ahead(choices) as sampler:
            candidates = availability_of(choices, sampler).offer(Book(make=False), request)
        if not candidates.choice.chosen:
            raise refusal(candidates, request, None)
        devices = [capacity.status.device for capacity in candidates.choice.chosen]
        variables = environment(devices, [s.device for s in candidates.snapshot.devices])
        notice("this does not lease the GPU; use andon run or andon lease", choices)
    lines = [f"export {name}={sh(value)}\n" for name, value in variables.items()]
    Terminal.of(choices).show("".join(lines))
    return 0


def _refuse_nothing(request: DeviceRequest) -> None:
    if request.most == 0:
        raise Invalid("0 GPUs are always available", hint="to hide all GPUs: andon run --gpus 0")
