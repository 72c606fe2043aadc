"""What a log-out does to a user's jobs here, by the settings of systemd's login manager."""

from enum import StrEnum

from msgspec import Struct

LINGER = "loginctl enable-linger"
_REAL_USERS = 1000  # logind leaves the IPC objects of system users alone


class Place(StrEnum):
    """Where a process is among systemd's units; jobs that it starts are there too."""

    SESSION = "session"  # a login: session-3.scope
    USER_MANAGER = "user manager"  # below user@1000.service
    SERVICE = "service"  # a system service, which no log-out ends
    OUTSIDE = "outside"  # in no unit, as in a container


class LogOutEffect(StrEnum):
    """What happens to a job when its user logs out."""

    LIVES = "lives"
    LOSES_SHARED_MEMORY = "loses shared memory"
    KILLED = "killed"


class LogOutFacts(Struct, frozen=True):
    """The login manager's settings for one user, and where this process is."""

    systemd: bool = False  # whether a login manager runs here at all
    kills: bool = False  # KillUserProcesses, as far as it concerns this user
    removes_ipc: bool = True
    lingering: bool = False
    uid: int = 1000
    place: Place = Place.OUTSIDE
    can_scope: bool = False  # whether the user's own systemd can be asked for a scope


def wants_scope(facts: LogOutFacts) -> bool:
    """Whether a job lives longer in a scope of the user's systemd than where this process is.

    Without lingering that systemd ends with the last session, and its scopes with it.
    """
    in_session = facts.place is Place.SESSION
    return facts.systemd and facts.can_scope and facts.lingering and facts.kills and in_session


def log_out_effect(facts: LogOutFacts) -> LogOutEffect:
    if not facts.systemd or facts.place is Place.OUTSIDE:
        return LogOutEffect.LIVES
    if facts.place is Place.SESSION:
        killed = facts.kills and not wants_scope(facts)
        return LogOutEffect.KILLED if killed else LogOutEffect.LIVES
    if facts.lingering:
        return LogOutEffect.LIVES
    if facts.place is Place.USER_MANAGER:
        return LogOutEffect.KILLED
    removed = facts.removes_ipc and facts.uid >= _REAL_USERS
    return LogOutEffect.LOSES_SHARED_MEMORY if removed else LogOutEffect.LIVES


def log_out_text(facts: LogOutFacts) -> str:
    """Returns one sentence for the user who submits a job."""
    effect = log_out_effect(facts)
    if effect is LogOutEffect.LIVES:
        return "jobs keep running when you log out"
    if effect is LogOutEffect.LOSES_SHARED_MEMORY:
        return (
            "jobs keep running when you log out, but your files in /dev/shm are removed then, "
            f"which ends data loaders of PyTorch (RemoveIPC=yes); to keep them: {LINGER}"
        )
    if facts.place is Place.USER_MANAGER:
        return f"logging out ends your jobs, because lingering is off; to keep them: {LINGER}"
    if facts.lingering:
        return (
            "logging out ends your jobs (KillUserProcesses=yes), because your systemd cannot be "
            "reached; see: systemctl --user status"
        )
    return f"logging out ends your jobs (KillUserProcesses=yes); to keep them: {LINGER}"


def place_of_cgroup(text: str) -> Place:
    """Returns the place of a process, from its /proc/PID/cgroup."""
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number != "0" and controllers != "name=systemd":
            continue
        parts = path.split("/")
        if any(part.startswith("session-") and part.endswith(".scope") for part in parts):
            return Place.SESSION
        if any(part.startswith("user@") and part.endswith(".service") for part in parts):
            return Place.USER_MANAGER
        if any(part.endswith(".service") for part in parts):
            return Place.SERVICE
    return Place.OUTSIDE


def login_settings(main: str, drop_ins: list[str]) -> dict[str, str]:
    """Returns the values of logind's [Login] section; a later file wins.

    A distribution's own default is a comment in the main file that it ships.
    """
    found: dict[str, str] = {}
    for line in main.splitlines():
        if line.startswith("#") and "=" in line and " " not in line.partition("=")[0]:
            name, _, value = line[1:].partition("=")
            found[name.strip()] = value.strip()
    for text in (main, *drop_ins):
        found.update(_assigned(text))
    return found


def is_killed(settings: dict[str, str], user: str) -> bool:
    """Whether KillUserProcesses concerns this user."""
    if not is_yes(settings.get("KillUserProcesses", "no")):
        return False
    if user in settings.get("KillExcludeUsers", "root").split():
        return False
    only = settings.get("KillOnlyUsers", "").split()
    return not only or user in only


def is_yes(value: str) -> bool:
    return value.strip().lower() in ("yes", "true", "on", "1", "y", "t")


def _assigned(text: str) -> dict[str, str]:
    section, found = "", {}
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("[") and stripped.endswith("]"):
            section = stripped[1:-1]
        elif section == "Login" and "=" in stripped and stripped[0] not in "#;":
            name, _, value = stripped.partition("=")
            found[name.strip()] = value.strip()
    return found
