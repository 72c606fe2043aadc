"""The arguments with which an engine creates a container for an order.

Devices are named by their full UUIDs, never by a count: an engine that is asked for one device
twice gives the first one twice. No mask is set in addition: inside they are numbered from 0.
"""

from collections.abc import Iterable

from msgspec import Struct

from andon.model.device import Device
from andon.model.execution import ContainerMount, ContainerOptions, WorkOrder
from andon.model.vendors import AMD, INTEL, NVIDIA

LEASE_LABEL, UID_LABEL = "andon.lease", "andon.uid"  # for people: we go by our own notes
HOME = "/tmp/andon-home"  # noqa: S108 - a path in the container
DOCKER, PODMAN = "docker", "podman"
WITH_FILES = frozenset({AMD.name, INTEL.name})
"""Vendors whose devices a container gets as files."""


class EngineFacts(Struct, frozen=True):
    """Which engine answers, and whether it runs without root: then its root is this user."""

    kind: str
    rootless: bool = False


def create_arguments(order: WorkOrder, options: ContainerOptions, engine: EngineFacts) -> list[str]:
    """Returns the arguments after `docker create`."""
    return [
        *(f"--label={name}={value}" for name, value in _labels(order)),
        *_device_arguments(order, engine),
        *_user_arguments(order, options, engine),
        *_folder_arguments(order, options),
        *_stream_arguments(order),
        *(f"--env={name}={value}" for name, value in sorted(order.environment.items())),
        *options.options,
        options.image,
        *order.command,
    ]


def _labels(order: WorkOrder) -> Iterable[tuple[str, str]]:
    yield LEASE_LABEL, order.label
    yield UID_LABEL, str(order.submitter.uid)


def _device_arguments(order: WorkOrder, engine: EngineFacts) -> Iterable[str]:
    nvidia = [device for device in order.devices if device.vendor == NVIDIA.name]
    if engine.kind == PODMAN:
        yield from (f"--device=nvidia.com/gpu={device.uuid}" for device in nvidia)
    elif nvidia:
        # A list inside one value of the engine's comma-separated form, hence the quotes.
        yield f'--gpus="device={",".join(device.uuid for device in nvidia)}"'
    yield from _file_arguments(order)


def _file_arguments(order: WorkOrder) -> Iterable[str]:
    """Yields the arguments for AMD and Intel devices, which are files of this machine."""
    others = [device for device in order.devices if device.vendor in WITH_FILES]
    if any(device.vendor == AMD.name for device in others):
        yield "--device=/dev/kfd"
    for device in others:
        if (file := order.device_files.get(device.uuid)) is not None:
            yield f"--device={file}"


def without_files(order: WorkOrder) -> tuple[Device, ...]:
    """Returns the devices whose files are unknown, which no container can be given."""
    return tuple(
        device
        for device in order.devices
        if device.vendor in WITH_FILES and device.uuid not in order.device_files
    )


def _user_arguments(
    order: WorkOrder, options: ContainerOptions, engine: EngineFacts
) -> Iterable[str]:
    """Yields the arguments for the user: the submitter, so that files belong to them; in a
    rootless engine that is its root."""
    if options.user is not None:
        yield f"--user={options.user}"
    elif engine.rootless:
        yield "--user=0:0"
    else:
        yield f"--user={order.submitter.uid}:{order.submitter.gid}"
        yield from (f"--group-add={group}" for group in order.submitter.groups)


def _folder_arguments(order: WorkOrder, options: ContainerOptions) -> Iterable[str]:
    """Yields the arguments for the working folder at the same path, so that paths on the command
    line stay valid."""
    mounts = [ContainerMount(order.folder, order.folder, False), *options.mounts]
    if order.home is not None:
        mounts.append(ContainerMount(order.home, HOME, False))
        yield f"--env=HOME={HOME}"
    for mount in {mount.target: mount for mount in mounts}.values():
        yield f"--mount={_csv(mount)}"
    yield f"--workdir={order.folder}"
    if order.shm_bytes is not None:
        yield f"--shm-size={order.shm_bytes}"


def _csv(mount: ContainerMount) -> str:
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    fields += ["readonly"] * mount.readonly
    return ",".join(_quoted(one) for one in fields)


def _quoted(field: str) -> str:
    if "," not in field and '"' not in field:
        return field
    return '"' + field.replace('"', '""') + '"'


def _stream_arguments(order: WorkOrder) -> Iterable[str]:
    if order.stdin:
        yield "--interactive"
    if order.terminal:
        yield "--tty"
    yield "--log-driver=json-file"  # its output is read from the engine, also by a later supervisor
