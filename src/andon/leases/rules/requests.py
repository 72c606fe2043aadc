"""A request for devices as it is written: one table for the CLI, Python, REST and job files."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from andon.errors import Invalid
from andon.model.job.device_request import MOST_PRIORITY, DeviceRequest, PlacementOrder
from andon.units import parse_bytes

MOST_GPUS = 1024
ALL = "all"
LONGEST_WAIT_SECONDS = 30.0  # for a network caller, which keeps a connection open
SHORTEST_REMOTE_SECONDS, LONGEST_REMOTE_SECONDS = 10.0, 7 * 86_400.0
DEFAULT_WAIT_SECONDS = 300.0
DEFAULT_LEASE_SECONDS = 8 * 3600.0  # of the library
_COUNT = r"([0-9]{1,6})(?:\.\.([0-9]{1,6}))?"
_BARE_NUMBER = r"\s*[0-9]+(\.[0-9]*)?\s*"
_SHOWN = 40  # characters of the input quoted in a message

Count = int | str
Size = str | None
Names = str | Sequence[str]
Seconds = float | str | None


class RestField(Struct, frozen=True):
    """How REST names an option, and where it differs from Python: its default and its range."""

    name: str
    default: object = None
    low: float | None = None
    high: float | None = None


class OptionText(Struct, frozen=True):
    """The description of an option beyond its name, type and default."""

    help: str
    metavar: str = ""
    option: str | None = None  # the CLI's long option, if it is not the name; "": it has none
    short: str = ""
    rest: str | RestField | None = ""  # if it is not the name; None: not over the network
    queue: bool = False  # only for commands that wait


class RequestOption(Struct, frozen=True):
    """One row of the table: an option of a request, and its name in each interface."""

    name: str  # Python's keyword, and a job file's key
    type: Any  # bool, int, Count, Size, Names or Seconds: how it is written, and so how it is read
    default: Any
    help: str
    metavar: str
    option: str
    short: str
    rest: RestField | None
    queue: bool


class FirstOptions(Struct, frozen=True):
    """The options that may be given without their names."""

    gpus: Annotated[
        Count, OptionText("Number of GPUs, a range, or all.", "N|N..M|all", short="-g")
    ] = 1
    memory: Annotated[
        Size, OptionText("Minimum free memory per GPU, e.g. 20GiB.", "SIZE", short="-m")
    ] = None


class RequestOptions(FirstOptions, frozen=True, kw_only=True):
    """The devices that are requested, as written; its fields are the rows of the table."""

    shared: Annotated[bool, OptionText("Hold only the requested memory; others may share it.")] = (
        False
    )
    model: Annotated[Names, OptionText("Only these models.", "NAME,…", rest="models")] = ()
    label: Annotated[
        Names, OptionText("Only GPUs with these labels.", "NAME,…", rest="labels")
    ] = ()
    devices: Annotated[
        Names, OptionText("Only these GPUs: index, 3:0, UUID or its prefix.", "D,…", short="-d")
    ] = ()
    exclude: Annotated[Names, OptionText("Not these GPUs.", "D,…", short="-x")] = ()
    prefer: Annotated[Names, OptionText("Prefer these: model, label or device.", "D,…")] = ()
    pack: Annotated[bool, OptionText("Fill GPUs up instead of spreading.")] = False
    unbalanced: Annotated[bool, OptionText("Allow GPUs with different free memory.")] = False
    even_if_used: Annotated[
        bool, OptionText("Also take GPUs used by unleased processes.", rest=None)
    ] = False
    priority: Annotated[
        int, OptionText("Queue priority; below 0 lets others go first.", "N", queue=True)
    ] = 0

    def request(self) -> DeviceRequest:
        """Returns the request; raises Invalid with the same sentence for every interface."""
        least, most = parse_count(self.gpus)
        return checked(
            DeviceRequest(
                least=least,
                most=most,
                memory_bytes=parse_memory(self.memory),
                shared=self.shared,
                models=_names(self.model),
                labels=_names(self.label),
                devices=_names(self.devices),
                exclude=_names(self.exclude),
                prefer=_names(self.prefer),
                layout=PlacementOrder.PACK if self.pack else PlacementOrder.SPREAD,
                balanced=not self.unbalanced,
                even_if_used=self.even_if_used,
                priority=self.priority,
                every=_is_all(self.gpus),
            )
        )


class LeaseOptions(RequestOptions, frozen=True, kw_only=True):
    """The devices, how long to wait for them, and how long to hold them."""

    timeout: Annotated[
        Seconds,
        OptionText(
            "Maximum wait; 0 does not wait.",
            "TIME",
            short="-t",
            rest=RestField("wait_seconds", 0.0, 0.0, LONGEST_WAIT_SECONDS),
            queue=True,
        ),
    ] = DEFAULT_WAIT_SECONDS
    seconds: Annotated[
        Seconds,
        OptionText(
            "How long the lease lasts.",
            "TIME",
            option="--for",
            rest=RestField("seconds", 600.0, SHORTEST_REMOTE_SECONDS, LONGEST_REMOTE_SECONDS),
        ),
    ] = DEFAULT_LEASE_SECONDS
    simulated: Annotated[bool, OptionText("Lease simulated devices.", option="", rest=None)] = False


@cache
def rows(options: type[RequestOptions]) -> tuple[RequestOption, ...]:
    """Returns the table, in the order in which options are listed."""
    return tuple(_row(one) for one in fields(options))


def _row(one: FieldInfo) -> RequestOption:
    written: Any = one.type
    about: OptionText = written.__metadata__[0]
    long = "--" + one.name.replace("_", "-") if about.option is None else about.option
    rest = about.rest if about.rest != "" else one.name
    return RequestOption(
        name=one.name,
        type=written.__origin__,
        default=one.default,
        help=about.help,
        metavar=about.metavar,
        option=long,
        short=about.short,
        rest=RestField(rest, one.default) if isinstance(rest, str) else rest,
        queue=about.queue,
    )


def options_from_rest(given: Mapping[str, Any]) -> RequestOptions:
    """Returns the options from a request body, by REST's names; not every body has all."""
    named = {row.rest.name: row.name for row in rows(RequestOptions) if row.rest is not None}
    return RequestOptions(**{named[name]: one for name, one in given.items() if name in named})


def parse_count(value: Count) -> tuple[int, int]:
    """Parses a count: `2` is (2, 2), `2..4` is (2, 4), `all` is at least one."""
    if _is_all(value):
        return 1, MOST_GPUS
    match = re.fullmatch(_COUNT, str(value).strip())
    least, most = (int(match[1]), int(match[2] or match[1])) if match else (-1, -1)
    if isinstance(value, bool) or not 0 <= least <= most <= MOST_GPUS:
        raise Invalid(
            f"{str(value)[:_SHOWN]!r} is not a number of GPUs",
            hint="use 1, 2..4 for a range, or all",
        )
    return least, most


def _is_all(value: Count) -> bool:
    return str(value).strip().lower() == ALL


def parse_memory(value: object) -> int | None:
    """Parses a size in bytes: `10GiB`, `10G`, `8000MB`. A number alone could mean bytes or MiB."""
    if value is None:
        return None
    text = str(value)[:_SHOWN]
    if re.fullmatch(_BARE_NUMBER, text, re.ASCII):
        number = text.strip().rstrip(".")
        raise Invalid(
            f"memory {number!r} has no unit",
            hint=f"add one: {number}GiB, {number}MiB, or {number}B for bytes",
        )
    try:
        size = parse_bytes(str(value))
    except ValueError as exc:
        raise Invalid(f"memory {exc}", hint="a number and a unit: 10GiB, 8000MB") from exc
    if not size:
        raise Invalid(f"memory {text!r} is not greater than 0", hint="e.g. 10GiB")
    return size


def checked(request: DeviceRequest) -> DeviceRequest:
    """Returns the request; raises Invalid if it makes no sense."""
    if not 0 <= request.least <= request.most <= MOST_GPUS:
        raise Invalid(f"{request.least}..{request.most} is not a number of GPUs")
    if request.memory_bytes is not None and request.memory_bytes <= 0:
        raise Invalid("memory must be greater than 0", hint="e.g. 10GiB")
    if request.shared and request.memory_bytes is None:
        raise Invalid("a shared device needs an amount of memory", hint="add memory, e.g. 10GiB")
    if type(request.priority) is not int or abs(request.priority) > MOST_PRIORITY:
        raise Invalid(
            f"{str(request.priority)[:_SHOWN]!r} is not a priority",
            hint=f"use -{MOST_PRIORITY} to {MOST_PRIORITY}",
        )
    return request


def _names(value: Names) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    return tuple(name.strip() for names in given for name in str(names).split(",") if name.strip())
