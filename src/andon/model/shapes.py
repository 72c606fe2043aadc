"""JSON objects as types: derived from the values that are encoded, and given as JSON Schema.

An encoder that writes more than the fields of a value declares what it adds beside itself, as
`Member`s; so a field of an answer is named once.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import EnumType
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Struct
from msgspec.structs import fields

from andon.model.codec import to_json as to_json

Json = dict[str, Any]
REF = "#/components/schemas/"
_PLAIN = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}


class Member(Struct, frozen=True):
    """One member of a JSON object; `type` is a Python type, or a JsonShape."""

    type: Any
    about: str = ""


class JsonShape(Struct, frozen=True):
    """A JSON object with exactly these members, all of them always present."""

    name: str
    about: str
    members: Mapping[str, Member]
    is_open: bool = False  # further members may appear


class Doc(Struct, frozen=True):
    """What a field means: `uuid: Annotated[str, Doc("its identity")]`."""

    text: str


_NO_DOC = Doc("")


def names_of(kind: type[Struct], *first: str, without: Collection[str] = ()) -> tuple[str, ...]:
    """Returns the names of a value's fields."""
    found = dict.fromkeys((*first, *kind.__struct_fields__))
    return tuple(name for name in found if name not in without)


def plain(value: object, names: Iterable[str]) -> Json:
    """Returns these attributes of a value, unchanged."""
    return {name: getattr(value, name) for name in names}


def types_of(kind: type[Struct]) -> dict[str, Any]:
    """Returns the types of a value's fields by their JSON names, with descriptions, in order."""
    return {one.encode_name: one.type for one in fields(kind)}


def members_of(kind: type[Struct], without: Sequence[str] = ()) -> dict[str, Member]:
    """Returns the fields of a value, with their types and descriptions."""
    return {
        name: Member(_bare(type_), doc_of(type_).text)
        for name, type_ in types_of(kind).items()
        if name not in (*without, *getattr(kind, "json_without", ()))
    }


def shape_of(
    kind: type[Struct],
    name: str = "",
    *,
    schema: str = "",
    without: Sequence[str] = (),
    more: Mapping[str, Member] | None = None,
    order: Sequence[str] = (),
) -> JsonShape:
    """Returns the JSON shape of a value: its fields, `schema` first, and what its encoder adds."""
    schema = schema or getattr(kind, "schema", "")
    front = {"schema": Member(Literal[schema], f'`"{schema}"`')} if schema else {}
    found = {**front, **members_of(kind, without), **(more or {})}
    about = (kind.__doc__ or "").partition("\n\n")[0].replace("\n    ", " ")
    return JsonShape(name or kind.__name__, about, {n: found[n] for n in order or found})


def doc_of(kind: Any) -> Doc:
    """Returns the description of a field, given its type as written."""
    notes = getattr(kind, "__metadata__", ())
    return next((note for note in notes if isinstance(note, Doc)), _NO_DOC)


def _bare(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


class Schemas:
    """JSON Schema of shapes and values; each becomes a definition under its name."""

    def __init__(self, known: Mapping[type, JsonShape], closed: bool = False) -> None:
        self.definitions: dict[str, Json] = {}
        self._known, self._closed = known, closed  # closed: a test finds what was not declared

    def ref(self, shape: JsonShape) -> Json:
        """Returns a reference to a shape, and defines it with all that it contains."""
        if shape.name not in self.definitions:
            self.definitions[shape.name] = {}  # a shape may contain itself
            self.definitions[shape.name] = self._object(shape)
        return {"$ref": REF + shape.name}

    def of(self, kind: Any) -> Json:
        """Returns the schema of a type."""
        kind = _bare(kind)
        if isinstance(kind, JsonShape):
            return self.ref(kind)
        if kind in _PLAIN:
            return {"type": _PLAIN[kind]}
        if isinstance(kind, EnumType):
            return self._enum(kind)
        if isinstance(kind, type) and issubclass(kind, Struct):
            return self.ref(self._known.get(kind) or shape_of(kind))
        return self._generic(get_origin(kind), get_args(kind), kind)

    def _generic(self, origin: Any, arguments: tuple[Any, ...], kind: Any) -> Json:
        if origin in (Union, UnionType):
            found = [self.of(one) for one in arguments]
            if {"type": "number"} in found:  # which whole numbers are, too
                found = [one for one in found if one != {"type": "integer"}]
            return found[0] if len(found) == 1 else {"anyOf": found}
        if origin is Literal:
            return {"type": "string", "const": arguments[0]}
        if origin in (tuple, list):
            return {"type": "array", "items": self.of(arguments[0])}
        if origin in (Mapping, dict):
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        raise TypeError(f"no JSON for {kind!r}")

    def _object(self, shape: JsonShape) -> Json:
        schema: Json = {
            "type": "object",
            "description": shape.about,
            "properties": dict(self._properties(shape)),
            "required": list(shape.members),
        }
        if self._closed or shape.is_open:
            schema["additionalProperties"] = shape.is_open
        return schema

    def _properties(self, shape: JsonShape) -> Iterator[tuple[str, Json]]:
        for name, member in shape.members.items():
            schema = self.of(member.type)
            yield name, {**schema, "description": member.about} if member.about else schema

    def _enum(self, kind: EnumType) -> Json:
        values = [str(one) for one in kind]  # type: ignore[var-annotated]
        self.definitions[kind.__name__] = {
            "type": "string",
            "description": kind.__doc__ or "",
            "enum": values,
        }
        return {"$ref": REF + kind.__name__}
