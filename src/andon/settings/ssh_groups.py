"""The groups of hosts for `--ssh @NAME`: `[ssh.groups]`, a list of names each."""

import re

_NAME = re.compile(r"[\w.-]{1,64}")
Groups = tuple[tuple[str, tuple[str, ...]], ...]


def read_groups(raw: object, where: str, mistakes: list[str]) -> Groups:
    """Parses the table; reports every mistake."""
    if not isinstance(raw, dict):
        mistakes.append(f"{where}: write a table: [ssh.groups]")
        return ()
    found = []
    for name, hosts in raw.items():
        listed = isinstance(hosts, list) and all(isinstance(one, str) for one in hosts)
        if not listed or _NAME.fullmatch(name) is None:
            mistakes.append(f'{where}.{ascii(name)[1:41]}: write NAME = ["host", "user@host"]')
        else:
            found.append((name, tuple(hosts)))
    return tuple(found)
