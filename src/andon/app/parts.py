"""Opens the parts of a process in the order of their need, and closes them in reverse.

A part is a function with the name of what it returns, which is closed at the end unless it is
None; or a generator, which yields it once, and closes it by what stands after the `yield`. Both
are closed also if another one fails. Its parameters name the parts that it needs; one with a
default is given only where there is such a part.
"""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

T = TypeVar("T")
Part = Callable[..., Any]


def run_with(parts: Sequence[Part], run: Callable[..., T], **given: object) -> T:
    """Opens the parts and calls `run` with the ones it needs. All are closed at the end, even if
    closing one fails."""
    ordered, values = in_order(parts, given), dict(given)
    check_needs(run, {*given, *(part.__name__ for part in ordered)})
    with ExitStack() as stack:
        for part in ordered:
            opened = part(**_needed(part, values))
            if isinstance(opened, Generator):
                values[part.__name__] = next(opened)
                stack.callback(next, opened, None)
            else:
                values[part.__name__] = opened
                stack.callback(_close, opened)
        return run(**_needed(run, values))


def in_order(parts: Sequence[Part], given: Collection[str]) -> list[Part]:
    """Returns the parts in the order of the list, each after those that it needs; TypeError if a
    need is not met, or if parts need each other."""
    listed = {part.__name__: part for part in parts}
    if len(listed) < len(parts):
        names = [part.__name__ for part in parts]
        raise TypeError(f"several parts are named {max(names, key=names.count)}")
    found = dict[str, Part]()

    def add(name: str, *above: str) -> None:
        if name in above:
            raise TypeError(f"parts need each other: {', '.join(above[above.index(name) :])}")
        if name not in found:
            check_needs(listed[name], {*listed, *given})
            for need in needs_of(listed[name]):
                if need in listed:
                    add(need, *above, name)
            found[name] = listed[name]

    for name in listed:
        add(name)
    return list(found.values())


def check_needs(caller: Callable[..., object], known: Collection[str]) -> None:
    for need, must_be in needs_of(caller).items():
        if must_be and need not in known:
            raise TypeError(f"{caller.__name__} needs {need}, which no part of the list is")


def instead(parts: Sequence[Part], other: Part) -> tuple[Part, ...]:
    """Returns the list with this in place of the part of the same name."""
    names = [part.__name__ for part in parts]
    place = names.index(other.__name__)
    return (*parts[:place], other, *parts[place + 1 :])


def needs_of(caller: Callable[..., object]) -> dict[str, bool]:
    """Returns the names of its parameters, and whether each must be given."""
    code, optional = caller.__code__, len(caller.__defaults__ or ())
    names = code.co_varnames[: code.co_argcount]
    return {name: place < len(names) - optional for place, name in enumerate(names)}


def _needed(caller: Callable[..., object], values: Mapping[str, object]) -> dict[str, object]:
    return {name: values[name] for name in needs_of(caller) if name in values}


def _close(opened: Any) -> None:
    if opened is not None:
        opened.close()
