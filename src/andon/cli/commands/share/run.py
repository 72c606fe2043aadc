"""`andon run`: waits for devices, leases them, runs a command, and records what it used."""

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from andon.cli.commands.completing import complete_command
from andon.cli.commands.jobs.on import (
    desk_of,
    on_options,
    per_gpu_option,
    sync_option,
    synced,
)
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
from andon.cli.sources import (
    availability_of,
    recording_of,
    sampling_ahead,
    settings_of,
    take,
)
from andon.cli.terminal import Choices, notice, report
from andon.errors import AndonError, Conflict, Invalid, Unavailable
from andon.host.state.user_folder import runs_folder
from andon.leases.availability import Availability
from andon.leases.granter import LeaseTerms
from andon.leases.placement import Grant, on_lease
from andon.leases.rules.environment import NO_DEVICE
from andon.leases.rules.larger import larger_request
from andon.model.execution import UNLEASED
from andon.model.job.device_request import DeviceRequest
from andon.model.run.record import RunBegin, RunState
from andon.model.shapes import to_json
from andon.runs.rules.oom import Verdict
from andon.units import command_name
from andon.work.launcher import Launcher
from andon.work.preparing import CannotStart, find
from andon.work.session import CommandWork

if TYPE_CHECKING:
    from andon.cli.csv_copy import CsvCopy
    from andon.jobs.clusters.desk import ClusterDesk
    from andon.sampling.sampler import Sampler
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
@click.option(
    "--notify",
    type=click.Choice(["end", "fail"]),
    help="Send a message at the end, or if it fails",
)
@click.option("--check", is_flag=True, help="Check its GPUs first, for two seconds.")
@click.option("--nsys", is_flag=True, help="Profile it with Nsight Systems.")
@click.option(
    "--nsys-option", "nsys_options", multiple=True, metavar="OPT", help="For nsys: --trace=cuda."
)
@on_options
@per_gpu_option
@sync_option
@container_options
@click.argument(
    "command", nargs=-1, type=click.UNPROCESSED, required=True, shell_complete=complete_command
)
@shared
def run(command: tuple[str, ...], **options: Any) -> int:
    """Run a command on leased GPUs: andon run --gpus 2 -- python train.py

    Waits for them if necessary, sets the environment so that the command sees only these, and
    releases them when it ends. At the end one line on standard error says what it used and how to
    read more; -q leaves it out. The exit code is the command's; 125 means that andon itself
    failed, 126 and 127 that the command could not be started.
    """
    choices = chosen()
    try:
        try:
            cluster = desk_of(choices, options, lambda: None)
            if cluster is not None:
                return _run_on(choices, cluster, command, options)
            image, bind = container_from(options), options.pop("bind")
            refuse_bind(bind, image)
            if image is None:
                find(command)
            elif options["nsys"]:
                raise Invalid("--nsys is for commands on this machine", hint="leave out --image")
            began, inside = time.monotonic(), contained(image, command)
            code = _run(choices, command, bind, inside, options)
            _notify(choices, command, options, code, time.monotonic() - began)
            return code
        except CannotStart as error:
            report(error)
            return error.code
    except AndonError as error:
        report(error)
        return OURS


def _notify(
    choices: Choices, command: Sequence[str], options: dict[str, Any], code: int, seconds: float
) -> None:
    """Sends a message about the end of the command, if one is wanted."""
    when = options["notify"] or settings_of(choices).notify_me_jobs
    if when == "end" or (when == "fail" and code != 0):
        from andon.app.messages.personal import run_notice
        from andon.cli.personal import notify_person

        name, simulated = options["name"] or command_name(command), choices.simulate is not None
        notify_person(settings_of(choices), run_notice(name, code, seconds, simulated))


def _run_on(
    choices: Choices, cluster: "ClusterDesk", command: Sequence[str], options: dict[str, Any]
) -> int:
    """Runs the command on a cluster, with its output and exit code here."""
    from andon.cli.commands.jobs.following import run_at_terminal
    from andon.jobs.submitting import local_spec, new_submission

    if options["lease_id"]:
        raise Invalid("a lease is on this machine", hint="leave out --lease or --on")
    for name in ("nsys", "check"):
        if options[name]:
            text = f"--{name} is for commands on this machine"
            raise Invalid(text, hint=f"leave out --{name} or --on")
    image = container_from(options)
    spec = local_spec(
        command,
        request_to_take(options, choices),
        name=(options["name"] or "")[:200],
        for_seconds=options["length"],
        bind=options["bind"],
        simulate=choices.simulate,
        container={} if image is None else to_json(image),
    )
    engine_options = (*options["engine_options"], *synced(options))
    each = options["processes"] or 0
    return run_at_terminal(
        choices, cluster, new_submission(spec, options=engine_options, per_gpu=each)
    )


def _run(
    choices: Choices,
    command: Sequence[str],
    bind: bool,
    inside: "ContainedCommand | None",
    options: dict[str, Any],
) -> int:
    request, folder = request_to_take(options, choices), options["telemetry_dir"]
    name, more = options["name"], dict[str, Any]()
    if options["nsys"]:
        from andon.cli.nsys import PARAM, profiled

        name = name or command_name(command)
        place = runs_folder() if folder is None else Path(folder).absolute()
        found = profiled(command, options["nsys_options"], place, name)
        command, more = found.argv, {"params": {PARAM: str(found.report)}}
    if request.most == 0:
        return _without_device(command, inside, choices)
    with sampling_ahead(choices) as sampler:
        if bind:
            sampler.ask_places()

        availability = availability_of(choices, sampler)
        work = CommandWork(
            command,
            settings_of(choices),
            recording_of(choices, sampler, None if folder is None else Path(folder)),
            name,
            bind=bind,
            contained=inside,
            sample_writer=partial(_csv_copy, choices) if options["as_csv"] else None,
            more=more,
        )
        lease = options["lease_id"] or os.environ.get("ANDON_LEASE")
        if lease and options["check"]:
            raise Invalid("--check is for a new lease", hint="inside a lease: andon check")
        if lease:
            return ended(work.run(on_lease(lease, availability.view(), request)), choices)
        return _granted(work, availability, request, options, choices, sampler)


def _csv_copy(choices: Choices, begin: RunBegin, record: Path) -> "CsvCopy":
    from andon.cli.csv_copy import CsvCopy

    return CsvCopy(begin, record, partial(notice, choices=choices))


def _granted(
    work: CommandWork,
    availability: Availability,
    request: DeviceRequest,
    options: dict[str, Any],
    choices: Choices,
    sampler: "Sampler",
) -> int:
    terms = LeaseTerms(command=work.shown_command, seconds=options["length"])
    retries, before = options["retry_oom"] or 0, None

    def taking(wanted: DeviceRequest) -> Grant:
        return take(choices, availability, wanted, terms, wait_seconds(options))

    while True:
        try:
            if options["check"]:
                from andon.cli.commands.share.checked import checked_grant

                grant = checked_grant(choices, sampler, request, taking)
            else:
                grant = taking(request)
        except (Conflict, Unavailable) as error:
            if before is None:
                raise
            return _not_retried(before, error, choices)
        before = work.run(grant)
        verdict = before[1]
        if verdict.end is not RunState.DEVICE_OUT_OF_MEMORY or retries < 1:
            return ended(before, choices, OOM_HINT)
        retries -= 1
        had = [capacity.free_bytes or 0 for capacity in grant.candidates.choice.chosen]
        devices = grant.snapshot.devices
        try:
            request = larger_request(request, min(had), devices, availability.labels)
        except Unavailable as error:
            return _not_retried(before, error, choices)
        notice(f"{verdict.message}: retrying with more memory", choices)


def _not_retried(before: tuple[int, Verdict], error: AndonError, choices: Choices) -> int:
    """Reports that the command is not retried; returns the exit code of the attempt that ran."""
    why = f" ({error.mistakes[0]})" if error.mistakes else ""
    hint = f"; {error.hint}" if error.hint else ""
    notice(f"cannot retry with more memory: {error.reason}{why}{hint}", choices)
    return ended(before, choices)


def ended(result: tuple[int, Verdict], choices: Choices, oom_hint: str = "") -> int:
    """Prints how a command ended that did not just fail; returns its exit code."""
    code, verdict = result
    if verdict.end not in (RunState.SUCCEEDED, RunState.FAILED, RunState.STOPPED):
        hint = oom_hint if verdict.end is RunState.DEVICE_OUT_OF_MEMORY else ""
        notice(verdict.message + hint, choices)
    return code


def _without_device(
    command: Sequence[str], inside: "ContainedCommand | None", choices: Choices
) -> int:
    """Runs the command with an empty mask and no lease: nothing to wait for, nothing to record."""
    grace = settings_of(choices).work_grace_seconds
    if inside is not None:
        from andon.work.containers.running import run_container

        inside.create(f"{UNLEASED}{os.urandom(4).hex()}", (), {}, lambda identity: None)
        return run_container(inside, grace, lambda: None, notice)[0].code
    launcher = Launcher(command, {**os.environ, **NO_DEVICE}, grace)
    return launcher.run(lambda: None, notice).code
