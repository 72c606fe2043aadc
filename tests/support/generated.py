"""Any value of a struct, by the types of its fields."""

from collections.abc import Mapping
from enum import EnumType
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields

PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text("aé\x9b{", max_size=3),
    int: st.integers(0, 2**53),
    float: st.floats(0, 1e12),
    bool: st.booleans(),
    NoneType: st.none(),
}


def any_of(kind: Any, **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of a type; `fixed` gives some fields of a struct a strategy of their own."""
    if kind in PLAIN:
        return PLAIN[kind]
    if isinstance(kind, EnumType):
        return st.sampled_from(list(kind))
    if isinstance(kind, type) and issubclass(kind, Struct):
        parts = {f.name: any_of(f.type) for f in fields(kind) if f.name not in fixed}
        return st.builds(kind, **parts, **fixed)
    return _generic(get_origin(kind), get_args(kind))


def _generic(origin: Any, arguments: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if origin is Annotated:
        return any_of(arguments[0])
    if origin in (Union, UnionType):
        return st.one_of([any_of(one) for one in arguments])
    if origin in (Mapping, dict):
        return st.dictionaries(PLAIN[str], any_of(arguments[1]), max_size=2)
    items = st.lists(any_of(arguments[0]), max_size=2)
    return items.map(tuple) if origin is tuple else items
