"""Calls into a C library, prepared once, because a wrapper would cost more than the call."""

import ctypes
from collections.abc import Callable
from typing import Any


class LibraryCall:
    """One function of the library, found when it is first needed."""

    def __init__(
        self, find: Callable[[str], Any], failure: Callable[[int], Exception], name: str
    ) -> None:
        self._find, self._failure, self._name = find, failure, name
        self._function: Any = None

    def into(self, out: Any, *arguments: Any) -> None:
        """Calls it with a buffer for its answer; raises on a code other than 0.

        The caller passes a new buffer each time: a stuck call may still write to it.
        """
        function = self._function
        if function is None:
            function = self._function = self._find(self._name)
        code = function(*arguments, ctypes.byref(out))
        if code:
            raise self._failure(code)


class Number(LibraryCall):
    """A call that returns one 32-bit integer."""

    def of(self, *arguments: Any) -> int:
        answer = ctypes.c_uint()
        self.into(answer, *arguments)
        return answer.value


class LongNumber(LibraryCall):
    """A call that returns one 64-bit integer."""

    def of(self, *arguments: Any) -> int:
        answer = ctypes.c_ulonglong()
        self.into(answer, *arguments)
        return answer.value
