"""JSON of the options of a container: a job keeps them until it starts."""

from collections.abc import Mapping

from andon.errors import Invalid
from andon.model.execution import (
    ContainerMount,
    ContainerOptions,
    PullPolicy,
    refuse_options,
)

Json = Mapping[str, object]


def options_to_json(options: ContainerOptions) -> dict[str, object]:
    return {
        "image": options.image,
        "mounts": [[one.source, one.target, one.readonly] for one in options.mounts],
        "options": list(options.options),
        "user": options.user,
        "pull": str(options.pull),
    }


def options_from_json(value: Json) -> ContainerOptions:
    """Invalid for anything that was not written by the above."""
    image, user = value.get("image"), value.get("user")
    options = _texts(value.get("options", []))
    try:
        pull = PullPolicy(str(value.get("pull", PullPolicy.NEVER)))
    except ValueError as exc:
        raise Invalid("container: pull is never or missing") from exc
    if not isinstance(image, str) or not image or not isinstance(user, str | None):
        raise Invalid("container: image and user are names")
    refuse_options(options)
    return ContainerOptions(image, _mounts(value.get("mounts", [])), options, user, pull)


def _mounts(value: object) -> tuple[ContainerMount, ...]:
    if not isinstance(value, list):
        raise Invalid("container: mounts is not a list")
    found: list[ContainerMount] = []
    for one in value:
        if not isinstance(one, list) or len(one) != 3 or not isinstance(one[2], bool):
            raise Invalid("container: a mount is [source, target, read-only]")
        source, target = _texts(one[:2])
        found.append(ContainerMount(source, target, one[2]))
    return tuple(found)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise Invalid("container: a list of texts is expected")
    return tuple(value)
