"""`andon kill`: ends processes, after showing what they are."""

import signal
import sys
from typing import TYPE_CHECKING

import click

from andon.cli.options import chosen, device_option, shared, split_devices
from andon.cli.show.text import styled
from andon.cli.sources import node_of, settings_of
from andon.cli.terminal import Choices, Terminal, ask, notice, report
from andon.errors import AndonError, Gone, Invalid
from andon.kill.rules.plan import (
    ENDING_SIGNALS,
    children_text,
    done,
    instead,
    kill_question,
    line_of,
    not_ended,
    nothing_left,
    offered,
    parse_pids,
    parse_signal,
    question,
)
from andon.model.device import Snapshot
from andon.model.naming import chosen_uuids

if TYPE_CHECKING:
    from andon.kill.ending import Ending

NO_TERMINAL = "andon kill asks first, but standard input is not a terminal"


@click.command()
@click.argument("pids", metavar="[PID]...", nargs=-1)
@device_option("devices", "The processes on these GPUs; needs --mine.")
@click.option("--mine", is_flag=True, help="With --device: only your own processes.")
@click.option(
    "--signal", "-s", "name", default="TERM", metavar="SIGNAL", help="Send this instead of TERM."
)
@click.option("--tree", "-t", is_flag=True, help="Also end every process they started.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@shared
def kill(
    pids: tuple[str, ...], devices: tuple[str, ...], mine: bool, name: str, tree: bool, yes: bool
) -> int:
    """End processes, by pid or by GPU.

    Shows user, age, device memory, command and children of each, asks, and sends SIGTERM. What
    still runs after the setting work.grace (10 s) can then be killed with SIGKILL. The processes
    shown are pinned until then: a new one that gets the same pid is not signalled.

    If a process runs under a lease or a job, that is shown too: releasing the lease or cancelling
    the job ends all of it in order and gives its GPUs back.
    """
    choices, number = chosen(), parse_signal(name)
    wanted = parse_pids(pids)
    named = split_devices(devices)
    _check(bool(wanted), bool(named), mine)
    snapshot = _snapshot(choices, needed=bool(named))
    started: dict[int, float | None] = dict.fromkeys(wanted)
    if named and snapshot is not None:
        started = _mine(choices, snapshot, named)
    from andon.kill.ending import Ending

    with Ending(tuple(started), snapshot, tree=tree, started=started, number=number) as ending:
        for error in ending.refused:
            report(error, choices)
        if not ending.targets:
            return nothing_left(ending.refused).exit_code
        if not yes and not sys.stdin.isatty():
            raise Invalid(NO_TERMINAL, hint="use --yes")
        failed = _end(ending, number, yes, choices)
    codes = [error.exit_code for error in (*ending.refused, *failed)]
    return codes[0] if codes else 0


def _check(pids: bool, devices: bool, mine: bool) -> None:
    if pids and (devices or mine):
        raise click.UsageError("name pids, or --device with --mine, not both")
    if devices and not mine:
        raise click.UsageError("--device needs --mine; name other users' processes by their pids")
    if not pids and not devices:
        raise click.UsageError("which process? andon kill PID, or andon kill --device 3 --mine")


def _snapshot(choices: Choices, needed: bool) -> Snapshot | None:
    """Returns a snapshot of the devices; a pid can be ended without one."""
    try:
        snapshot = node_of(choices).live.read()
    except AndonError as exc:
        if needed:
            raise
        notice(f"device memory is not known: {exc.reason}", choices)
        return None
    if needed and ("replay" in snapshot.versions or _simulated(snapshot)):
        raise Invalid(
            "simulated and recorded processes cannot be ended", hint="leave out --simulate"
        )
    return snapshot


def _simulated(snapshot: Snapshot) -> bool:
    return any(status.device.vendor == "sim" for status in snapshot.devices)


def _mine(choices: Choices, snapshot: Snapshot, named: list[str]) -> dict[int, float | None]:
    from andon.kill.ending import mine_on

    uuids = chosen_uuids(snapshot, named)
    found = mine_on(snapshot, uuids)
    if not found:
        on = [p for s in snapshot.devices if s.device.uuid in uuids for p in s.processes]
        others = f"; {len(on)} of others do" * bool(on)
        raise Gone(f"no process of yours uses GPU {', '.join(named)}{others}", hint="see andon ps")
    return found


def _end(
    ending: "Ending", number: signal.Signals, yes: bool, choices: Choices
) -> tuple[AndonError, ...]:
    """Shows the processes, asks, signals and waits; returns the errors."""
    from andon.kill.ending import end_whole

    terminal = Terminal.of(choices)
    _show(ending, terminal)
    answer = "y" if yes else _answer(ending, number)
    whole = offered(ending.targets)
    if whole is not None and answer == whole.key:
        terminal.print(styled(end_whole(whole)))
        return ()
    if answer != "y":
        notice("nothing was ended", choices)
        return ()
    failed, grace = ending.send(number), settings_of(choices).work_grace_seconds
    left = ending.still_running(grace) if number.name in ENDING_SIGNALS else ()
    if left and not yes and number.name != "SIGKILL" and _yes(kill_question(left, grace)):
        number = parse_signal("KILL")
        failed += ending.send(number)
        left = ending.still_running(grace)
    failed += (not_ended(left, number),) if left else ()
    for error in failed:
        report(error, choices)
    if not failed:
        terminal.print(styled(done(ending.targets, number)))
    return failed


def _show(ending: "Ending", terminal: Terminal) -> None:
    for target in ending.targets:
        terminal.print(styled(line_of(target)).fit(terminal.width))
        if not ending.tree and (below := children_text(target)):
            terminal.print(styled(below, "dim"))
    for text, command in dict.fromkeys(filter(None, map(instead, ending.targets))):
        terminal.print(styled(f"{text}; to end all of it: {command}", "yellow"))


def _answer(ending: "Ending", number: signal.Signals) -> str:
    """The first letter: `y`, or that of the job or lease to end instead; anything else means no."""
    whole = offered(ending.targets)
    shown = "[y/N]" if whole is None else f"[y/N/{whole.key}: {whole} instead]"
    return ask(f"{question(ending.targets, number)} {shown} ")


def _yes(text: str) -> bool:
    return ask(f"{text} [y/N] ") == "y"
