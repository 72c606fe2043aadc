"""The options of a container: which are refused, and the JSON that a job keeps until it starts."""

import posixpath
from collections.abc import Mapping, Sequence

from andon.errors import Invalid
from andon.model.codec import read_valid
from andon.model.execution import MASKS, ContainerMount, ContainerOptions

Json = Mapping[str, object]
RESERVED_OPTIONS = {
    "--gpus": "andon gives the container its devices",
    "--device": "andon gives the container its devices",
    "--detach": "andon waits for the container",
    "-d": "andon waits for the container",
    "--rm": "andon removes the container after it has read how it ended",
    "--cidfile": "andon keeps the container's id in its lease",
    "--interactive": "andon decides by its own standard input",
    "-i": "andon decides by its own standard input",
    "--tty": "use andon lease for a terminal in the container",
    "-t": "use andon lease for a terminal in the container",
}
"""Options of the engine that andon sets itself, and why."""


def refuse_options(options: Sequence[str]) -> None:
    """Raises Invalid for engine options that would contradict the lease."""
    for option in options:
        name, _, value = option.partition("=")
        if name in RESERVED_OPTIONS:
            raise Invalid(f"--container-option {name}: {RESERVED_OPTIONS[name]}")
        if not option.startswith("-"):
            raise Invalid(
                f"--container-option {option[:40]!r} does not begin with a dash",
                hint="write option and value as one word: --container-option=--network=host",
            )
        if name in ("--env", "-e") and value.partition("=")[0] in MASKS:
            raise Invalid(
                f"--container-option {option[:60]}: the container sees only its own devices",
                hint="leave it out: they are numbered from 0 inside",
            )
        if name in ("--label", "-l") and value.startswith("andon."):
            raise Invalid(f"--container-option {option[:60]}: labels of andon are its own")


def options_from_json(value: Json) -> ContainerOptions:
    """Parses the options; raises Invalid for anything else."""
    found = read_valid(ContainerOptions, value, "container")
    refuse_options(found.options)
    return found


def parse_mount(text: str, folder: str) -> ContainerMount:
    """Parses `DIR`, `DIR:/target`, `DIR:/target:ro`; a relative DIR counts from the folder."""
    parts = text.split(":")
    mode = parts.pop() if len(parts) > 1 and parts[-1] in ("ro", "rw") else "rw"
    if not 1 <= len(parts) <= 2 or not all(parts):
        raise Invalid(
            f"--mount {text[:80]!r} is not SOURCE[:TARGET[:ro]]", hint="for example ./data:/data:ro"
        )
    source = posixpath.normpath(posixpath.join(folder, parts[0]))
    target = parts[1] if len(parts) == 2 else source
    if not target.startswith("/"):
        raise Invalid(f"--mount {text[:80]!r}: the target {target[:40]!r} is not an absolute path")
    return ContainerMount(source, target, mode == "ro")
