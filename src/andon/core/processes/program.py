"""What a process is called: its script or module rather than the interpreter that runs it."""

import re

_INTERPRETERS = re.compile(
    r"(?:python[\d.]*w?|pypy[\d.]*|perl[\d.]*|ruby[\d.]*|node|bash|dash|zsh|sh)", re.IGNORECASE
)
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*w?", re.IGNORECASE)
_WITH_VALUE = frozenset(("-W", "-X", "--check-hash-based-pycs"))
"""Python's own options that take the next word."""
MOST_PARTS = 2  # of a module's dotted name: `vllm…api_server` says enough
_SEPARATORS = re.compile(r"[/\\]")


def program_name(command: str | None, name: str | None) -> str | None:
    """`train.py` of `/usr/bin/python3 -S train.py --lr 1`; the process's own name as a fallback."""
    words = _words(command)
    if not words:
        return name
    program, _ = _split(words)
    if program is None:
        return name or _base(words[0])
    parts = program.split(".")
    dotted = len(parts) > MOST_PARTS and "/" not in program and not program.endswith(".py")
    return f"{parts[0]}…{parts[-1]}" if dotted else program


def short_command(command: str | None) -> str | None:
    """The command without its interpreter and the interpreter's options, and without paths
    before the program: `train.py --lr 1`."""
    words = _words(command)
    if not words:
        return None
    program, rest = _split(words)
    return " ".join([_base(words[0]) if program is None else program, *rest])


def _words(command: str | None) -> list[str]:
    return [word for word in (command or "").split(" ") if word]


def _split(words: list[str]) -> tuple[str | None, list[str]]:
    """The program and its arguments; None for an interpreter that runs no file or module."""
    first = _base(words[0])
    if not _INTERPRETERS.fullmatch(first):
        return first, words[1:]
    place, python = 1, bool(_PYTHON.fullmatch(first))
    while place < len(words):
        word = words[place]
        if python and word == "-m" and place + 1 < len(words):
            return words[place + 1], words[place + 2 :]
        if not word.startswith("-") or word == "-":
            return _base(word), words[place + 1 :]
        if _is_code(word):
            break
        place += 2 if python and word in _WITH_VALUE else 1
    return None, words[1:]


def _is_code(word: str) -> bool:
    """`-c` and `-e`: the program is on the command line itself."""
    return word in ("-c", "-e")


def _base(word: str) -> str:
    return _SEPARATORS.split(word)[-1] or word
