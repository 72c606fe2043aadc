"""What a test says about a command that is to be forked."""

import struct
from typing import TypedDict

HEADER = struct.Struct("!Q")  # the length of what follows; the descriptors 0 to 2 come with it
FLAGS = frozenset(("-P", "-u"))  # of the interpreter, which a forked one can have, too


class Start(TypedDict):
    """A command with its surroundings."""

    args: list[str]  # from the interpreter on
    env: dict[str, str]
    cwd: str
    umask: int
    session: bool
    group: int
    parent: int
