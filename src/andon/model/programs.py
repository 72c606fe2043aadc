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
    words = (command or "").split()
    found = _meant(words) if words else None
    return found or name or (_base(words[0]) if words else None) or None


def short_command(command: str | None) -> str | None:
    """The command without its interpreter, the interpreter's options, and the program's path:
    `train.py --lr 1` of `/usr/bin/python3 -S /home/a/train.py --lr 1`."""
    words = (command or "").split()
    if not words:
        return None
    first, place = _base(words[0]), 1
    if not _is_interpreter(first):
        return " ".join([first, *words[1:]])
    while place < len(words) and words[place].startswith("-") and words[place] != "-c":
        if words[place] in ("-m", "-jar"):
            return " ".join(words[place + 1 :]) or first
        place += 2 if words[place] in _WITH_VALUE else 1
    rest = words[place:]
    if not rest or rest[0] == "-c":
        return " ".join([first, *words[1:]])
    return " ".join([_base(rest[0]), *rest[1:]])


def _is_interpreter(name: str) -> bool:
    """Whether this is an interpreter, with or without a version: `python3.13t`."""
    plain = name.rstrip(_VERSION)
    return plain in _INTERPRETERS or plain.rstrip("dt").rstrip(_VERSION) in _PYTHONS


def _meant(words: Sequence[str]) -> str | None:
    first = _base(words[0])
    if _is_interpreter(first):
        return _interpreted(first, words[1:])
    if first in _LAUNCHERS:
        return _launched(words[1:])
    return _with_verb(first, words[1:])


def _interpreted(interpreter: str, words: Sequence[str]) -> str | None:
    """Returns what an interpreter runs: a script, a module, or code given as text."""
    rest = iter(words)
    for word in rest:
        if word in ("-m", "-jar"):
            return _module(next(rest, ""), list(rest)) or None
        if word == "-c":
            return f"{interpreter} -c"
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return _meant([word, *rest])
    return None


def _module(name: str, words: Sequence[str]) -> str | None:
    if name in _LAUNCHERS and (found := _launched(words)) is not None:
        return found
    if re.fullmatch(_SCRIPT, name):
        return _base(name)
    parts = name.split(".")
    short = name if len(parts) <= LONGEST_MODULE else f"{parts[0]}…{parts[-1]}"
    return _with_verb(short, words)


def _launched(words: Sequence[str]) -> str | None:
    """Returns the first script, module or interpreter behind a launcher and its options."""
    for place, word in enumerate(words):
        base = _base(word)
        if re.fullmatch(_SCRIPT, base) or _is_interpreter(base) or base in _LAUNCHERS:
            return _meant(words[place:])
        if word in ("-m", "--module") and place + 1 < len(words):
            return _module(words[place + 1], words[place + 2 :])
    return next(_plain(words), None)


def _plain(words: Sequence[str]) -> Iterator[str]:
    """Yields arguments that may be a program: neither an option, a value of one, nor a setting."""
    after_option = False
    for word in words:
        option = word.startswith("-")
        if not option and not after_option and "=" not in word and word not in _VERBS:
            yield _base(word)
        after_option = option and "=" not in word and word != "--"


def _with_verb(program: str, words: Sequence[str]) -> str:
    return f"{program} {words[0]}" if words and words[0] in _VERBS else program


def _base(word: str) -> str:
    return word.rpartition("/")[2] or word
