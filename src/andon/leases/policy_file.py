"""Reads root's policy; a file that others could have written is an error and is not ignored."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from andon.errors import AndonError, Invalid, Unavailable
from andon.host.files import read_regular
from andon.host.state.user_folder import POLICY_FILE
from andon.host.users import is_unknown, machine_uid, system_groups, user_name
from andon.leases.rules.policy import NO_POLICY, Policy, UserLimits, policy_from
from andon.units import sh

ROOT = 0
LARGEST_BYTES = 1 << 20


def read_policy(path: Path = POLICY_FILE, root: int = ROOT) -> Policy:
    """Returns the limits; raises Unavailable if they are unknown, so that nothing is granted."""
    try:
        content = _content(path, root)
    except FileNotFoundError:
        return NO_POLICY
    except OSError as exc:
        raise closed(path) or Unavailable(
            f"the limits in {path} cannot be read: {exc.strerror}",
            hint=f"sudo chown root: {sh(path)} && sudo chmod 644 {sh(path)}",
        ) from exc
    try:
        return policy_from(content.decode(), str(path))
    except UnicodeDecodeError as exc:
        raise Unavailable(f"{path} is not UTF-8 text", hint=f"root can correct {path}") from exc
    except Invalid as wrong:
        raise Unavailable(
            f"no device is granted while root's policy has a mistake: {wrong.reason}",
            hint=wrong.hint,
            mistakes=wrong.mistakes if len(wrong.mistakes) > 1 else (),
        ) from wrong


def policy_state() -> tuple[Policy, AndonError | None]:
    """Returns the limits in force, and the error if they are unknown; for doctor."""
    try:
        return read_policy(), closed(POLICY_FILE)
    except AndonError as error:
        return NO_POLICY, error


def closed(path: Path) -> Unavailable | None:
    """Returns the error about a folder that root closed to others; only its mode is asked for."""
    folder = path.parent
    mode = stat.S_IMODE(folder.stat().st_mode) if folder.is_dir() else 0o755
    if mode & 0o011:
        return None
    return Unavailable(
        f"only root may enter {folder} ({mode:04o}): others cannot know their limits in "
        f"{path.name}, so no device is granted to them",
        hint=f"sudo chmod 755 {sh(folder)}",
    )


def _content(path: Path, root: int) -> bytes:
    found = path.lstat()
    for one, facts in ((path.parent, path.parent.stat()), (path, found)):
        if not _is_roots(facts, root):
            raise Unavailable(
                f"{one} can be changed by users other than root, so no device is granted",
                hint=f"sudo chown root: {sh(one)} && sudo chmod go-w {sh(one)}",
            )
    return read_regular(path, LARGEST_BYTES)


def limits_for(policy: Policy, uid: int) -> UserLimits:
    """Returns the limits of a user, by the machine's uid and not by a namespace's."""
    machines = machine_uid(uid)
    user = user_name(machines)
    return policy.limits_of(user, machines, system_groups(user) if policy.groups else ())


def group_of(policy: Policy, user: str) -> str:
    """Returns a user's group: the first one of the policy, else of the system, without the one
    that only this user is named after; empty if there is none."""
    system = system_groups(user)
    return policy.group_of(user, system) or next((one for one in system if one != user), "")


def unused_seconds(
    policy: Callable[[], Policy] = read_policy,
) -> Callable[[int], float | None]:
    """Returns how long a user's reservation is kept unused, by uid; the default while root's policy
    has a mistake, and nothing is granted."""
    try:
        found = policy()
    except AndonError:
        found = NO_POLICY
    known = found.everyone
    return lambda uid: (limits_for(found, uid) if found.users else known).max_reserved_unused


def _is_roots(facts: os.stat_result, root: int) -> bool:
    owner = facts.st_uid == root or is_unknown(facts.st_uid)
    return owner and not stat.S_IMODE(facts.st_mode) & 0o022
