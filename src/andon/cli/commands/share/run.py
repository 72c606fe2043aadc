"""`andon run`: waits for devices, reserves them, runs a command, and records what it used."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from andon.cli.commands.completing import complete_command
from andon.cli.commands.jobs.clusters import on_options, target_of
from andon.cli.commands.share.container_options import (
    contained,
    container_from,
    container_options,
)
from andon.cli.device_request import (
    bind_option,
    for_option,
    lease_option,
    queue_options,
    refuse_bind,
    request_options,
    request_to_take,
    wait_seconds,
)
from andon.cli.options import chosen, shared, whole
from andon.cli.show.waiting import WaitingLine
from andon.cli.sources import availability_of, sampling_ahead
from andon.cli.terminal import Choices, notice, report
from andon.errors import AndonError, Conflict, Invalid, Unavailable

if TYPE_CHECKING:
    from andon.cli.work_session import Running
    from andon.jobs.clusters.asking import OpenCluster
    from andon.runs.rules.oom import Verdict
    from andon.work.containers.running import ContainedCommand

OURS = 125
OOM_HINT = ". Try a larger --memory, or --retry-oom 1"


class AndonUsageError(click.UsageError):
    """A usage error of our own, as distinct from a command that exits with 2."""

    exit_code = OURS


class RunCommand(click.Command):
    """A command whose usage errors exit with 125, like those of `env` and `docker run`."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as mistake:
            raise AndonUsageError(mistake.format_message(), mistake.ctx) from mistake


@click.command(
    cls=RunCommand,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@request_options
@queue_options
@for_option("Stop the command after this time: 2h.")
@bind_option
@lease_option
@click.option(
    "--retry-oom",
    type=whole,
    metavar="N",
    help="On GPU out-of-memory, retry up to N times with more.",
)
@click.option("--name", metavar="NAME", help="Name of the run record [default: the command's].")
@click.option(
    "--telemetry-dir", metavar="DIR", help="Folder of the run record [default: the state folder]."
)
@click.option("--csv", "as_csv", is_flag=True, help="Also write the samples as CSV next to it.")
@on_options
@container_options
@click.argument(
    "command", nargs=-1, type=click.UNPROCESSED, required=True, shell_complete=complete_command
)
@shared
def run(
    command: tuple[str, ...],
    length: float | None,
    lease_id: str | None,
    retry_oom: int | None,
    name: str | None,
    telemetry_dir: str | None,
    as_csv: bool,
    bind: bool,
    **asked: Any,
) -> int:
    """Run a command on reserved GPUs: andon run --gpus 2 -- python train.py

    Waits for them if necessary, sets the environment so that the command sees only these, and
    releases them when it ends. At the end one line on standard error says what it used and how to
    read more; -q leaves it out. The exit code is the command's; 125 means that andon itself
    failed, 126 and 127 that the command could not be started.
    """
    choices = chosen()
    try:
        from andon.work.preparing import CannotStart, find

        try:
            asked["lease_id"] = lease_id
            target = target_of(choices, asked)
            if target is not None:
                return _run_there(choices, target, command, name, length, asked)
            image = container_from(asked)
            refuse_bind(bind, image)
            if image is None:
                find(command)
            inside = contained(image, command)
            folder = None if telemetry_dir is None else Path(telemetry_dir)
            kept = (name, folder, as_csv)
            return _run(
                choices, command, length, lease_id, retry_oom or 0, kept, bind, asked, inside
            )
        except CannotStart as error:
            report(error)
            return error.code
    except AndonError as error:
        report(error)
        return OURS


def _run_there(
    choices: Choices,
    cluster: "OpenCluster",
    command: Sequence[str],
    name: str | None,
    length: float | None,
    asked: dict[str, Any],
) -> int:
    """Runs the command on a cluster, with its output and exit code here."""
    from andon.cli.commands.jobs.elsewhere import run_there, submission_of
    from andon.jobs.submitting import here_spec
    from andon.work.containers.rules.options import options_to_json

    if asked["lease_id"]:
        raise Invalid("a lease is on this machine", hint="leave out --lease or --on")
    image = container_from(asked)
    spec = here_spec(
        command,
        request_to_take(asked, choices),
        name=(name or "")[:200],
        for_seconds=length,
        container={} if image is None else options_to_json(image),
    )
    return run_there(choices, cluster, submission_of(cluster, spec, asked["engine_options"]))


def _run(
    choices: Choices,
    command: Sequence[str],
    length: float | None,
    lease_id: str | None,
    retries: int,
    kept: tuple[str | None, Path | None, bool],
    bind: bool,
    asked: dict[str, Any],
    inside: "ContainedCommand | None",
) -> int:
    request = request_to_take(asked, choices)
    if request.most == 0:
        return _without_device(command, inside)
    with sampling_ahead(choices) as sampler:
        if bind:
            sampler.ask_places()
        from andon.cli.work_session import RecordOptions, Running, attached

        availability = availability_of(choices, sampler)
        running = Running(
            choices, command, sampler, RecordOptions(*kept), contained=inside, bind=bind
        )
        lease = lease_id or os.environ.get("ANDON_LEASE")
        if lease:
            return _ended(running.on_lease(attached(lease, availability.view(), request)), choices)
        return _granted(
            running, availability, request, wait_seconds(asked), length, retries, choices
        )


def _granted(
    running: "Running",
    availability: Any,
    request: Any,
    timeout_seconds: float,
    seconds: float | None,
    retries: int,
    choices: Choices,
) -> int:
    from andon.leases.book.lease_book import Book
    from andon.leases.granter import Granter, LeaseTerms
    from andon.leases.rules.larger import larger_request
    from andon.model.run.record import RunState

    before: tuple[int, Verdict] | None = None
    while True:
        line = WaitingLine(choices)
        try:
            terms = LeaseTerms(command=running.words, seconds=seconds)
            grant = Granter(Book(), availability).grant(request, terms, timeout_seconds, line)
        except (Conflict, Unavailable) as error:
            if before is None:
                raise
            return _not_retried(before, error, choices)
        finally:
            line.clear()
        before = running.on_grant(grant)
        verdict = before[1]
        if verdict.end is not RunState.DEVICE_OUT_OF_MEMORY or retries < 1:
            return _ended(before, choices, OOM_HINT)
        retries -= 1
        had = [capacity.free_bytes or 0 for capacity in grant.candidates.choice.chosen]
        devices = grant.candidates.snapshot.devices
        try:
            request = larger_request(request, min(had), devices, availability.labels)
        except Unavailable as error:
            return _not_retried(before, error, choices)
        notice(f"{verdict.words}: retrying with more memory", choices)


def _not_retried(before: "tuple[int, Verdict]", error: AndonError, choices: Choices) -> int:
    """Reports that the command is not retried; returns the exit code of the attempt that ran."""
    why = f" ({error.mistakes[0]})" if error.mistakes else ""
    hint = f"; {error.hint}" if error.hint else ""
    notice(f"cannot retry with more memory: {error.reason}{why}{hint}", choices)
    return _ended(before, choices)


def _ended(result: "tuple[int, Verdict]", choices: Choices, oom_hint: str = "") -> int:
    from andon.model.run.record import RunState

    code, verdict = result
    if verdict.end not in (RunState.SUCCEEDED, RunState.FAILED, RunState.STOPPED):
        hint = oom_hint if verdict.end is RunState.DEVICE_OUT_OF_MEMORY else ""
        notice(verdict.words + hint, choices)
    return code


def _without_device(command: Sequence[str], inside: "ContainedCommand | None") -> int:
    """Runs the command with an empty mask and no lease: nothing to wait for, nothing to record."""
    from andon.leases.rules.environment import NO_DEVICE
    from andon.work.launcher import Launcher

    if inside is not None:
        return _container_without_device(inside)
    launcher = Launcher(command, {**os.environ, **NO_DEVICE})
    return launcher.run(lambda: None, notice).code


def _container_without_device(inside: "ContainedCommand") -> int:
    from andon.model.execution import UNLEASED
    from andon.work.containers.running import follow_container
    from andon.work.launcher import Launcher

    inside.create(f"{UNLEASED}{os.urandom(4).hex()}", (), {}, lambda identity: None)
    end, _ = follow_container(
        inside,
        lambda client: Launcher(client, os.environ, elsewhere=inside.send).run(
            lambda: None, notice
        ),
    )
    return end.code
