"""Calls into a C library, prepared once: every second, a wrapper's own code costs more than it."""

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
        """Call it with a place for its answer; a code other than 0 is raised.

        The place is the caller's and new each time: a call that is stuck may still write to it.
        """
        function = self._function
        if function is None:
            function = self._function = self._find(self._name)
        code = function(*arguments, ctypes.byref(out))
        if code:
            raise self._failure(code)


class Number(LibraryCall):
    """A call that answers one whole number."""

    def of(self, *arguments: Any) -> int:
        answer = ctypes.c_uint()
        self.into(answer, *arguments)
        return answer.value


class LongNumber(LibraryCall):
    """The same with 64 bits."""

    def of(self, *arguments: Any) -> int:
        answer = ctypes.c_ulonglong()
        self.into(answer, *arguments)
        return answer.value
