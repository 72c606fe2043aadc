"""The settings in force, the selected node, and a sampler: what every command starts from."""

import os
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from andon.app.settings import load_settings
from andon.cli.terminal import Choices, notice
from andon.errors import AndonError
from andon.model.device import Snapshot, State
from andon.settings.resolution import Resolved, Settings

if TYPE_CHECKING:
    from andon.explain.conditions.rulebook import Rulebook
    from andon.leases.availability import Availability
    from andon.leases.granter import LeaseTerms
    from andon.leases.placement import Grant
    from andon.model.job.device_request import DeviceRequest
    from andon.node.port import Node
    from andon.runs.opening import RunRecording
    from andon.sampling.sampler import Sampler


WAITED_SECONDS = 3.0  # from then on a person may look elsewhere
NO_DEVICE = 3  # the exit code if none responds


def exit_code(snapshot: Snapshot) -> int:
    fine = any(s.state in (State.OK, State.ASLEEP) for s in snapshot.devices)
    return 0 if fine else NO_DEVICE


def is_leasable(snapshot: Snapshot) -> bool:
    """Whether devices can be leased at all: not in a recording, and not without kernel locks."""
    return "replay" not in snapshot.versions and sys.platform != "win32" and bool(snapshot.devices)


def settings_of(choices: Choices) -> Settings:
    """The settings in force; they also set the colour if the command line does not."""
    return resolved_of(choices).settings


def resolved_of(choices: Choices) -> Resolved:
    """The settings in force, each with its origin; warnings are printed once."""
    resolved = choices.resolved or load_settings(choices.flags())
    choices.color = choices.color or resolved.settings.color
    if not choices.warned:
        choices.warned = True
        for warning in resolved.warnings:
            notice(warning, choices)
    return resolved


def node_of(choices: Choices) -> "Node":
    """The node that the command is about; closed when the command ends."""
    if choices.node is None:
        from andon.app.node import NodeChoice, find_node

        own_thresholds = any(name.startswith("alerts_") for name in choices.overrides)
        choice = NodeChoice(
            choices.url,
            choices.token_file,
            choices.simulate,
            choices.replay,
            choices.fresh,
            own_thresholds,
            choices.timeout,
            choices.node_name,
        )
        settings = settings_of(choices)
        choices.node = find_node(choice, settings, lambda text: notice(text, choices))
        _close_at_end(choices.node)
    return choices.node


def _close_at_end(node: "Node") -> None:
    """Deletes downloaded records when the command ends."""
    if (context := click.get_current_context(silent=True)) is not None:
        context.find_root().call_on_close(node.close)


def rulebook_of(choices: Choices) -> "Rulebook":
    """The thresholds in force, for what is shown as hot, full or at its limit."""
    from andon.app.thresholds import rulebook

    return rulebook(settings_of(choices))


def sampling(choices: Choices) -> "Sampler":
    """Returns a sampler for the settings and the command line; a context manager."""
    from andon.app.sampler import open_sampler

    return open_sampler(settings_of(choices))


def sampling_ahead(choices: Choices) -> "Sampler":
    """Returns the same sampler with its readers already starting, for commands that lease devices:
    opening a driver takes as long as the imports."""
    sampler = sampling(choices)
    sampler.on_long_wait = lambda text: notice(text, choices)
    sampler.begin()
    return sampler


def availability_of(choices: Choices, sampler: "Sampler") -> "Availability":
    """Availability from this sampler; simulated devices are leased only with --simulate."""
    from andon.app.leases import open_availability

    notify_given_back(choices)
    resolved = resolved_of(choices)
    return open_availability(
        resolved.settings,
        lambda: sampler.once(with_host=False),
        simulated=resolved.origin.get("simulate") == "flag",
        ask_places=sampler.ask_places,
    )


def notify_given_back(choices: Choices) -> None:
    """Says once which reservations of this user nobody used: what only a server says in time."""
    from andon.host import file_systems
    from andon.leases.book import places

    with suppress(AndonError, OSError):
        mounts = file_systems.read_mounts()  # one whose server is away is not touched
        near = (
            one for one in places.books(os.environ) if not file_systems.network_system(one, mounts)
        )
        if not choices.machine() and any(map(places.is_reserved, near)):
            from andon.leases.book.lease_book import Book
            from andon.leases.reserving import given_back

            for line in given_back(Book(make=False)):
                notice(line, choices)


def take(
    choices: Choices,
    availability: "Availability",
    request: "DeviceRequest",
    terms: "LeaseTerms",
    timeout_seconds: float,
) -> "Grant":
    """Waits for devices and leases them; a line on the terminal shows the wait."""
    from andon.cli.show.waiting import WaitingLine
    from andon.leases.book.lease_book import Book
    from andon.leases.granter import Granter

    line, began = WaitingLine(choices), time.monotonic()
    try:
        grant = Granter(Book(), availability).grant(request, terms, timeout_seconds, line)
    finally:
        line.clear()
    if time.monotonic() - began > WAITED_SECONDS and settings_of(choices).notify_me_turn:
        from andon.leases.refusal import chosen_title

        notify_turn(choices, chosen_title(grant.candidates))
    return grant


def notify_turn(choices: Choices, title: str) -> None:
    """Sends a message that a command which waited can have its devices."""
    from andon.app.messages.personal import personal_notice
    from andon.cli.personal import notify_person

    text = f"Your turn: {title}"
    notify_person(
        settings_of(choices),
        personal_notice("GPUs", text, good=True, simulated=choices.simulate is not None),
    )


def recording_of(
    choices: Choices, sampler: "Sampler", folder: Path | None = None
) -> "RunRecording":
    """How the runs of this command are recorded."""
    from andon.app.runs import recording

    return recording(settings_of(choices), sampler, partial(notice, choices=choices), folder)
