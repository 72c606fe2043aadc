"""The request of `andon map`: its options and its items."""

from pathlib import Path
from typing import Any

from msgspec import Struct

from andon.errors import Invalid
from andon.model.execution import ContainerOptions
from andon.units import command_name
from andon.work.map.reading import files_as_items, items_in
from andon.work.rules.map.items import MapItem, Redo, digest
from andon.work.rules.map.plan import MapPolicy


class MapRequest(Struct, frozen=True):
    """What `andon map` is to do, besides the devices that it requests."""

    command: tuple[str, ...]
    files: tuple[str, ...]
    items_file: str | None
    null: bool
    jsonl: bool
    gpus: int | None
    gpus_per_worker: int
    per_gpu: int
    cpu: int | None
    bind: bool
    worker: bool
    per_call: int
    policy: MapPolicy
    item_timeout: float | None
    keep_order: bool
    resume: str | None
    redo: Redo
    scaling: tuple[int, ...]
    name: str | None
    folder: Path | None
    image: ContainerOptions | None = None

    @classmethod
    def of(
        cls,
        command: tuple[str, ...],
        folder: Path | None,
        options: dict[str, Any],
        image: ContainerOptions | None = None,
    ) -> "MapRequest":
        made: dict[str, Any] = {
            "command": command,
            "policy": MapPolicy(options["retries"], options["max_failures"]),
            "redo": Redo(options["redo"] or Redo.UNDONE),
            "scaling": options["scaling"] or (),
            "folder": folder,
            "image": image,
        }
        given = {name: options[name] for name in cls.__struct_fields__ if name not in made}
        found = cls(**given, **made)
        found._refuse_nonsense(options)
        return found

    @property
    def title(self) -> str:
        return self.name or command_name(self.command)

    @property
    def digest(self) -> str:
        """Returns a digest that is the same for the same command in the same image."""
        return digest(self.command if self.image is None else (self.image.image, *self.command))

    def _refuse_nonsense(self, options: dict[str, Any]) -> None:
        if self.files and self.items_file:
            raise Invalid("--files and --items cannot be combined")
        if self.jsonl and (self.files or self.null):
            raise Invalid("--jsonl reads lines: it cannot be combined with --files or -0")
        if self.worker and self.per_call > 1:
            raise Invalid("--worker gets one item at a time: leave --per-call out")
        if self.per_gpu > 1 and not (options["shared"] and options["memory"]):
            raise Invalid(
                "several workers on one GPU need to share its memory",
                hint=f"add --shared --memory SIZE, with what each of the {self.per_gpu} needs",
            )
        if self.per_gpu > 1 and self.gpus_per_worker > 1:
            raise Invalid("--per-gpu and --gpus-per-worker cannot be combined")
        if self.bind and self.cpu is not None:
            raise Invalid("--bind needs GPUs: the workers of --cpu have none")
        if self.scaling and self.resume:
            raise Invalid("--scaling works on all items: leave --resume out")


def read_items(request: MapRequest) -> tuple[MapItem, ...]:
    """Reads the items; there is at least one."""
    if request.files:
        items = files_as_items(request.files)
    else:
        items = items_in(request.items_file or "-", request.jsonl, request.null)
    if not items:
        raise Invalid("there are no items", hint="--files 'GLOB', --items FILE, or lines on stdin")
    return items
