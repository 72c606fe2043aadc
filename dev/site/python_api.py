"""The reference of the Python API, made from the signatures and docstrings of public names."""

import inspect
from collections.abc import Iterator
from types import ModuleType, UnionType
from typing import Any

import andon

PLAIN = (ModuleType, UnionType, str)
ALIASES = {"GpuMonitor": "GPUMonitor"}


def python_page() -> str:
    """The whole page: functions, then classes, each group by its names."""
    found = {name: getattr(andon, name) for name in andon.__all__ if name not in ALIASES}
    functions = {n: o for n, o in found.items() if inspect.isfunction(o)}
    classes = {n: o for n, o in found.items() if inspect.isclass(o)}
    others = {n: o for n, o in found.items() if n not in functions and n not in classes}
    parts = ["# Python names\n\nWhat `import andon` gives; [From Python](../python.md) shows it.\n"]
    parts += ["\n## Functions\n"]
    parts += [_called(f"andon.{name}", one, 3) for name, one in sorted(functions.items())]
    parts += ["\n## Classes\n"]
    for name, one in sorted(classes.items()):
        parts += _class(name, one)
    parts += ["\n## Others\n\n"]
    parts += [f"- `andon.{name}`: {_about(one)}\n" for name, one in sorted(others.items())]
    parts += [f"- `andon.{name}`: another name of `{of}`.\n" for name, of in ALIASES.items()]
    return "".join(parts)


def _about(one: Any) -> str:
    if isinstance(one, str):
        return "the version, as text."
    if isinstance(one, UnionType):
        return "the type of " + ", ".join(f"`{part.__name__}`" for part in one.__args__) + "."
    return _docs(one)


def _called(name: str, one: Any, level: int) -> str:
    return f"\n{'#' * level} {name}\n\n```python\n{name}{_signature(one)}\n```\n\n{_docs(one)}\n"


def _signature(one: Any) -> str:
    """The parameters with their defaults; types would hide the names."""
    try:
        found = inspect.signature(one)
    except (TypeError, ValueError):
        return "(…)"
    shown = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in found.parameters.items()
        if not name.startswith("_") and name not in ("self", "cls")
    ]
    text = str(found.replace(parameters=shown, return_annotation=inspect.Signature.empty))
    return text if " at 0x" not in text and "<" not in text else "(…)"


def _class(name: str, one: type) -> Iterator[str]:
    fields = getattr(one, "__struct_fields__", ())
    yield f"\n### andon.{name}\n\n{_docs(one)}\n\n"
    if fields:
        yield "Fields: " + ", ".join(f"`{field}`" for field in fields) + ".\n\n"
    for member, value in vars(one).items():
        if member.startswith("_") or member in fields:
            continue
        if isinstance(value, property):
            yield f"- `{member}`: {_docs(value)}\n"
        elif callable(value) or isinstance(value, (classmethod, staticmethod)):
            plain = getattr(value, "__func__", value)
            yield f"- `{member}{_signature(plain)}`: {_docs(plain)}\n"


def _docs(one: Any) -> str:
    return " ".join((inspect.getdoc(one) or "").split()).replace("<", "&lt;") or "see its name."
