"""Reads what this user's server or agent sends to others, from the files that it writes."""

import os
from collections.abc import Sequence
from pathlib import Path

from andon.doctor.rules.facts import OutgoingReports, Reporting
from andon.fleet.sending import read_marks, read_trouble
from andon.host.files import read_text
from andon.host.processes.kin import uid_of
from andon.host.spool import read_spool
from andon.host.state.server_file import LOCK
from andon.settings.exports import ExportSettings
from andon.units import sh


def read_reporting(folder: Path, exports: Sequence[ExportSettings] = ()) -> Reporting:
    """Reads what is sent to others; `folder` is this machine's state folder."""
    links = [*_hub(folder), *(_export(folder, one) for one in exports)]
    return Reporting(bool(links) and _runs(folder), tuple(links))


def _hub(folder: Path) -> list[OutgoingReports]:
    """Returns the hub that this node last reported to, and until when it has everything."""
    marks, (failing, *trouble) = read_marks(folder), read_trouble(folder)
    if not (hub := failing or marks.hub):
        return []
    start = f"andon agent --hub {sh(hub)}"
    last = (marks.at or None) if hub == marks.hub else None
    return [OutgoingReports("the hub", hub, start, last, since=last, trouble=tuple(trouble))]


def _export(folder: Path, one: ExportSettings) -> OutgoingReports:
    seen = read_spool(folder / one.queue)
    return OutgoingReports(
        f"export {one.name}", one.place, "andon serve", seen.acknowledged, seen.oldest,
        seen.waiting, seen.size_bytes, seen.dropped,
    )  # fmt: skip


def _runs(folder: Path) -> bool:
    """Whether the process whose pid is in the lock file is this user's and lives."""
    pid = read_text(folder / LOCK, 64).strip()
    return pid.isdecimal() and uid_of(int(pid)) == os.geteuid()
