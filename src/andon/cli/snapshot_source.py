"""How a command gets its snapshots: from which sampler or server, and of which devices."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.cli.sources import resolved_of as resolved_of
from andon.cli.sources import sampling as sampling
from andon.cli.sources import settings_of as settings_of
from andon.cli.terminal import Choices, notice
from andon.errors import Invalid
from andon.model.device import Snapshot
from andon.model.naming import devices_named, with_labels
from andon.node.usual_server import may_be_running
from andon.units import human_seconds

if TYPE_CHECKING:
    from andon.cli.show.render import Mask
    from andon.node.remote import Remote, Server
    from andon.sampling.rules.told import ServerSnapshot
    from andon.sampling.sampler import Sampler


BETWEEN_SECONDS = 0.1  # activity over less says nothing


def following(choices: Choices) -> "Sampler | Remote":
    """This node's sampler, or the server used instead."""
    return sampling(choices) if choices.url is None else server_of(choices, choices.url)


def server_of(choices: Choices, url: str) -> "Remote":
    """The devices of the named server."""
    from andon.node.remote import Remote

    return Remote(connected(choices, url), lambda text: notice(text, choices))


def connected(choices: Choices, url: str) -> "Server":
    """The named server."""
    from andon.node.remote import connect

    settings_of(choices)
    if choices.simulate or choices.replay:
        raise Invalid("--url cannot be combined with --simulate or --replay")
    if choices.fresh:
        raise Invalid("--url cannot be combined with --fresh", hint="the server reads its devices")
    return connect(url, choices.token_file, lambda text: notice(text, choices))


def take_snapshot(
    choices: Choices, expensive_fields: bool = False, meanwhile: Callable[[], None] | None = None
) -> Snapshot:
    """Takes one new snapshot; `meanwhile` is called while the driver is being opened."""
    with following(choices) as sampler:
        if meanwhile is not None:
            sampler.begin()
            meanwhile()
        snapshot = sampler.once(expensive_fields)
    return snapshot if choices.url is not None else _leased(snapshot)


def current_snapshot(
    choices: Choices, expensive_fields: bool = False, twice: bool = False
) -> Snapshot:
    """Returns the last snapshot of this machine's server, else a new one.

    `expensive_fields` are those that are read only while someone is watching; `twice` adds what
    only a second reading shows, such as how active the chips are. A server may not have read
    these: then a new snapshot is taken, with what the server knows of devices that do not answer.
    """
    return told_or_read(choices, told_snapshot(choices), expensive_fields, twice)[0]


def told_or_read(
    choices: Choices,
    told: "ServerSnapshot | None",
    expensive_fields: bool = False,
    twice: bool = False,
    meanwhile: Callable[[], None] | None = None,
) -> "tuple[Snapshot, ServerSnapshot | None]":
    """Returns the server's snapshot if it is current, else a new one; and its answer if used."""
    found = recent_snapshot(choices, told)
    if found is not None and (told is None or told.is_watched or not (expensive_fields or twice)):
        return found, told
    if twice and choices.url is None:
        fresh = _twice(choices)
    else:
        fresh = take_snapshot(choices, expensive_fields, meanwhile)
    if told is None:
        return fresh, None
    from andon.sampling.rules.told import remembering

    return remembering(fresh, told.snapshot), None


def _twice(choices: Choices) -> Snapshot:
    with sampling(choices) as sampler:
        first = sampler.once(expensive_fields=True)
        time.sleep(BETWEEN_SECONDS)
        again = sampler.once(expensive_fields=True, with_host=False)
    return _leased(replace(again, host=first.host))


def _leased(snapshot: Snapshot) -> Snapshot:
    """Adds the leases of the processes; a server has added them, and a recording's are old."""
    there = any(status.processes for status in snapshot.devices)
    if not there or "replay" in snapshot.versions or sys.platform == "win32":
        return snapshot
    from andon.leases.book import places

    if not places.may_hold_leases(os.environ):
        return snapshot
    from andon.leases.tracker import with_leases

    return with_leases(snapshot)


def told_snapshot(choices: Choices, commands: bool = True) -> "ServerSnapshot | None":
    """Returns the snapshot of this machine's server; None if the command is not about this
    machine's devices, must read them itself, or no server answers. `commands`: whether to add
    the command lines that the server withholds and this user may see."""
    if choices.fresh or choices.url is not None:
        return None
    settings = settings_of(choices)
    if settings.simulate or settings.replay or not may_be_running():
        return None
    from andon.node.look import server_look

    if (told := server_look(settings.node, Path(settings.root), commands)) is not None:
        return told
    from andon.node.latest_snapshot import latest_snapshot  # by HTTP: an older server

    return latest_snapshot(settings.node, Path(settings.root), settings.interval_seconds)


def recent_snapshot(choices: Choices, told: "ServerSnapshot | None") -> Snapshot | None:
    """Returns the server's snapshot, unless it is old; then prints a notice."""
    if told is None:
        return None
    if not told.is_old(now := time.time()):
        return told.snapshot
    age = human_seconds(told.age_seconds(now))
    notice(f"the server's last reading is {age} old; reading the devices here", choices)
    return None


def mask_of(snapshot: Snapshot, left_out: int = 0, url: str | None = None) -> "Mask":
    """The mask that decides what this process sees; it does not apply to a server's devices."""
    from andon.cli.show.render import Mask

    if url is not None:
        return Mask(left_out=left_out)
    from andon.sampling.rules.masks import visibility

    found = visibility([status.device for status in snapshot.devices], os.environ)
    return Mask(found.source, found.note, left_out, found.container)


def chosen_uuids(snapshot: Snapshot, wanted: Sequence[str]) -> set[str]:
    """The named devices; a board includes its partitions."""
    return {uuid for name in wanted for uuid in devices_named(name, snapshot.devices)}


def narrowed(snapshot: Snapshot, wanted: Sequence[str]) -> Snapshot:
    """The snapshot with the named devices; with all of them where none is named."""
    return only(snapshot, chosen_uuids(snapshot, wanted)) if wanted else snapshot


def only(snapshot: Snapshot, uuids: set[str]) -> Snapshot:
    """The snapshot with only these devices."""
    kept = tuple(s for s in with_labels(snapshot.devices) if s.device.uuid in uuids)
    return replace(snapshot, devices=kept)
