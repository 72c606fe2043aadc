"""Checks who could read or replace this user's state, token, records, settings and ports."""

from collections.abc import Iterator

from andon.doctor.rules.facts import FileAccess, MachineFacts, PortListener
from andon.doctor.rules.findings import Check, CheckResult, Value, failure, ok, unknown, warning
from andon.units import sh

SYSTEM_UIDS = 1000  # below are root and service accounts
STICKY = 0o1000
_CLOSE = "andon serve --tls-cert CERT --tls-key KEY"


def judge(facts: MachineFacts) -> Iterator[CheckResult]:
    yield from _state(facts)
    yield from _config(facts)
    yield from _server(facts)
    yield from _kernel(facts)


# The state folder and its content.


def _state(facts: MachineFacts) -> Iterator[CheckResult]:
    security = facts.security
    if security.unseen:
        words = f"access to the state folder was not checked: {security.unseen}"
        yield unknown(Check.STATE_PRIVATE, words)
        return
    found = [finding for kept in security.state if (finding := _exposed(kept, facts))]
    above = next((kept for kept in security.above if _is_replaceable(kept, facts)), None)
    if above is not None:
        found.append(_replaceable(above, facts))
    yield from found
    if security.state and not found:
        names = ", ".join(kept.name for kept in security.state[1:])
        words = f"only {facts.user.name} can access the state folder" + (
            f": {names}" if names else ""
        )
        yield ok(Check.STATE_PRIVATE, words, path=security.state[0].path)


def _exposed(kept: FileAccess, facts: MachineFacts) -> CheckResult | None:
    """A finding if another user can read a token or record, or has created it: it is not secret."""
    how = _how(kept, facts)
    if how is None:
        return None
    place = {"path": kept.path, "owner": kept.owner, "mode": f"{kept.mode:04o}"}
    quoted = sh(kept.path)
    if kept.name == "folder":
        words = f"the state folder {kept.path} {how}: {_at_stake(kept, facts)}"
        fix = f"chmod 700 {quoted}" if _is_mine(kept, facts) else _elsewhere(facts)
        say = warning if _is_mine(kept, facts) and not kept.mode & 0o022 else failure
        return say(Check.STATE_EXPOSED, words, fix, **place)
    if kept.name == "token":
        words = f"the token {kept.path} {how}: another user can use it"
        fix = f"rm -f {quoted} && andon serve # creates a new one"
        return failure(Check.TOKEN_EXPOSED, words, fix, **place)
    mode = "700" if kept.kind == "folder" else "600"
    fix = (
        f"chmod {mode} {quoted}" if _is_mine(kept, facts) else f"ls -ld {quoted} && rm -i {quoted}"
    )
    return warning(Check.RECORDS_EXPOSED, f"the {kept.name} {kept.path} {how}", fix, **place)


def _how(kept: FileAccess, facts: MachineFacts) -> str | None:
    """Returns how other users can access a file; None if they cannot."""
    if kept.kind not in ("file", "folder"):
        return "is a link" if kept.kind == "link" else "is not a regular file"
    if kept.uid != facts.user.uid:
        return f"belongs to {kept.owner}"
    more = kept.mode & 0o077
    if not more:
        return None
    verb = "changed" if more & 0o022 else "read" if more & 0o044 else "entered"
    return f"can be {verb} by others ({kept.mode:04o})"


def _at_stake(kept: FileAccess, facts: MachineFacts) -> str:
    if not _is_mine(kept, facts):
        return "its owner can read and replace the token"
    if kept.mode & 0o022:
        return "they can replace the token, and `andon serve` refuses it"
    return "they can see its content"


def _is_mine(kept: FileAccess, facts: MachineFacts) -> bool:
    return kept.uid == facts.user.uid and kept.kind in ("file", "folder")


def _elsewhere(facts: MachineFacts) -> str:
    """Returns the fix: root with another user's variables (`sudo -E`) needs its own; others need
    another folder."""
    if facts.user.uid == 0:
        return "sudo env -u XDG_STATE_HOME HOME=/root andon doctor"
    return 'export XDG_STATE_HOME="/var/tmp/$(id -un)"'


def _is_replaceable(kept: FileAccess, facts: MachineFacts) -> bool:
    """Whether another user could rename what is in this folder."""
    if kept.uid not in (0, facts.user.uid):
        return True
    return bool(kept.mode & 0o022) and not kept.mode & STICKY


def _replaceable(kept: FileAccess, facts: MachineFacts) -> CheckResult:
    words = f"{kept.path}, above the state folder, "
    place = {"path": kept.path, "owner": kept.owner, "mode": f"{kept.mode:04o}"}
    if kept.uid not in (0, facts.user.uid):
        words += f"belongs to {kept.owner}, who could replace the state folder"
        return failure(Check.STATE_EXPOSED, words, _elsewhere(facts), **place)
    words += f"can be changed by others ({kept.mode:04o}): they could replace the state folder"
    fix = f"chmod go-w {sh(kept.path)}"
    return failure(Check.STATE_EXPOSED, words, fix, **place)


def _config(facts: MachineFacts) -> Iterator[CheckResult]:
    """Checks the settings file: it contains commands that the server runs as its user."""
    kept = facts.security.config
    if kept is None or (kept.uid in (0, facts.user.uid) and not kept.mode & 0o022):
        return
    owned = kept.uid in (0, facts.user.uid)
    how = f"can be changed by others ({kept.mode:04o})" if owned else f"belongs to {kept.owner}"
    words = f"the settings {kept.path} {how}; its commands run as {facts.user.name}"
    quoted = sh(kept.path)
    fix = f"chmod go-w {quoted}" if owned else f"ls -l {quoted} && unset ANDON_CONFIG"
    place = {"path": kept.path, "owner": kept.owner, "mode": f"{kept.mode:04o}"}
    yield failure(Check.CONFIG_EXPOSED, words, fix, **place)


# The server and the ports.


def _server(facts: MachineFacts) -> Iterator[CheckResult]:
    server, listeners = facts.security.server, facts.security.listeners
    mine = [x for x in listeners if x.uid == facts.user.uid and server and x.port == server.port]
    if server is not None and server.lives and mine:
        yield _own_server(mine, server.tls)
    elif server is not None:
        words = f"{server.path} refers to a server that has ended: any user may take its port"
        yield warning(Check.SERVER_GONE, words, f"rm -f {sh(server.path)}")
    foreign = [x for x in listeners if x.uid != facts.user.uid and x.uid >= SYSTEM_UIDS]
    for listener in foreign:
        yield _foreign(listener)
    usual = [x for x in listeners if x.port == facts.security.usual_port]
    if server is None and not foreign:
        yield _usual(usual, facts)


def _own_server(listeners: list[PortListener], tls: bool) -> CheckResult:
    beyond = [listener for listener in listeners if not listener.loopback]
    shown = (beyond or listeners)[0]
    where = f"{shown.address} port {shown.port}"
    place: dict[str, Value] = {"address": shown.address, "port": shown.port, "tls": tls}
    if not beyond:
        return ok(Check.SERVER, f"your server listens on {where}, on loopback only", **place)
    if tls:
        words = f"your server listens on {where} with TLS; reading requires the token"
        return ok(Check.SERVER, words, **place)
    words = f"your server listens on {where} without TLS: the token is sent unencrypted"
    return warning(Check.SERVER_WITHOUT_TLS, words, _CLOSE, **place)


def _foreign(listener: PortListener) -> CheckResult:
    words = (
        f"{listener.owner} (uid {listener.uid}) listens on {listener.address} port "
        f"{listener.port}: it is not your server"
    )
    fix = f"andon serve --port {_another(listener.port)} # do not send your token there"
    place: dict[str, Value] = {
        "address": listener.address,
        "port": listener.port,
        "uid": listener.uid,
    }
    return warning(Check.PORT_FOREIGN, words, fix, **place)


def _another(port: int) -> int:
    return port + 1 if port < 65535 else port - 1


def _usual(usual: list[PortListener], facts: MachineFacts) -> CheckResult:
    if not usual:
        words = f"{facts.user.name} has no server, and port {facts.security.usual_port} is free"
        return ok(Check.SERVER, words, port=facts.security.usual_port)
    shown = usual[0]
    words = f"{shown.owner} listens on {shown.address} port {shown.port}"
    return ok(Check.SERVER, words, address=shown.address, port=shown.port, uid=shown.uid)


# Kernel protections.


def _kernel(facts: MachineFacts) -> Iterator[CheckResult]:
    """Checks the kernel's link protection: entries belong to the file's owner, so users must not
    hard-link other users' files."""
    security = facts.security
    if security.protected_hardlinks is None:
        return
    place = {
        "protected_hardlinks": security.protected_hardlinks,
        "dmesg_restrict": security.dmesg_restrict,
        "kptr_restrict": security.kptr_restrict,
    }
    if security.protected_hardlinks:
        words = "the kernel protects hard links, so lease files belong to their owners"
        yield ok(Check.LINKS_PROTECTED, words, **place)
        return
    words = (
        "fs.protected_hardlinks is 0: a user can hard-link another's lease file and keep it in "
        "the book"
    )
    yield warning(
        Check.LINKS_UNPROTECTED, words, "sudo sysctl -w fs.protected_hardlinks=1", **place
    )
