"""`andon check`: measures cards with nothing but the driver, and says whether they are well."""

import os
from typing import Any

import click

from andon.app.check_prolog import prolog
from andon.checks.checking import CardToCheck, Checker, seconds_of
from andon.checks.rules.plan import CheckMode, CheckPlan, plan_for
from andon.checks.session import measure_peers
from andon.cli.options import chosen, duration, shared, with_devices
from andon.cli.show.reports.checks import render_checks
from andon.cli.sources import availability_of, sampling_ahead
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import Conflict, Invalid, Unavailable
from andon.leases.availability import Availability
from andon.leases.placement import on_lease
from andon.model.check import CHECKS_SCHEMA, CardResult, CheckVerdict, PeerSpeed
from andon.model.codec import document, to_json
from andon.model.device import DeviceStatus, Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.naming import devices_named
from andon.units import human_seconds

FAILED, NOTHING, CONFLICT = 1, Unavailable.exit_code, Conflict.exit_code


@click.command()
@with_devices()
@click.option("--all", "every", is_flag=True, help="Every GPU; those in use get a line each.")
@click.option("--quick", is_flag=True, help="Two seconds a card.")
@click.option("--full", is_flag=True, help="A minute, with copies between cards.")
@click.option("--burn", type=duration, metavar="TIME", help="Heat it for this long: 10m.")
@click.option("--even-if-used", is_flag=True, help="Also GPUs in use; the result says so.")
@click.option("--prolog", is_flag=True, help="Of a Slurm job: only its GPUs, no lease.")
@click.option(
    "--drain-if",
    type=click.Choice(["slow"]),
    multiple=True,
    help="With --prolog: also fail for these.",
)
@click.option("--json", "as_json", is_flag=True, help="Print andon.checks/1.")
@shared
def check(devices: list[str], **options: Any) -> int:
    """Check GPUs: results right, and as fast as they should be? andon check 3

    Computes, copies and compares on the GPUs that are free, each under a lease, with nothing but
    the driver; nothing is reset or reconfigured. Slow is less than its own clocks allow, or clearly
    less than others of its model, or than it was. The exit code is 0 if all are well, 1 if one is
    slow or broken, 3 if none could be checked.
    """

    choices = chosen()
    modes = [
        mode
        for mode, wanted in (
            (CheckMode.QUICK, options["quick"]),
            (CheckMode.FULL, options["full"]),
            (CheckMode.BURN, options["burn"] is not None),
        )
        if wanted
    ]
    if len(modes) > 1:
        raise Invalid("--quick, --full and --burn cannot be combined", hint="choose one of them")
    if options["drain_if"] and not options["prolog"]:
        raise Invalid("--drain-if is for a prolog", hint="add --prolog")
    if options["prolog"]:
        return prolog(options["drain_if"])
    if options["every"] and devices:
        raise Invalid("--all and named GPUs cannot be combined", hint="leave out one of them")
    mode = modes[0] if modes else CheckMode.USUAL
    plan = plan_for(mode, options["burn"] or 0.0)
    results, peers = _checked(choices, devices, plan, options)
    _show(choices, results, peers, options["as_json"])
    return _exit_code(results, named=bool(devices))


def _checked(
    choices: Choices, devices: list[str], plan: CheckPlan, options: dict[str, Any]
) -> tuple[list[CardResult], list[PeerSpeed]]:

    with sampling_ahead(choices) as sampler:
        availability = availability_of(choices, sampler)
        checker = Checker(sampler, plan, options["even_if_used"])
        snapshot = sampler.once(with_host=False)
        if not snapshot.devices:
            reason = snapshot.faults[0].reason if snapshot.faults else "no GPU found"
            raise Unavailable(reason, hint=snapshot.faults[0].hint if snapshot.faults else "")
        wanted = _wanted(snapshot, devices)
        statuses, results = checker.candidates(snapshot, wanted)
        if lease := os.environ.get("ANDON_LEASE"):
            cards = _on_lease(checker, lease, availability, snapshot, statuses)
        else:
            cards, refused = checker.lease(availability, snapshot, statuses)
            results += refused
        if cards:
            labels = ", ".join(card.begin.label for card in cards)
            notice(f"checking GPU {labels}: about {human_seconds(seconds_of(plan))}", choices)
            results += checker.run(cards)
        if checker.unstored is not None:
            notice(checker.unstored, choices)
        peers = list[PeerSpeed]()
        if plan.mode is CheckMode.FULL and len(cards) > 1:
            peers = measure_peers(
                [card.begin.uuid for card in cards], [card.begin.label for card in cards]
            )
    if not devices and not options["every"]:
        results = [one for one in results if one.verdict is not CheckVerdict.NOT_CHECKED] or results
    return results, peers


def _wanted(snapshot: Snapshot, devices: list[str]) -> list[str] | None:
    if not devices:
        return None
    return list({uuid for name in devices for uuid in devices_named(name, snapshot.devices)})


def _on_lease(
    checker: Checker,
    lease: str,
    availability: Availability,
    snapshot: Snapshot,
    statuses: list[DeviceStatus],
) -> list[CardToCheck]:
    """Inside a lease of our own, its cards are checked."""

    placement = on_lease(lease, availability.view(), DeviceRequest())
    held = {share.uuid for share in placement.lease.shares} if placement.lease else set()
    return [
        CardToCheck(checker.begin(snapshot, one)) for one in statuses if one.device.uuid in held
    ]


def _show(
    choices: Choices, results: list[CardResult], peers: list[PeerSpeed], as_json: bool
) -> None:
    terminal = Terminal.of(choices)
    if as_json:
        checks = [document(one) for one in results]
        terminal.show_json({"schema": CHECKS_SCHEMA, "checks": checks, "peers": to_json(peers)})
    else:
        terminal.print(*render_checks(results, terminal.width, peers))


def _exit_code(results: list[CardResult], named: bool) -> int:
    if any(one.verdict.is_bad or one.verdict is CheckVerdict.FAILED for one in results):
        return FAILED
    left_out = [one for one in results if one.verdict is CheckVerdict.NOT_CHECKED]
    if len(left_out) == len(results):
        return NOTHING
    return CONFLICT if named and left_out else 0
