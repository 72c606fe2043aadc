"""The options --on and --engine-option, and the desk that a command line means."""

import os
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from andon.cli.options import F, whole
from andon.cli.terminal import Choices
from andon.errors import Invalid
from andon.host.state.user_folder import config_mentions
from andon.model.job import LOCAL, is_host

if TYPE_CHECKING:  # most machines have no cluster, and `submit` must be quick
    from andon.jobs.clusters.desk import ClusterDesk
    from andon.settings.resolution import Settings

T = TypeVar("T")
VARIABLE = "ANDON_JOBS_ON"
_OPTION, _PER_GPU = "--engine-option", "--per-gpu"


def on_options(command: F) -> F:
    """Adds --on, and --engine-option for what only the cluster understands."""
    command = click.option(
        _OPTION,
        "engine_options",
        multiple=True,
        metavar="OPTION",
        help="With --on: an option in the cluster's own words.",
    )(command)
    return click.option(
        "--on", metavar="NAME", help=f"A cluster, hosts (ssh:n1,n2; ssh:@GROUP), or {LOCAL}."
    )(command)


def per_gpu_option(command: F) -> F:
    """Adds --per-gpu: a process for each GPU of a job on a cluster."""
    return click.option(
        _PER_GPU,
        "processes",
        type=whole,
        metavar="N",
        help="With --on: N processes for each GPU, which see that one alone.",
    )(command)


def sync_option(command: F) -> F:
    """Adds --sync: a copy of the folder on the host that a job goes to."""
    about = "With --on ssh:…: copy this folder there first."
    return click.option("--sync", is_flag=True, help=about)(command)


def synced(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the engine option that --sync stands for."""
    return ("sync",) if options["sync"] else ()


def desk_of(choices: Choices, options: dict[str, Any], local: Callable[[], T]) -> "T | ClusterDesk":
    """Takes --on out of the options; returns the cluster, or what `local` returns for this machine.
    The setting jobs.on does not count where devices are named here by a lease or a simulation."""
    from andon.app.desks import desk_named

    on: str | None = options.pop("on")
    simulated = choices.simulate is not None or choices.replay is not None
    there = on is not None and is_host(on) and choices.replay is None  # which simulates them itself
    if simulated and on not in (None, LOCAL) and not there:
        raise Invalid("simulated and recorded devices are on this machine", hint="leave out --on")
    named = simulated or options.get("lease_id") or "ANDON_LEASE" in os.environ
    configured = os.environ.get(VARIABLE) or any(map(config_mentions, (b"clusters", b"ssh:")))
    if on is None and (named or not configured):
        on = LOCAL
    settings = cache(partial(settings_named, choices))
    return desk_named(on, settings, partial(_without_cluster_options, options, local))


def _without_cluster_options(options: Mapping[str, Any], local: Callable[[], T]) -> T:
    given = {_OPTION: options.get("engine_options"), _PER_GPU: options.get("processes"),
             "--kind": options.get("kind"), "--sync": options.get("sync")}  # fmt: skip
    for option in (option for option, value in given.items() if value):
        raise Invalid(f"{option} is for jobs on a cluster", hint="add --on NAME")
    return local()


def settings_named(choices: Choices) -> "Settings":
    from andon.app.settings import load_settings

    return load_settings(choices.flags()).settings
