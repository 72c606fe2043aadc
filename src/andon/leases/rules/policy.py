"""Limits per user that root sets: how many GPUs, for how long, how many queued or reserved."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from andon.errors import Denied, Invalid
from andon.units import counted, human_seconds, parse_seconds

UNLIMITED = "unlimited"
MOST = 1_000_000  # the largest count of anything
MOST_USERS = 10_000
USERS, GROUPS, MEMBERS = "users", "groups", "members"
USUAL_PATH = "/etc/andon/policy.toml"
HALF = -1
"""Of the machine's devices, but at least one; written `"half"`."""
WEEK_SECONDS = 7 * 86_400.0


class UserLimits(Struct, frozen=True):
    """The limits of one user; None is no limit."""

    max_gpus_per_user: int | None = None
    max_time: float | None = None  # seconds
    max_queued: int | None = None
    user: str = ""
    path: str = ""  # of the policy; empty if there is none
    max_reserve_ahead: float | None = WEEK_SECONDS  # until a reservation begins
    max_reserved_gpus: int | None = HALF  # of one reservation
    max_reserved_time: float | None = 48 * 3600.0  # of a user's reservations, in seven days
    max_reserved_unused: float | None = 1800.0  # after its start, until an unused one is given back
    release_idle_after: float | None = None  # seconds; None: an idle lease is not released
    max_gpus_per_group: int | None = None  # of all members together
    group: str = ""  # whose limits these are; empty if the user is in none

    @property
    def text(self) -> str:
        """Returns `at most 4 GPUs, 12 h 0 min a lease, 20 waiting`; empty without any limit."""
        parts = []
        if self.max_gpus_per_user is not None:
            parts.append(gpus(self.max_gpus_per_user))
        if self.max_gpus_per_group is not None:
            parts.append(f"{gpus(self.max_gpus_per_group)} in group {self.group}")
        if self.max_time is not None:
            parts.append(f"{human_seconds(self.max_time)} a lease")
        if self.max_queued is not None:
            parts.append(f"{self.max_queued} waiting")
        if self.max_reserved_gpus not in (None, HALF):
            parts.append(f"{self.max_reserved_gpus} reserved at a time")
        if self.release_idle_after is not None:
            parts.append(f"{human_seconds(self.release_idle_after)} idle")
        return f"at most {', '.join(parts)}" if parts else ""

    def check_terms(self, least: int, seconds: float | None) -> None:
        """Refuses terms that these limits never allow."""
        most, longest = self.max_gpus_per_user, self.max_time
        if most is not None and least > most:
            raise self._denied(f"{gpus(most)} at a time", f"{gpus(least)} requested")
        whole = self.max_gpus_per_group
        if whole is not None and least > whole:
            allowed = f"and the others of group {self.group} {gpus(whole)} at a time"
            raise self._denied(allowed, f"{gpus(least)} requested")
        if longest is not None and seconds is not None and seconds > longest:
            hint = f"use --for {_typed(longest)} or less, or ask root to change {self.path}"
            lasting = f"leases of at most {human_seconds(longest)}"
            raise self._denied(lasting, f"{human_seconds(seconds)} requested", hint)

    def check_queued(self, waiting: int, more: int = 1) -> None:
        """Refuses to let more of the user's requests or jobs wait than allowed."""
        if self.max_queued is not None and waiting + more > self.max_queued:
            wanted = f"{waiting} wait already" + (f", {more} more requested" if more > 1 else "")
            raise self._denied(f"{self.max_queued} waiting at a time", wanted)

    def check_extension(self, held_seconds: float, more_seconds: float) -> None:
        """Refuses to extend a lease beyond the longest time, counted from its beginning."""
        longest = self.max_time
        if longest is not None and held_seconds + more_seconds > longest:
            length = f"it would last {human_seconds(held_seconds + more_seconds)}"
            raise self._denied(f"leases of at most {human_seconds(longest)}", length)

    def check_reservation(
        self, count: int, devices: int, ahead_seconds: float, week_seconds: float
    ) -> None:
        """Refuses to reserve more of the machine's devices, earlier or for longer than allowed;
        `week_seconds` is what the user then has reserved in seven days."""
        most, ahead, longest = (
            self.max_reserved_gpus, self.max_reserve_ahead, self.max_reserved_time,
        )  # fmt: skip
        most = max(1, devices // 2) if most == HALF else most
        if most is not None and count > most:
            allowed = f"to reserve {gpus(most)} of {devices} at a time"
            raise self._denied(allowed, f"{gpus(count)} requested")
        if ahead is not None and ahead_seconds > ahead:
            wanted = f"this one begins in {human_seconds(ahead_seconds)}"
            raise self._denied(f"to reserve {human_seconds(ahead)} ahead", wanted)
        if longest is not None and week_seconds > longest:
            raise self._denied(
                f"to reserve {human_seconds(longest)} in seven days",
                f"with this one it would be {human_seconds(week_seconds)}",
                "cancel one that you do not need: andon reservations",
            )

    @property
    def bounds_devices(self) -> bool:
        return self.max_gpus_per_user is not None or self.max_gpus_per_group is not None

    def room(self, held: int, of_group: int) -> int:
        """Returns how many more devices the user may have now."""
        user, group = self.max_gpus_per_user, self.max_gpus_per_group
        own = MOST if user is None else user - held
        return max(0, min(own, MOST if group is None else group - of_group))

    def over_limit(self, held: int, least: int, of_group: int = 0) -> str | None:
        """Returns why the user has to wait for the end of their own leases, or of those of their
        group; None if they do not."""
        user, group = self.max_gpus_per_user, self.max_gpus_per_group
        if user is not None and held + least > user:
            return f"you hold {gpus(held)}, and {self.path} allows you {gpus(user)} at a time"
        if group is not None and of_group + least > group:
            return (
                f"group {self.group} holds {gpus(of_group)}, and {self.path} allows it "
                f"{gpus(group)} at a time"
            )
        return None

    def _denied(self, allowed: str, wanted: str, hint: str = "") -> Denied:
        return Denied(
            f"{self.path or 'the default'} allows {self.user} {allowed}; {wanted}",
            hint=hint or f"root can change {self.path or USUAL_PATH}",
            cause="policy",
        )


NO_LIMITS = UserLimits()
UNUSED = "max_reserved_unused"
DURATIONS = (
    "max_time",
    "max_reserve_ahead",
    "max_reserved_time",
    UNUSED,
    "release_idle_after",
)
NAMES = ("max_gpus_per_user", "max_queued", "max_reserved_gpus", *DURATIONS)
OF_GROUPS = ("max_gpus_per_group",)


class GroupLimits(Struct, frozen=True):
    """The section of a group: what it sets, and who is in it; None: as the system says."""

    limits: Mapping[str, float | None]
    members: frozenset[str] | None = None

    def has(self, name: str, user: str, system: Collection[str]) -> bool:
        """Whether a user is in this group; `system` are the user's groups on the machine."""
        return name in system if self.members is None else user in self.members


class Policy(Struct, frozen=True):
    """Everyone's limits, and the names that a user's own section sets."""

    path: str
    everyone: UserLimits = NO_LIMITS
    users: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    groups: Mapping[str, GroupLimits] = field(default_factory=dict)

    def limits_of(self, user: str, uid: int, system: Collection[str] = ()) -> UserLimits:
        """Returns a user's limits: those of a section by name or uid, else those of the first
        group that the user is in, else everyone's."""
        own = self.users.get(user) or self.users.get(str(uid)) or {}
        group = self.group_of(user, system)
        shared = self.groups[group].limits if group else {}
        found = {**shared, **own}
        return replace(self.everyone, **found, user=user, path=self.path, group=group)

    def group_of(self, user: str, system: Collection[str] = ()) -> str:
        """Returns the first group of the file that has this user; empty if none has."""
        return next((n for n, one in self.groups.items() if one.has(n, user, system)), "")


NO_POLICY = Policy("")


def policy_from(text: str, path: str) -> Policy:
    """Parses a policy file; raises Invalid with every mistake, each with its line if known."""
    import tomllib  # only where there is a file

    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:
        line = re.search(r"at line (\d+)", str(exc))
        at = f":{line[1]}" if line else ""
        raise _invalid(path, [f"{path}{at}: not valid TOML: {exc}"]) from exc
    mistakes: list[str] = []
    users, groups = document.pop(USERS, {}), document.pop(GROUPS, {})
    everyone = _values(document, "", path, text, mistakes)
    own: dict[str, Mapping[str, float | None]] = {}
    if not isinstance(users, dict) or len(users) > MOST_USERS:
        mistakes.append(f"{path}: {USERS} is not a table of users: write [users.alice]")
        users = {}
    for name, section in users.items():
        if isinstance(section, dict):
            own[name] = _values(section, f"{USERS}.{name}", path, text, mistakes)
        else:
            mistakes.append(f"{path}: {USERS}.{name} is not a section: write [users.{name}]")
    shared = _groups(groups, path, text, mistakes)
    if mistakes:
        raise _invalid(path, mistakes)
    return Policy(path, UserLimits(**everyone), own, shared)  # type: ignore[arg-type] # checked one by one


def _groups(groups: object, path: str, text: str, mistakes: list[str]) -> dict[str, GroupLimits]:
    if not isinstance(groups, dict) or len(groups) > MOST_USERS:
        mistakes.append(f"{path}: {GROUPS} is not a table of groups: write [{GROUPS}.vision]")
        return {}
    found = dict[str, GroupLimits]()
    for name, section in groups.items():
        members = section.pop(MEMBERS, None) if isinstance(section, dict) else ()
        listed = isinstance(members, list) and all(isinstance(one, str) for one in members)
        if members is not None and not listed:
            wrong = f'{GROUPS}.{name} is not a section with {MEMBERS} = ["alice", …]'
            mistakes.append(f"{path}: {wrong}")
            continue
        limits = _values(section, f"{GROUPS}.{name}", path, text, mistakes, (*NAMES, *OF_GROUPS))
        found[name] = GroupLimits(limits, None if members is None else frozenset(members))
    return found


def _typed(seconds: float) -> str:
    """A duration as an option takes it: `12h`, or whole seconds if that would be rounded."""
    short = human_seconds(seconds).replace(" ", "")
    return short if parse_seconds(short) == seconds else f"{int(seconds)}s"


def gpus(count: int) -> str:
    return counted(count, "GPU")


def _values(
    section: Mapping[str, Any],
    place: str,
    path: str,
    text: str,
    mistakes: list[str],
    names: Collection[str] = NAMES,
) -> dict[str, float | None]:
    out: dict[str, float | None] = {}
    for name, raw in section.items():
        where = f"{path}{_line_of(place, name, text)}"
        full = f"{place}.{name}" if place else name
        if name not in names:
            mistakes.append(f"{where}: there is no limit {full[:80]!r}; use {', '.join(names)}")
            continue
        try:
            out[name] = _value(name, raw)
        except ValueError as wrong:
            mistakes.append(f"{where}: {full}: {wrong}")
    return out


def _value(name: str, raw: object) -> float | None:
    if raw == UNLIMITED:
        return None
    if name == "max_reserved_gpus" and raw == "half":
        return HALF
    if name in DURATIONS:
        if not isinstance(raw, str):
            raise ValueError(f'not a duration with a unit: write "12h" or "{UNLIMITED}"')
        seconds = parse_seconds(raw)
        if seconds <= 0:
            raise ValueError("must be longer than 0")
        if name == UNUSED and not 60 <= seconds <= WEEK_SECONDS:
            raise ValueError(f'from 1m to 7d, or "{UNLIMITED}"')
        return seconds
    if type(raw) is not int or not 0 <= raw <= MOST:
        raise ValueError(f'not a whole number from 0 to {MOST:,}, nor "{UNLIMITED}"')
    return raw


def _line_of(place: str, name: str, text: str) -> str:
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([\w.\"'-]+)\s*\]", line):
            section = header[1].replace('"', "").replace("'", "")
            continue
        key = re.match(r"\s*[\"']?([\w.-]+)[\"']?\s*=", line)
        if key and (section, key[1]) == (place, name):
            return f":{number}"
    return ""


def _invalid(path: str, mistakes: list[str]) -> Invalid:
    return Invalid(mistakes[0], hint=f"root can correct {path}", mistakes=tuple(mistakes))
