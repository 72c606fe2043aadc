"""How a command gets its snapshots: from which sampler or server, and of which devices."""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from andon.cli.show.render import Mask
from andon.cli.sources import resolved_of as resolved_of
from andon.cli.sources import sampling as sampling
from andon.cli.sources import settings_of as settings_of
from andon.cli.terminal import Choices, notice
from andon.errors import Invalid
from andon.model.device import Snapshot
from andon.model.naming import devices_named, with_labels

if TYPE_CHECKING:
    from andon.cli.remote import Remote, Server
    from andon.engine.sampling.sampler import Sampler


BETWEEN_SECONDS = 0.1  # activity over less says nothing


def following(choices: Choices) -> "Sampler | Remote":
    """This node's sampler, or the server used instead."""
    return sampling(choices) if choices.url is None else server_of(choices, choices.url)


def server_of(choices: Choices, url: str) -> "Remote":
    """The devices of the named server."""
    from andon.cli.remote import Remote

    return Remote(connected(choices, url), lambda text: notice(text, choices))


def connected(choices: Choices, url: str) -> "Server":
    """The named server."""
    from andon.cli.remote import connect

    settings_of(choices)
    if choices.simulate or choices.replay:
        raise Invalid("--url cannot be combined with --simulate or --replay")
    return connect(url, choices.token_file, lambda text: notice(text, choices))


def take_snapshot(choices: Choices, watched: bool = False) -> Snapshot:
    """One new snapshot."""
    with following(choices) as sampler:
        snapshot = sampler.once(watched)
    return snapshot if choices.url is not None else _leased(snapshot)


def take_two(choices: Choices) -> Snapshot:
    """One new snapshot with what only a second reading shows: how active the chips are, and what
    their links carry. A server has read its devices before."""
    if choices.url is not None:
        return take_snapshot(choices)
    with sampling(choices) as sampler:
        first = sampler.once(watched=True)
        time.sleep(BETWEEN_SECONDS)
        again = sampler.once(watched=True, hasty=True)
    return _leased(replace(again, host=first.host))


def _leased(snapshot: Snapshot) -> Snapshot:
    """Add the leases of its processes; a server has added them, and a recording's are old."""
    there = any(status.processes for status in snapshot.devices)
    if not there or "replay" in snapshot.versions or sys.platform == "win32":
        return snapshot
    from andon.leases import places

    if not places.may_hold_leases(os.environ):
        return snapshot
    from andon.engine.sharing.lease_tracker import with_leases

    return with_leases(snapshot)


def mask_of(snapshot: Snapshot, left_out: int = 0, url: str | None = None) -> Mask:
    """The mask that decides what this process sees; it does not apply to a server's devices."""
    if url is not None:
        return Mask(left_out=left_out)
    from andon.core.sampling.masks import visibility

    found = visibility([status.device for status in snapshot.devices], os.environ)
    return Mask(found.source, found.note, left_out)


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
