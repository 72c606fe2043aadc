"""`andon check`: measures cards with nothing but the driver, and says whether they are well."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import click
from msgspec.structs import replace

from andon.app.check_prolog import prolog
from andon.app.checks import CheckRequest, check_cards
from andon.checks.rules.plan import CheckMode
from andon.cli.options import at_server, chosen, duration, over_ssh, shared, with_devices
from andon.cli.show.reports.checks import render_checks
from andon.cli.sources import availability_of, node_of, sampling_ahead
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import Conflict, Invalid, Unavailable
from andon.model.check import CardResult, CheckList, CheckVerdict
from andon.model.codec import document, read_document
from andon.node.ssh import SshNode

NOT_IN_PROLOG = ("every", "even_if_used", "as_json")
FAILED, NOTHING, CONFLICT = 1, Unavailable.exit_code, Conflict.exit_code


@click.command()
@with_devices()
@click.option("--all", "every", is_flag=True, help="Every GPU; those in use get a line each.")
@click.option("--quick", is_flag=True, help="Two seconds a card.")
@click.option("--full", is_flag=True, help="A minute, with copies between cards.")
@click.option("--burn", type=duration, metavar="TIME", help="Heat it for this long: 10m.")
@click.option("--even-if-used", is_flag=True, help="Also GPUs in use; the result says so.")
@click.option("--prolog", is_flag=True, help="Of a Slurm job or a pod: its GPUs, no lease.")
@click.option(
    "--drain-if",
    type=click.Choice(["slow"]),
    multiple=True,
    help="With --prolog: also fail for these.",
)
@click.option("--json", "as_json", is_flag=True, help="Print andon.checks/1.")
@partial(at_server, nodes=False, about="Compare with the cards of this hub; or set ANDON_URL.")
@partial(over_ssh, hubs=False)
@shared
def check(devices: list[str], **options: Any) -> int:
    """Check GPUs: results right, and as fast as they should be? andon check 3

    Computes, copies and compares on the GPUs that are free, each under a lease, with nothing but
    the driver; nothing is reset or reconfigured. Slow is less than its own clocks allow, or clearly
    less than others of its model, here and on the hub (--url, or that of this node), or than it
    was. The exit code is 0 if all are well, 1 if one is slow or broken, 3 if none could be checked.
    """
    choices = chosen()
    modes = [one for one in CheckMode if options.get(one) not in (None, False)]
    if len(modes) > 1:
        raise Invalid("--quick, --full and --burn cannot be combined", hint="choose one of them")
    if options["drain_if"] and not options["prolog"]:
        raise Invalid("--drain-if is for a prolog", hint="add --prolog")
    given = devices or modes not in ([], [CheckMode.QUICK]) or any(map(options.get, NOT_IN_PROLOG))
    if options["prolog"] and (given or _is_ssh(choices)):
        raise Invalid("--prolog checks the GPUs of its job, quickly", hint="leave out the others")
    if options["prolog"]:
        return prolog(options["drain_if"])
    if options["every"] and devices:
        raise Invalid("--all and named GPUs cannot be combined", hint="leave out one of them")
    mode = modes[0] if modes else CheckMode.USUAL
    request = CheckRequest(
        devices, options["every"], mode, options["burn"] or 0.0, options["even_if_used"]
    )
    found = _checked(choices, request)
    _show(choices, found, options["as_json"])
    if any(not one.right for one in found.peers):
        return FAILED
    return _exit_code(found.checks, named=bool(devices))


def _checked(choices: Choices, request: CheckRequest) -> CheckList:
    if _is_ssh(choices):
        return _over_ssh(choices, request)
    request = replace(request, hub=choices.url, token_file=choices.token_file)
    with sampling_ahead(choices) as sampler:
        availability = availability_of(choices, sampler)
        return check_cards(sampler, availability, request, partial(notice, choices=choices))


def _is_ssh(choices: Choices) -> bool:
    return choices.url is not None and choices.url.startswith("ssh:")


def _over_ssh(choices: Choices, request: CheckRequest) -> CheckList:
    """Checks the cards of a host, as its own andon does."""
    node = node_of(choices)
    assert isinstance(node, SshNode)
    words = [*(f"--device={one}" for one in request.devices)]
    if request.mode is CheckMode.BURN:
        words.append(f"--burn={request.burn_seconds:g}s")
    elif request.mode is not CheckMode.USUAL:
        words.append(f"--{request.mode}")
    given = {"--all": request.every, "--even-if-used": request.even_if_used}
    words += [name for name, is_given in given.items() if is_given]
    return read_document(CheckList, node.host.object(("check", "--json", *words)))


def _show(choices: Choices, found: CheckList, as_json: bool) -> None:
    terminal = Terminal.of(choices)
    if as_json:
        terminal.show_json(document(found))
    else:
        terminal.print(*render_checks(found.checks, terminal.width, found.peers))


def _exit_code(results: Sequence[CardResult], named: bool) -> int:
    if any(one.verdict.is_bad or one.verdict is CheckVerdict.FAILED for one in results):
        return FAILED
    left_out = [one for one in results if one.verdict is CheckVerdict.NOT_CHECKED]
    if len(left_out) == len(results):
        return NOTHING
    return CONFLICT if named and left_out else 0
