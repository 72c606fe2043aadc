"""The command that runs another one in a container, as a process that outlives its parent.

It creates the container, writes its id into the lease, starts and follows it, and removes it at the
end, whether or not the job or the map that requested it still exists.
"""

import json
from collections.abc import Mapping, Sequence

from andon.host.interpreter import process_command
from andon.model.device import Device


def task_command(
    container: Mapping[str, object],
    label: str,
    devices: Sequence[Device],
    environment: Mapping[str, str],
    command: Sequence[str],
    engine: str | None = None,
    stdin: bool = False,
    sweep: bool = True,
    attempt: str | None = None,
) -> list[str]:
    """Returns the command that runs another one in a container. `label` is the lease's id, `engine`
    by default the one of the settings. `stdin` passes input on; without `sweep`, the remains of
    other supervisors stay; the container's id is written into the folder `attempt`."""
    task = {
        "engine": engine,
        "container": dict(container),
        "lease": label,
        "devices": [
            {"uuid": one.uuid, "index": one.index, "vendor": one.vendor, "pci": one.pci}
            for one in devices
        ],
        "environment": dict(environment),
        "stdin": stdin,
        "sweep": sweep,
        "attempt": attempt,
    }
    return process_command("container", "run", json.dumps(task), *command)


def follow_command(label: str, image: object, since: float) -> list[str]:
    """The command that follows the container of a lease, with its output from this time on."""
    task = {"lease": label, "image": image, "since": since}
    return process_command("container", "follow", json.dumps(task))


def clean_command(label: str) -> list[str]:
    """Returns the command that removes what is left of the containers of a lease."""
    return process_command("container", "clean", label)
