"""`andon lease`: a shell or a command that holds devices; `andon lease extend` extends it."""

import os
import time
from typing import TYPE_CHECKING, Any

import click

from andon.cli.commands.completing import complete_command, complete_lease
from andon.cli.commands.share.adopt import adopt
from andon.cli.commands.share.container_options import (
    contained,
    container_from,
    container_options,
)
from andon.cli.commands.share.leases import only_lease
from andon.cli.commands.share.run import RunCommand
from andon.cli.device_request import (
    bind_option,
    for_option,
    queue_options,
    refuse_bind,
    request_options,
    request_to_take,
    wait_seconds,
)
from andon.cli.options import at_server, chosen, shared
from andon.cli.show.text import styled
from andon.cli.sources import (
    availability_of,
    node_of,
    recording_of,
    sampling_ahead,
    settings_of,
    take,
)
from andon.cli.terminal import Choices, Terminal, notice, report
from andon.errors import Invalid
from andon.leases.granter import LeaseTerms
from andon.leases.placement import Grant
from andon.leases.refusal import clock
from andon.work.preparing import CannotStart, find, shell
from andon.work.session import CommandWork

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


IMAGE_SHELL = "/bin/sh"  # what is started in an image without a command


class InsideLease(click.Context):
    """The context of `andon lease extend`: its path leaves out the optional command before it."""

    @property
    def command_path(self) -> str:
        above = "" if self.parent is None else self.parent.command_path
        return f"{above} {self.info_name}".lstrip()


class LeaseCommand(RunCommand):
    """A command whose first argument may be `extend` or `adopt`; else it is a command to run."""

    def invoke(self, ctx: click.Context) -> Any:
        text = ctx.params.get("command") or ()
        first = next(iter(text), "")
        inside = {"extend": extend, "adopt": adopt}.get(first)
        if inside is not None and not ctx.meta.get("andon.dashes"):
            inside.context_class = InsideLease
            with inside.make_context(first, list(text[1:]), parent=ctx) as inner:
                return inside.invoke(inner)
        return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["andon.dashes"] = "--" in args
        return super().parse_args(ctx, args)


def _complete(
    context: click.Context, parameter: click.Parameter, typed: str
) -> "list[CompletionItem]":
    """Completes a command, or the lease that `extend` and `adopt` take."""
    before = tuple(context.params.get("command") or ())
    if before[:1] in (("extend",), ("adopt",)):
        return complete_lease(context, parameter, typed)
    from click.shell_completion import CompletionItem

    inside = [word for word in ("extend", "adopt") if typed and word.startswith(typed)]
    if inside and not before:
        return [CompletionItem(word) for word in inside]
    return complete_command(context, parameter, typed)


@click.command(cls=LeaseCommand, context_settings={"allow_interspersed_args": False})
@request_options
@queue_options
@for_option("How long, e.g. 2h [default: while it runs].")
@bind_option
@container_options
@click.option(
    "--around", type=int, metavar="PID", help="For what this process of yours uses, until it ends."
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, shell_complete=_complete)
@shared
def lease(
    command: tuple[str, ...],
    length: float | None,
    bind: bool,
    around: int | None,
    **options: Any,
) -> int:
    """Lease GPUs while a shell or a command runs: andon lease --gpus 2 --for 2h

    Without a command it starts your shell. Inside, andon run uses these devices. andon lease extend
    ID --for 1h extends it; andon release ID ends it. andon lease adopt ID takes over one whose
    andon run was killed while its container keeps running. andon lease --around PID is for a
    process that already runs: it returns at once, and the lease ends with the process.
    """
    if around is not None:
        from andon.cli.commands.share.around import around as lease_process

        return lease_process(around, length, options, chosen())
    choices, image = chosen(), container_from(options)
    refuse_bind(bind, image)
    request = request_to_take(options, choices)
    if request.most == 0:
        raise Invalid("a lease needs at least one device", hint="--gpus 1")
    if os.environ.get("ANDON_LEASE"):
        notice(f"already inside lease {os.environ['ANDON_LEASE']}; this is a separate one", choices)
    wanted = list(command) or (shell() if image is None else [IMAGE_SHELL])
    if length is not None and length <= 0:
        raise Invalid("--for: duration must be greater than 0")
    try:
        if image is None:
            find(wanted)
        inside = contained(image, wanted, interactive=True)
        with sampling_ahead(choices) as sampler:
            if bind:
                sampler.ask_places()

            work = CommandWork(
                wanted,
                settings_of(choices),
                recording_of(choices, sampler),
                interactive=True,
                shell=not command,
                bind=bind,
                contained=inside,
            )
            terms = LeaseTerms(command=work.shown_command, seconds=length)
            availability = availability_of(choices, sampler)
            grant = take(choices, availability, request, terms, wait_seconds(options))
            notice(_grant_text(grant, bool(command)), choices)
            return work.run(grant)[0]
    except CannotStart as error:
        report(error)
        return error.code


@click.command()
@click.argument("lease_id", metavar="[ID]", required=False, shell_complete=complete_lease)
@for_option("New duration from now, e.g. 1h.", required=True)
@at_server
@shared
def extend(lease_id: str | None, length: float) -> int:
    """Extend one of your leases; without ID the one of this shell, or your only one."""
    if length <= 0:
        hint = "to end a lease: andon release"
        raise Invalid("--for: duration must be greater than 0", hint=hint)
    choices = chosen()
    wanted = lease_id or _this_lease(choices)
    name, until = node_of(choices).leases.extend(wanted, length)
    ends = time.strftime("%H:%M", time.localtime(until))
    Terminal.of(choices).print(styled(f"lease {name} now ends at {ends}"))
    return 0


def _this_lease(choices: Choices) -> str:
    """Returns the lease of this shell, or the user's only one."""
    inside = os.environ.get("ANDON_LEASE") if node_of(choices).url is None else None
    return inside or only_lease(choices, "lease extend").id


def _grant_text(grant: Grant, has_command: bool) -> str:
    held = grant.lease
    until = "" if held.until is None else f" until {clock(held.until, held.since)}"
    left = "" if has_command else "; exit the shell to release it"
    return f"lease {held.id}: {grant.title}{until}{left}"
