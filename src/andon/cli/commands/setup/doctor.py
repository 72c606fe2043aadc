"""`andon doctor`: checks the machine and suggests a fix for each problem."""

import os
import platform
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import click
from msgspec.structs import replace

from andon.app.history import store_files
from andon.app.messages.digest import recipients
from andon.app.sampler import open_sampler
from andon.cli import sources
from andon.cli.options import chosen, over_ssh, shared
from andon.cli.show.findings import findings_to_json, render_findings
from andon.cli.show.text import Text, styled
from andon.cli.sources import settings_of
from andon.cli.terminal import Choices, Terminal
from andon.doctor.inspection.access import read_books, read_folder
from andon.doctor.inspection.machine import inspect
from andon.doctor.inspection.reporting import read_reporting
from andon.doctor.inspection.security import read_security
from andon.doctor.rules.checkup import judge
from andon.doctor.rules.facts import (
    Folder,
    Installation,
    MachineFacts,
    PolicyFacts,
    Reporting,
    SampleTrial,
    Security,
)
from andon.doctor.rules.findings import Check, exit_code
from andon.errors import AndonError, Denied, Invalid
from andon.host.machine_id import node_key, node_name
from andon.host.own_container import read_mounts
from andon.host.state.user_folder import (
    NODES,
    POLICY_FILE,
    config_path,
    node_path,
    state_folder,
)
from andon.host.users import user_name
from andon.leases.book.contents import read_usage
from andon.leases.book.places import (
    COMMON_BOOK,
    LASTING,
    RESERVATIONS,
    SYSTEM_BOOK,
    book_path,
    is_closed,
)
from andon.leases.policy_file import limits_for, policy_state
from andon.leases.rules.rows import usage_rows
from andon.node.ssh import SshNode
from andon.settings.table import FIELDS, Settings
from andon.units import counted
from andon.version import __version__

SCHEMA = "andon.doctor/1"
PACKAGES: tuple[str, ...] = ("click", "msgspec", "nvidia-ml-py")
LINUX = sys.platform == "linux"
if not LINUX:
    PACKAGES += ("psutil",)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print andon.doctor/1.")
@click.option(
    "--bundle",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write an archive (.tar.gz) for a bug report, without secrets; print what is in it.",
)
@over_ssh
@shared
def doctor(as_json: bool, bundle: Path | None) -> int:
    """Check drivers, libraries, permissions, containers, the system and andon itself.

    Every finding is fine, a warning or a failure, and every problem comes with the command that
    fixes it. Nothing is changed, no device is woken, and this process opens none. With --quiet only
    problems are shown. The exit code is 0 without a failure, 3 if no device can be read, else 1.

    With a bug report, send the file of andon doctor --bundle FILE: it has no tokens, passwords,
    addresses of notifiers or command lines, but names of users and programs: read it first.
    """
    choices = chosen()
    if choices.url is not None and bundle is not None:
        raise Invalid("--bundle is of this machine", hint="ssh HOST andon doctor --bundle FILE")
    if choices.url is not None:  # a host over SSH
        return check_host(choices, as_json)
    facts = gather(choices)
    findings, terminal = judge(facts), Terminal.of(choices)
    code = exit_code(findings, Check.NO_DEVICE)
    value = findings_to_json(SCHEMA, findings, node_of(facts), facts.clock.at, code)
    if bundle is not None:
        from andon.cli.commands.setup.bundle import write_bundle

        write_bundle(bundle, choices, value, facts.trial.snapshot)
    elif as_json:
        terminal.show_json(value)
    else:
        title = title_of("doctor", node_of(facts))
        terminal.print(*render_findings(findings, title, terminal.width, choices.quiet))
    return code


def check_host(choices: Choices, as_json: bool) -> int:
    """Prints one line about what answers on a host over SSH, and what is missing there."""
    node, terminal = sources.node_of(choices), Terminal.of(choices)
    assert isinstance(node, SshNode), "--ssh is its only option for another machine"
    snapshot = node.live.read()
    known = {"by": node.host.by, "devices": len(snapshot.devices)}
    lacks = [f"{fault.source}: {fault.reason}" for fault in snapshot.faults]
    if known["by"] == "nvidia-smi":
        lacks.append("andon is not installed: leases, users and history are not known")
    elif known["by"] != f"andon {__version__}":
        lacks.append(f"another version than here, which is {__version__}")
    if as_json:
        terminal.show_json({**known, "missing": lacks})
        return 0
    count = counted(len(snapshot.devices), "GPU")
    terminal.show(f"{known['by']}, {count}; {'; '.join(lacks) or 'nothing is missing'}\n")
    return 0


def title_of(command: str, node: str) -> Text:
    return styled(node, "bold") + styled(f" · andon {__version__} {command}", "dim")


def node_of(facts: MachineFacts) -> str:
    return facts.trial.snapshot.node if facts.trial.snapshot else node_name()


def gather(choices: Choices) -> MachineFacts:
    """Gathers all facts; a mistake in the settings is one of them and does not stop the checks."""
    settings, mistakes = Settings(), tuple[str, ...]()
    try:
        settings = settings_of(choices)
        recipients(settings)
    except Invalid as wrong:
        mistakes = wrong.mistakes or (wrong.reason,)
    stored: Mapping[str, Path] = {}
    try:
        stored = store_files(settings)
    except Invalid as wrong:
        mistakes = (*mistakes, f"history.store: {wrong.reason} ({wrong.hint})")
    except Denied:
        pass  # another user's state folder: a finding of its own, and its files are not read
    trial = sample_trial(settings)
    own = own_of(choices, settings, mistakes)
    if not LINUX:
        return MachineFacts(linux=False, own=own, trial=trial)
    facts = inspect(Path(settings.root))
    safety = security_of(own, stored)
    reports = reporting_of(own, settings)
    return replace(
        facts, own=own, trial=trial, security=safety, policy=policy_of(), reporting=reports
    )


def reporting_of(own: Installation, settings: Settings) -> Reporting:
    """Returns what this machine reports to a hub and to other systems; a network file system is not
    touched."""
    if own.state.remote or not own.state.path:
        return Reporting()

    return read_reporting(node_path(), settings.exports)


def policy_of() -> PolicyFacts:
    """Returns root's limits per user, and the usage that a server has counted."""

    policy, wrong = policy_state()
    used = usage_rows(read_usage(book_path(os.environ)), user_name)
    usage = tuple((row.user, row.gpu_hours) for row in used)
    if wrong is not None:
        fix = wrong.hint if wrong.hint.startswith("sudo ") else ""
        return PolicyFacts(str(POLICY_FILE), True, mistake=wrong.reason, fix=fix, usage=usage)
    own, exists = limits_for(policy, os.getuid()), POLICY_FILE.exists()
    everyone, users = policy.everyone.text, tuple(policy.users)
    return PolicyFacts(str(POLICY_FILE), exists, everyone, own.text, users, usage)


def sample_trial(settings: Settings) -> SampleTrial:
    """Takes one sample as every command does: through the sampler and its readers."""
    began = time.monotonic()
    try:
        with open_sampler(settings) as sampler:
            snapshot = sampler.once()
            return SampleTrial(snapshot, time.monotonic() - began)
    except AndonError as error:
        return SampleTrial(None, time.monotonic() - began, error.reason, error.hint)


def own_of(choices: Choices, settings: Settings, mistakes: tuple[str, ...]) -> Installation:
    terminal, path = Terminal.of(choices), config_path()
    lasting = LASTING[COMMON_BOOK] if LINUX and book_path(os.environ) == COMMON_BOOK else None
    return Installation(
        version=__version__,
        python=platform.python_version(),
        packages={name: _version(name) for name in PACKAGES},
        old_pynvml=_old_pynvml(_version("pynvml")),
        config=None if path is None else str(path),
        changed=_changed(settings),
        mistakes=mistakes,
        state=_state(),
        books=read_books(Path("/"), book_places()) if LINUX else (),
        book_place=str(book_path(os.environ)),
        reserved_in=next(iter(read_books(Path("/"), [lasting] if lasting else [])), None),
        reserved_closed=lasting is not None and is_closed(lasting / RESERVATIONS),
        encoding=sys.stdout.encoding or "ascii",
        columns=terminal.width,
        color=terminal.color,
    )


def _changed(settings: Settings) -> int:
    """How many settings differ from their defaults; each threshold counts."""
    plain = Settings()
    own = [one for one in FIELDS if getattr(settings, one.name) != getattr(plain, one.name)]
    return len(own) + len(settings.alerts_figures)


def security_of(own: Installation, stored: Mapping[str, Path]) -> Security:
    """Who could read or replace this user's files; network file systems are not touched."""
    state = own.state
    unseen = f"it is on a network file system ({state.kind})" if state.remote else ""
    folder = Path(state.path) if state.path and not state.remote else None
    config = Path(own.config) if own.config else None
    inside = {n: p for n, p in stored.items() if folder and p.is_relative_to(folder)}
    node = f"{NODES}/{node_key()}"
    return read_security(folder, config, unseen=unseen, node=node, stored=inside)


def book_places() -> list[Path]:
    """Returns where a lease book may be, the one in use first: a grant reads all that exist."""
    return list(dict.fromkeys((book_path(os.environ), SYSTEM_BOOK, COMMON_BOOK)))


def _state() -> Folder:
    folder = state_folder()
    if not folder.is_absolute():  # a user without a home
        return Folder("")
    return read_folder(folder, read_mounts(Path("/")))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _old_pynvml(version: str | None) -> str | None:
    """The version of an old pynvml package: up to 11 it ships its own module of that name."""
    major = (version or "").partition(".")[0]
    return version if major.isdecimal() and int(major) < 12 else None
