"""The tables of the clusters: `[clusters.NAME]`, with a kind and the kind's own options."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from andon.model.job import LOCAL
from andon.settings.kinds import SECONDS, repr_without

TIMEOUT_SECONDS = 10.0
LONGEST_TIMEOUT_SECONDS = 600.0
NAME_FORM = f"small letters, digits and -, beginning with a letter, and not {LOCAL}"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_KIND = re.compile(r"[\w.-]{1,40}")


class ClusterSettings(Struct, frozen=True):
    """One cluster. Its options may contain a secret and are never in a `repr`."""

    __repr__ = repr_without("options")
    name: str
    kind: str
    timeout_seconds: float = TIMEOUT_SECONDS  # the longest that one request may take
    options: Mapping[str, Any] = field(default_factory=dict)  # of its kind, which checks them


def is_cluster_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and text != LOCAL


def read_clusters(raw: object, where: str, mistakes: list[str]) -> tuple[ClusterSettings, ...]:
    """Parses `[clusters.NAME]`; reports every mistake, and no value of an option."""
    if not isinstance(raw, dict) or not all(isinstance(one, dict) for one in raw.values()):
        mistakes.append(f"{where}: write a table for each cluster: [clusters.NAME]")
        return ()
    found = [_cluster(name, table, f"{where}.{name[:40]}", mistakes) for name, table in raw.items()]
    return tuple(one for one in found if one is not None)


def _cluster(
    name: str, table: dict[str, Any], where: str, mistakes: list[str]
) -> ClusterSettings | None:
    options = dict(table)
    kind, timeout = options.pop("kind", None), options.pop("timeout", TIMEOUT_SECONDS)
    wrong: list[str] = []
    if not is_cluster_name(name):
        wrong.append(f"{where}: {name[:40]!a} is not a name: use {NAME_FORM}")
    if kind is None:
        wrong.append(f"{where}: kind is missing")
    elif not isinstance(kind, str) or _KIND.fullmatch(kind) is None:
        wrong.append(f"{where}.kind: {ascii(kind)[:80]} is not the name of a kind")
    try:
        seconds: Any = SECONDS.read(timeout)
        if not 1 <= seconds <= LONGEST_TIMEOUT_SECONDS:
            wrong.append(f"{where}.timeout: must be from 1 to {LONGEST_TIMEOUT_SECONDS:g} seconds")
    except (ValueError, OverflowError):
        wrong.append(f"{where}.timeout: {ascii(timeout)[:80]} is not {SECONDS.expected}")
    mistakes += wrong
    return None if wrong else ClusterSettings(name, str(kind), seconds, options)
