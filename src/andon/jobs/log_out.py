"""Reads the effects of a log-out: logind's settings, lingering, this process's session."""

import os
import shutil
from pathlib import Path

from andon.host.files import names_in, read_text
from andon.host.users import user_name
from andon.jobs.rules.log_out import (
    LogOutFacts,
    is_killed,
    is_yes,
    log_out_text,
    login_settings,
    place_of_cgroup,
    wants_scope,
)

FOLDERS = ("etc/systemd", "run/systemd", "usr/local/lib/systemd", "usr/lib/systemd", "lib/systemd")
"""The folders of logind's settings; a file in an earlier one hides a file of the same name."""
MAIN, DROP_INS = "logind.conf", "logind.conf.d"
BOOTED = "run/systemd/system"  # exists where systemd runs the machine
LINGERING = "var/lib/systemd/linger"
RUNNER = "systemd-run"


def read_log_out(root: Path = Path("/"), uid: int | None = None) -> LogOutFacts:
    """Reads a few small files; nothing is requested over D-Bus."""
    uid = os.getuid() if uid is None else uid
    if not (root / BOOTED).is_dir():
        return LogOutFacts(uid=uid)
    settings, user = _settings(root), user_name(uid)
    return LogOutFacts(
        systemd=True,
        kills=is_killed(settings, user),
        removes_ipc=is_yes(settings.get("RemoveIPC", "yes")),
        lingering=(root / LINGERING / user).exists(),
        uid=uid,
        place=place_of_cgroup(read_text(root / "proc/self/cgroup")),
        can_scope=(root / f"run/user/{uid}/systemd/private").exists() and _has_runner(),
    )


def scope_prefix(name: str, facts: LogOutFacts | None = None) -> tuple[str, ...]:
    """Returns what to put before a command that must outlive the session: a scope of the user's
    systemd.

    Empty if the command lives as long without it. The command replaces `systemd-run`, so it
    keeps the pid, the descriptors and the environment that it was started with.
    """
    facts = read_log_out() if facts is None else facts
    if not wants_scope(facts):
        return ()
    runtime = f"XDG_RUNTIME_DIR=/run/user/{facts.uid}"
    return ("env", runtime, RUNNER, "--user", "--scope", "--quiet", "--collect", f"--unit={name}")


def log_out_line() -> str:
    """Returns the line that `submit` prints about a log-out."""
    return log_out_text(read_log_out())


def _has_runner() -> bool:
    return shutil.which(RUNNER) is not None


def _settings(root: Path) -> dict[str, str]:
    mains = (read_text(root / folder / MAIN) for folder in FOLDERS)
    main = next((text for text in mains if text), "")
    drop_ins: dict[str, Path] = {}
    for folder in reversed(FOLDERS):
        place = root / folder / DROP_INS
        drop_ins.update({name: place / name for name in names_in(place) if name.endswith(".conf")})
    return login_settings(main, [read_text(drop_ins[name]) for name in sorted(drop_ins)])
