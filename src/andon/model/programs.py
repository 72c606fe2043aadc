"""The common name of a process: the script, module or server that it runs, not its interpreter."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

_PYTHONS = ("python", "pypy")
_INTERPRETERS = frozenset(
    (*_PYTHONS, "sh", "bash", "dash", "zsh", "ksh", "perl", "ruby", "node", "julia", "Rscript",
     "java")
)  # fmt: skip
_VERSION = "0123456789."
_LAUNCHERS = frozenset(
    ("torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "srun", "horovodrun", "uv",
     "poetry", "conda", "pipenv", "env", "nohup", "nice", "time", "sudo", "numactl", "setsid",
     "stdbuf", "torch.distributed.run", "torch.distributed.launch",
     "accelerate.commands.launch", "deepspeed.launcher.launch", "deepspeed.launcher.runner")
)  # fmt: skip
"""Programs and modules that start another one, which is the one that people mean."""
_SCRIPT = r".+\.(?:py|sh|ipynb|pl|rb|js|mjs|jl|R|jar)"
_VERBS = frozenset(
    ("serve", "server", "launch", "run", "train", "start", "chat", "generate", "eval", "bench",
     "notebook", "lab", "worker", "api", "predict", "fit", "finetune")
)  # fmt: skip
"""What a program does may be its first argument: `vllm serve`."""
_WITH_VALUE = frozenset(("-X", "-W", "--check-hash-based-pycs"))
LONGEST_MODULE = 2


@lru_cache(maxsize=1024)
def program_of(command: str | None, name: str | None = None) -> str | None:
    """Returns `train.py`, `vllm serve`, `vllm…api_server`; the process's name if the command is
    unknown or adds nothing."""
    argv = (command or "").split()
    found = _program(argv) if argv else None
    return found or name or (_base(argv[0]) if argv else None) or None


def short_command(command: str | None) -> str | None:
    """The command without its interpreter, the interpreter's options, and the program's path:
    `train.py --lr 1` of `/usr/bin/python3 -S /home/a/train.py --lr 1`."""
    argv = (command or "").split()
    if not argv:
        return None
    first, place = _base(argv[0]), 1
    if not _is_interpreter(first):
        return " ".join([first, *argv[1:]])
    while place < len(argv) and argv[place].startswith("-") and argv[place] != "-c":
        if argv[place] in ("-m", "-jar"):
            return " ".join(argv[place + 1 :]) or first
        place += 2 if argv[place] in _WITH_VALUE else 1
    rest = argv[place:]
    if not rest or rest[0] == "-c":
        return " ".join([first, *argv[1:]])
    return " ".join([_base(rest[0]), *rest[1:]])


def _is_interpreter(name: str) -> bool:
    """Whether this is an interpreter, with or without a version: `python3.13t`."""
    plain = name.rstrip(_VERSION)
    return plain in _INTERPRETERS or plain.rstrip("dt").rstrip(_VERSION) in _PYTHONS


def _program(argv: Sequence[str]) -> str | None:
    first = _base(argv[0])
    if _is_interpreter(first):
        return _interpreted(first, argv[1:])
    if first in _LAUNCHERS:
        return _launched(argv[1:])
    return _with_verb(first, argv[1:])


def _interpreted(interpreter: str, argv: Sequence[str]) -> str | None:
    """Returns what an interpreter runs: a script, a module, or code given as text."""
    rest = iter(argv)
    for word in rest:
        if word in ("-m", "-jar"):
            return _module(next(rest, ""), list(rest)) or None
        if word == "-c":
            return f"{interpreter} -c"
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return _program([word, *rest])
    return None


def _module(name: str, argv: Sequence[str]) -> str | None:
    if name in _LAUNCHERS and (found := _launched(argv)) is not None:
        return found
    if re.fullmatch(_SCRIPT, name):
        return _base(name)
    parts = name.split(".")
    short = name if len(parts) <= LONGEST_MODULE else f"{parts[0]}…{parts[-1]}"
    return _with_verb(short, argv)


def _launched(argv: Sequence[str]) -> str | None:
    """Returns the first script, module or interpreter behind a launcher and its options."""
    for place, word in enumerate(argv):
        base = _base(word)
        if re.fullmatch(_SCRIPT, base) or _is_interpreter(base) or base in _LAUNCHERS:
            return _program(argv[place:])
        if word in ("-m", "--module") and place + 1 < len(argv):
            return _module(argv[place + 1], argv[place + 2 :])
    return next(_plain(argv), None)


def _plain(argv: Sequence[str]) -> Iterator[str]:
    """Yields arguments that may be a program: neither an option, a value of one, nor a setting."""
    after_option = False
    for word in argv:
        option = word.startswith("-")
        if not option and not after_option and "=" not in word and word not in _VERBS:
            yield _base(word)
        after_option = option and "=" not in word and word != "--"


def _with_verb(program: str, argv: Sequence[str]) -> str:
    return f"{program} {argv[0]}" if argv and argv[0] in _VERBS else program


def _base(word: str) -> str:
    return word.rpartition("/")[2] or word
