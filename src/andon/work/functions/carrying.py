"""Serialises a function and values for a process that is started, never forked.

A function that can be imported is sent as its name. One of a notebook, of `__main__`, a lambda or a
nested function is sent whole, which needs the package cloudpickle.
"""

import pickle
import sys
from collections.abc import Callable
from typing import Any

from andon.errors import Invalid

NEEDED = "pip install 'andon[notebooks]', or put the function into a module of its own"


def carry_function(function: Callable[..., Any]) -> bytes:
    """Serialises a function, for `carried`; raises Invalid in one line if that is not possible."""
    if not callable(function):
        raise Invalid(f"{function!r} is not a function")
    if not _is_by_value(function):
        try:
            return pickle.dumps(function)
        except (pickle.PicklingError, AttributeError, TypeError, ImportError):
            pass  # a lambda, or a function inside another
    name = getattr(function, "__qualname__", repr(function))
    try:
        import cloudpickle
    except ImportError:
        raise Invalid(
            f"{name} cannot be imported by another process, and cloudpickle is not installed",
            hint=NEEDED,
        ) from None
    try:
        return bytes(cloudpickle.dumps(function))
    except Exception as exc:
        raise Invalid(
            f"{name} cannot be sent to another process: {exc}",
            hint="it must not refer to open files, locks or devices",
        ) from exc


def carry_value(value: object) -> bytes:
    """Serialises an argument or a result; raises Invalid in one line if that is not possible."""
    try:
        return pickle.dumps(value)
    except Exception as plain:  # noqa: BLE001 - whatever its own code raises
        try:
            import cloudpickle

            return bytes(cloudpickle.dumps(value))
        except ImportError:
            why: Exception = plain
        except Exception as exc:  # noqa: BLE001 - whatever its own code raises
            why = exc
    kind = type(value).__name__
    raise Invalid(f"a value of type {kind} cannot be sent to another process: {why}")


def carried(content: bytes) -> Any:
    """Returns the carried value; raises what importing or building it raises."""
    return pickle.loads(content)  # noqa: S301 - from our own parent or child


def _is_by_value(function: Callable[..., Any]) -> bool:
    """Whether another process cannot import the function: one of a notebook or a script."""
    module = getattr(function, "__module__", None)
    return module in (None, "__main__") or module not in sys.modules
