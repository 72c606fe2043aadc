"""The options of commands that can run in a container, and what they mean."""

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from andon.cli.options import F, with_options
from andon.errors import Invalid
from andon.model.job.pull_policy import PullPolicy

if TYPE_CHECKING:  # most commands name no image
    from andon.model.execution import ContainerMount, ContainerOptions
    from andon.work.containers.running import ContainedCommand

_OPTIONS = (
    click.option("--image", metavar="IMAGE", help="Run it in a container of this image."),
    click.option(
        "--mount",
        "mounts",
        metavar="DIR[:TO[:ro]]",
        multiple=True,
        help="With --image: also mount this folder.",
    ),
    click.option(
        "--model-folder", metavar="DIR", help="With --image: mount it read-only at the same path."
    ),
    click.option(
        "--container-option",
        "container_options",
        metavar="OPTION",
        multiple=True,
        help="With --image: an engine option, e.g. --network=host.",
    ),
    click.option(
        "--container-user", metavar="USER", help="With --image: run as this user, not as you."
    ),
    click.option(
        "--pull",
        type=click.Choice([policy.value for policy in PullPolicy]),
        help="With --image: fetch it if it is missing [default: never].",
    ),
)
_NAMES = ("image", "mounts", "model_folder", "container_options", "container_user", "pull")


def container_options(command: F) -> F:
    """Adds --image and its related options; `container_from` takes them out of the keywords."""
    return with_options(command, *_OPTIONS)


def container_from(arguments: dict[str, Any]) -> "ContainerOptions | None":
    """Take the container's options out of `arguments`; None where no image is named."""
    taken = {name: arguments.pop(name, None) for name in _NAMES}
    image = taken.pop("image")
    if not image:
        if any(taken.values()):
            name = next(name for name, value in taken.items() if value)
            option = "--mount" if name == "mounts" else f"--{name.replace('_', '-')}".rstrip("s")
            raise Invalid(f"{option} needs --image", hint="add --image IMAGE, or leave it out")
        return None
    from andon.model.execution import ContainerOptions
    from andon.work.containers.rules.options import refuse_options

    options = tuple(taken["container_options"] or ())
    refuse_options(options)
    return ContainerOptions(
        image,
        _mounts(taken["mounts"] or (), taken["model_folder"]),
        options,
        taken["container_user"],
        PullPolicy(taken["pull"] or PullPolicy.NEVER),
    )


def _mounts(texts: Sequence[str], model_folder: str | None) -> "tuple[ContainerMount, ...]":
    from andon.model.execution import ContainerMount
    from andon.work.containers.rules.options import parse_mount

    folder = str(Path.cwd())
    found = [parse_mount(text, folder) for text in texts]
    if model_folder:
        place = str(Path(folder, model_folder).resolve())
        found.append(ContainerMount(place, place, readonly=True))
    return tuple(found)


def contained(
    options: "ContainerOptions | None", command: Sequence[str], interactive: bool = False
) -> "ContainedCommand | None":
    """The command in its container after checking that it can run; None without an image."""
    if options is None:
        return None
    from andon.app.engines import open_engine
    from andon.work.containers.running import ContainedCommand

    terminal = interactive and sys.stdin.isatty() and sys.stdout.isatty()
    made = ContainedCommand(
        open_engine(), options, command, stdin=terminal or _has_input(), terminal=terminal
    )
    made.check()
    return made


def _has_input() -> bool:
    """Whether standard input is a pipe or a file. A terminal is not passed to a container that
    has none, and /dev/null has nothing to pass."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)
