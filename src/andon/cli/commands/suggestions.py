"""Suggests a command or an option for one that does not exist."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import click

MACHINE_OPTIONS = ("--ssh", "--hosts-file", "--node", "--url", "--token-file", "--host", "-H")
"""Options that name another machine: where a command has none, it is for this one alone."""
LIKENESS = 0.7  # below it, words are only of the same length

OPTION_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("--gpu", "--gpu-id", "--gpu-ids"), ("--gpus", "--device")),
    **dict.fromkeys(("--id", "--index", "--uuid", "-i"), ("--device",)),
    **dict.fromkeys(("-n", "--num-gpus", "--ngpus", "--gres"), ("--gpus",)),
    **dict.fromkeys(("--mem", "--vram", "--gpu-memory"), ("--memory",)),
    **dict.fromkeys(("--time", "--duration", "--hours", "--ttl"), ("--for",)),
    **dict.fromkeys(("--depend", "--depends", "--dependency"), ("--after",)),
    **dict.fromkeys(("--at", "--start"), ("--begin", "--since")),
    **dict.fromkeys(("-l", "--loop", "--delay", "--watch"), ("--interval", "andon watch")),
    **dict.fromkeys(("-j", "--workers"), ("--per-gpu",)),
    **dict.fromkeys(("-o", "--output"), ("--out",)),
    **dict.fromkeys(("--json", "--jsonl", "--csv"), ("--format",)),
    "--tail": ("--follow",),
    **dict.fromkeys(("--no-color", "--nocolor", "--no-colour", "--colour"), ("--color",)),
    **dict.fromkeys(("--message", "--comment"), ("--note", "--reason")),
    "--force": ("--yes",),
    "--wait": ("--timeout",),
    **dict.fromkeys(("--host", "-H"), ("--ssh",)),
}
"""Options that people try, and those that do it, where the command has them; else a command."""


def near_command(word: str, known: Iterable[str], synonyms: Mapping[str, str]) -> str | None:
    """Returns the closest command: by another name, by its beginning, or mistyped."""
    names = list(known)
    prefixed = [name for name in names if len(word) > 1 and name.startswith(word)]
    near = prefixed or get_close_matches(word, names, n=1, cutoff=LIKENESS)
    return synonyms.get(word) or next(iter(near), None)


def mistake_text(mistake: click.ClickException) -> str:
    """Returns what is wrong; for an option that does not exist, also the closest one."""
    found = mistake.__cause__ if isinstance(mistake.__cause__, click.NoSuchOption) else mistake
    if not isinstance(found, click.NoSuchOption):
        return " ".join(mistake.format_message().split()).rstrip(".")
    text = found.message.rstrip(".")
    near = near_options(found)
    return f"{text}; did you mean: {' or '.join(near)}?" if near else text


def near_options(mistake: click.NoSuchOption) -> list[str]:
    if mistake.ctx is None:
        return []
    has = [name for one in mistake.ctx.command.get_params(mistake.ctx) for name in one.opts]
    tried = OPTION_SYNONYMS.get(mistake.option_name, ())
    found = [one for one in tried if one in has] or [one for one in tried if " " in one]
    long = {name[2:]: name for name in has if name.startswith("--")}
    typed = mistake.option_name.lstrip("-")
    near = get_close_matches(typed, long, n=2, cutoff=LIKENESS) if len(typed) > 1 else []
    return found or [long[name] for name in near]
