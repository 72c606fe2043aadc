"""Resolves host names: checks them for ssh, expands groups of the settings, reads lists."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from andon.errors import Invalid

MOST_HOSTS = 10_000
LONGEST_NAME = 255
_RANGE = re.compile(r"(.*)\[(\d{1,6})[-:](\d{1,6})\](.*)")


def checked_host(name: str) -> str:
    """Returns the name, unless ssh could take it for an option or for more than one argument."""
    problem = None
    if not name:
        problem = "is empty"
    elif name.startswith("-"):
        problem = "begins with -"
    elif len(name.encode(errors="replace")) > LONGEST_NAME:
        problem = f"is longer than {LONGEST_NAME} bytes"
    elif " " in name or not name.isprintable():
        problem = "has spaces or control characters"
    if problem is None:
        return name
    raise Invalid(f"{name[:40]!a} is not a host: it {problem}", hint="HOST, user@HOST or ssh://…")


def hosts_of(
    given: Iterable[str], groups: Mapping[str, Sequence[str]], listed: Iterable[str] = ()
) -> list[str]:
    """Returns each host once, in the order given; `@lab` stands for a group of the settings."""
    names = [name.strip() for text in given for name in text.split(",")]
    found: dict[str, None] = {}
    for name in names:
        if name.startswith("@"):
            found |= dict.fromkeys(map(checked_host, _group(name[1:], groups)))
        else:
            found[checked_host(name)] = None
    found |= dict.fromkeys(map(checked_host, listed))
    if len(found) > MOST_HOSTS:
        raise Invalid(f"{len(found)} hosts are named, at most {MOST_HOSTS} are asked")
    return list(found)


def _group(name: str, groups: Mapping[str, Sequence[str]]) -> Sequence[str]:
    known = ", ".join(f"@{one}" for one in groups) or "none; the settings have them in [ssh.groups]"
    if name not in groups:
        raise Invalid(f"there is no group @{name[:40]}", hint=f"known: {known}")
    if not groups[name]:
        raise Invalid(f"the group @{name[:40]} is empty", hint=f"known: {known}")
    return groups[name]


def listed_hosts(text: bytes, path: str) -> list[str]:
    """Reads one host a line; comments, headings and variables of an inventory are left out."""
    try:
        lines = text.decode().splitlines()
    except UnicodeDecodeError as exc:
        raise Invalid(f"{path} is not a list of hosts: it is not text") from exc
    if "\0" in text.decode():
        raise Invalid(f"{path} is not a list of hosts: it is not text")
    found = [host for line in lines for host in _of_line(line)]
    if not found:
        raise Invalid(f"{path} names no host", hint="one host a line; # begins a comment")
    return found


def _of_line(line: str) -> Iterator[str]:
    fields = line.partition("#")[0].split()
    if not fields or fields[0].startswith(("[", ";")) or "=" in fields[0]:
        return
    match = _RANGE.fullmatch(fields[0])
    if match is None:
        yield fields[0]
        return
    head, first, last, tail = match.groups()
    for number in range(int(first), min(int(last), int(first) + MOST_HOSTS) + 1):
        yield f"{head}{number:0{len(first)}}{tail}"


def configured_hosts(text: str) -> list[str]:
    """Returns the names in an ssh configuration, without patterns, for the shell to complete."""
    lines = [line.replace("=", " ", 1).split() for line in text.splitlines()]
    named = [
        field for fields in lines if fields and fields[0].lower() == "host" for field in fields[1:]
    ]
    return list(dict.fromkeys(one for one in named if not set(one) & set('*?!,"')))
