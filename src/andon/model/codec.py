"""Structs as JSON. JSON of other programs is checked against the declared types and bounds.

A recorded file or a server is as untrusted as the network, and an invalid number would spread.
Unknown fields are ignored, so that a newer writer can be read; the first field of a wrong type,
range or length is rejected with its place: `devices[3].pci is 5, not a string`.
"""

import math
import re
import sys
from _thread import allocate_lock
from collections.abc import Iterator, Mapping
from enum import EnumType
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.json import Decoder
from msgspec.structs import fields

from andon.errors import Invalid

T = TypeVar("T")
D = TypeVar("D", bound="JsonDocument")
Json = dict[str, Any]

MOST = 2.0**64
"""No number is larger: a driver may report all 64 bits set."""
LATEST = 250_000_000_000.0
"""In the year 9892: every clock and calendar here can show it."""
LONGEST = 16_384
"""Characters of a string; a redacted command line has a quarter of that."""
NAME = 512
"""Characters of a name: of a device, a user, a container."""
LONGEST_ID = 64
"""Characters of an id: of a run, a lease, a silence."""
MOST_ITEMS = 65_536
MOST_PID = 2**32 - 1
_SHOWN = 40
_PREPARED, _PREPARING = set[Any](), allocate_lock()
MOST_WHOLE = 2**63 - 1
_SHOWABLE = r"\A[^\ud800-\udfff]*\Z"  # no output can show a lone surrogate, which JSON may have
Name = Annotated[str, Meta(max_length=NAME, pattern=_SHOWABLE)]
Text = Annotated[str, Meta(max_length=LONGEST, pattern=_SHOWABLE)]
Id = Annotated[str, Meta(max_length=LONGEST_ID, pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]*\Z")]
"""May be a part of a path, of a command line and of a line of a log."""
Time = Annotated[float, Meta(ge=0.0, le=LATEST)]
"""UTC seconds."""
Signed = Annotated[int, Meta(ge=-MOST_WHOLE, le=MOST_WHOLE)]
Number = Signed | Annotated[float, Meta(ge=-MOST, le=MOST)]
"""Finite, and of the type that it was written in."""
Whole = Annotated[int, Meta(ge=0, le=MOST_WHOLE)]
Amount = Whole | Annotated[float, Meta(ge=0.0, le=MOST)]
"""A number of at least 0."""
Percent = Annotated[float, Meta(ge=0.0, le=100.0)]
_GREATEST = sys.float_info.max
AnyNumber = Signed | Annotated[float, Meta(ge=-_GREATEST, le=_GREATEST)]
"""A program's own number: a loss that diverges is as large as it is."""
ExitCode = Annotated[int, Meta(ge=-(2**31), le=2**32)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
"""Above it, programs that use floats are wrong."""
Pid = Annotated[int, Meta(ge=0, le=MOST_PID)]
Index = Annotated[int, Meta(ge=0, le=65_535)]
Names = Annotated[tuple[Name, ...], Meta(max_length=MOST_ITEMS)]
Texts = Annotated[Mapping[Name, Text], Meta(max_length=MOST_ITEMS)]
"""A text for each name, such as why a value is missing."""


DEEPEST = 64
"""Levels of lists and tables; nothing of andon has twenty, and to show it takes a call for each."""


def is_shallow(value: Any) -> bool:
    """Whether a list or table is nested no deeper than allowed."""
    level = [value]
    for _ in range(DEEPEST):
        inner = (one.values() if type(one) is dict else one for one in level)
        level = [one for some in inner for one in some if type(one) in (dict, list)]
        if not level:
            return True
    return False


class Wrong(ValueError):
    """An invalid field."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place} {problem}" if place else problem)
        self.place, self.problem = place, problem

    def within(self, place: str) -> "Wrong":
        """Returns the same error with an outer place before its own."""
        joint = "" if not self.place or self.place.startswith("[") else "."
        return Wrong(f"{place}{joint}{self.place}", self.problem)


def read(kind: type[T], value: object) -> T:
    """Returns the JSON value as this type; Wrong names the first field that is not as declared."""
    try:
        return convert(value, prepared(kind))
    except (ValidationError, UnicodeEncodeError) as exc:  # of a lone surrogate
        raise _first_wrong(kind, value) or Wrong("", str(exc)) from None


def prepared(kind: type[T]) -> type[T]:
    """Returns the type after msgspec has analysed it, in one thread at a time: it caches the result
    before that is complete, and another thread that uses the type meanwhile crashes."""
    if kind not in _PREPARED:
        with _PREPARING:
            Decoder(kind)
            _PREPARED.add(kind)
    return kind


def read_schema(kind: type[T], value: Mapping[str, Any], schema: str) -> T:
    """Reads an object that names its schema; raises Invalid for anything else."""
    if value.get("schema") != schema:
        raise Invalid(
            f"the schema is {shown(value.get('schema'))}, not {schema!r}",
            hint="this file or server has another version: upgrade the older of the two",
        )
    try:
        return read(kind, value)
    except Wrong as wrong:
        raise Invalid(f"not a valid {schema}: {wrong}") from wrong


def read_valid(kind: type[T], value: object, name: str = "") -> T:
    """Reads a part, which has no schema of its own; raises Invalid for anything else."""
    try:
        return read(kind, value)
    except Wrong as wrong:
        raise Invalid(f"not a valid {name or kind.__name__.lower()}: {wrong}") from wrong


class JsonDocument(Struct, frozen=True):
    """A value whose JSON names its schema."""

    schema: ClassVar[str]


def document(value: JsonDocument) -> Json:
    """Returns a value as an object that names its schema, as `read_document` reads it."""
    return {"schema": value.schema, **to_json(value)}


def read_document(kind: type[D], value: Mapping[str, Any]) -> D:
    """Reads what `document` wrote; raises Invalid for anything else."""
    return read_schema(kind, value, kind.schema)


@cache
def written(kind: type[Struct]) -> tuple[tuple[str, str], ...]:
    """Returns the members of a struct's JSON, and which attribute each shows: its fields, or what
    its `json_members` names: fields, properties, and `...` for all other fields. Those of its
    `json_without` are left out."""
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    named = getattr(kind, "json_members", (...,))
    placed = {*named, *getattr(kind, "json_without", ())}
    others = tuple(field for field in names if field not in placed)
    shown = (one for name in named for one in (others if name is ... else (name,)))
    return tuple((names.get(one, one), one) for one in shown)


_AS_IS = (str, int, float, NoneType)


def to_json(value: Any) -> Any:
    """Returns values as objects, in any depth, sets in order; everything else as it is."""
    if isinstance(value, _AS_IS):
        return value
    if isinstance(value, Struct):
        return {
            name: one if isinstance(one := getattr(value, field), _AS_IS) else to_json(one)
            for name, field in written(type(value))
        }
    if isinstance(value, dict | Mapping):
        return {
            name: one if isinstance(one, _AS_IS) else to_json(one) for name, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [one if isinstance(one, _AS_IS) else to_json(one) for one in value]
    return sorted(value) if isinstance(value, frozenset) else value


def rounded(kind: Any, value: object) -> object:
    """Returns the JSON value with fractions rounded where this type has a whole number."""
    if not isinstance(value, float | list | dict):
        return value
    kind = _plain(kind)
    if isinstance(value, float) and kind is int and math.isfinite(value):
        return round(value)
    if isinstance(value, list):
        inner = get_args(kind)[:1] or (None,)
        return [rounded(inner[0], item) for item in value]
    if isinstance(value, dict) and (members := _members(kind)):
        types = {name: type_ for name, type_, _ in members}
        return {name: rounded(types.get(name), item) for name, item in value.items()}
    return value


# Which field is wrong. Only a value that was rejected comes here, so it may take its time.


def _first_wrong(kind: Any, value: object) -> Wrong | None:
    try:
        convert(value, kind)
    except (ValidationError, UnicodeEncodeError) as exc:
        inside = next((one for one in _within(_plain(kind), value) if one), None)
        return inside or _wrong(_plain(kind), value, str(exc))
    return None


def _plain(kind: Any) -> Any:
    """Returns the type without bounds and without `None`."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        kinds = [one for one in get_args(kind) if one is not NoneType]
        return _plain(kinds[0]) if len(kinds) == 1 else kind
    return kind


def _within(kind: Any, value: object) -> Iterator[Wrong | None]:
    origin = get_origin(kind) or kind
    if isinstance(value, dict) and (members := _members(kind)):
        for name, type_, required in members:
            yield _named(value, name, type_, required)
    elif isinstance(value, list | tuple) and origin in (tuple, list, frozenset):
        for number, item in enumerate(value[: MOST_ITEMS + 1]):
            yield _at(f"[{number}]", get_args(kind)[0], item)
    elif isinstance(value, dict) and origin in (dict, Mapping):
        names, values = get_args(kind)
        for name, item in value.items():
            place = key_shown(str(name))
            yield _at(place, names, name) or _at(place, values, item)


@cache
def _members(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    """Returns name, type and whether it is required, for each field of a struct."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return tuple((one.encode_name, one.type, one.required) for one in fields(kind))
    if not is_typeddict(kind):
        return ()
    required = kind.__required_keys__
    hints = get_type_hints(kind, include_extras=True)
    return tuple((name, type_, name in required) for name, type_ in hints.items())


def _named(value: Json, name: str, kind: Any, required: bool) -> Wrong | None:
    if name in value:
        return _at(name, kind, value[name])
    return Wrong(name, "is missing") if required else None


def _at(place: str, kind: Any, value: object) -> Wrong | None:
    wrong = _first_wrong(kind, value)
    return None if wrong is None else wrong.within(place)


_NOT_A_TYPE = {  # of several types, the first of these is named
    "float": "not a number",
    "int": "not a whole number",
    "str": "not a string",
    "bool": "neither true nor false",
    "array": "not a list",
    "object": "not a table",
}
_LIMIT = r"Expected `\w+`.* (<=|>=) ([\d.e+-]+)"
_TYPES = r"Expected `([\w| ]+)`, got"


def _wrong(kind: Any, value: object, message: str) -> Wrong:
    """Returns the error for people, from the library's message about this value alone."""
    if isinstance(kind, EnumType):
        return Wrong("", f"is {shown(value)}, not one of: {', '.join(map(str, kind))}")
    limit, types = re.match(_LIMIT, message), re.match(_TYPES, message)
    if limit and isinstance(value, str | list | tuple | dict):
        parts = "characters" if isinstance(value, str) else "items"
        than = "more than" if limit[1] == "<=" else "fewer than"
        return Wrong("", f"has {len(value)} {parts}, {than} {limit[2]}")
    if limit or "out of range" in message:
        return Wrong("", f"is {shown(value)}, which is out of range")
    if types:
        named = {one.strip() for one in types[1].split("|")}
        text = next((text for one, text in _NOT_A_TYPE.items() if one in named), "not as expected")
        return Wrong("", f"is {shown(value)}, {text}")
    if "regex" in message:
        return Wrong("", f"is {shown(value)}, not {'a string' if 'ud800' in message else 'an id'}")
    return Wrong("", message)


def shown(value: object) -> str:
    """Returns a short form of a value for messages."""
    if type(value) is int and abs(value) > MOST:
        return "a huge number"
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a table"
    text = ascii(value[: 2 * _SHOWN]) if isinstance(value, str) else ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def key_shown(key: str) -> str:
    """Returns a short form of a foreign name for messages."""
    return ascii(key[:_SHOWN])[1:-1]
