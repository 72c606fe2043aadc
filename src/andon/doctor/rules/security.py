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
        message = f"access to the state folder was not checked: {security.unseen}"
        yield unknown(Check.STATE_PRIVATE, message)
        return
    found = [finding for file in security.state if (finding := _exposed(file, facts))]
    above = next((file for file in security.above if _is_replaceable(file, facts)), None)
    if above is not None:
        found.append(_replaceable(above, facts))
    yield from found
    if security.state and not found:
        names = ", ".join(file.name for file in security.state[1:])
        message = f"only {facts.user.name} can access the state folder" + (
            f": {names}" if names else ""
        )
        yield ok(Check.STATE_PRIVATE, message, path=security.state[0].path)


def _exposed(file: FileAccess, facts: MachineFacts) -> CheckResult | None:
    """A finding if another user can read a token or record, or has created it: it is not secret."""
    how = _how(file, facts)
    if how is None:
        return None
    place = {"path": file.path, "owner": file.owner, "mode": f"{file.mode:04o}"}
    quoted = sh(file.path)
    if file.name == "folder":
        message = f"the state folder {file.path} {how}: {_at_stake(file, facts)}"
        fix = f"chmod 700 {quoted}" if _is_mine(file, facts) else _elsewhere(facts)
        graded = warning if _is_mine(file, facts) and not file.mode & 0o022 else failure
        return graded(Check.STATE_EXPOSED, message, fix, **place)
    if file.name == "token":
        message = f"the token {file.path} {how}: another user can use it"
        fix = f"rm -f {quoted} && andon serve # creates a new one"
        return failure(Check.TOKEN_EXPOSED, message, fix, **place)
    mode = "700" if file.kind == "folder" else "600"
    fix = (
        f"chmod {mode} {quoted}" if _is_mine(file, facts) else f"ls -ld {quoted} && rm -i {quoted}"
    )
    return warning(Check.RECORDS_EXPOSED, f"the {file.name} {file.path} {how}", fix, **place)


def _how(file: FileAccess, facts: MachineFacts) -> str | None:
    """Returns how other users can access a file; None if they cannot."""
    if file.kind not in ("file", "folder"):
        return "is a link" if file.kind == "link" else "is not a regular file"
    if file.uid != facts.user.uid:
        return f"belongs to {file.owner}"
    more = file.mode & 0o077
    if not more:
        return None
    verb = "changed" if more & 0o022 else "read" if more & 0o044 else "entered"
    return f"can be {verb} by others ({file.mode:04o})"


def _at_stake(file: FileAccess, facts: MachineFacts) -> str:
    if not _is_mine(file, facts):
        return "its owner can read and replace the token"
    if file.mode & 0o022:
        return "they can replace the token, and `andon serve` refuses it"
    return "they can see its content"


def _is_mine(file: FileAccess, facts: MachineFacts) -> bool:
    return file.uid == facts.user.uid and file.kind in ("file", "folder")


def _elsewhere(facts: MachineFacts) -> str:
    """Returns the fix: root with another user's variables (`sudo -E`) needs its own; others need
    another folder."""
    if facts.user.uid == 0:
        return "sudo env -u XDG_STATE_HOME HOME=/root andon doctor"
    return 'export XDG_STATE_HOME="/var/tmp/$(id -un)"'


def _is_replaceable(file: FileAccess, facts: MachineFacts) -> bool:
    """Whether another user could rename what is in this folder."""
    if file.uid not in (0, facts.user.uid):
        return True
    return bool(file.mode & 0o022) and not file.mode & STICKY


def _replaceable(file: FileAccess, facts: MachineFacts) -> CheckResult:
    message = f"{file.path}, above the state folder, "
    place = {"path": file.path, "owner": file.owner, "mode": f"{file.mode:04o}"}
    if file.uid not in (0, facts.user.uid):
        message += f"belongs to {file.owner}, who could replace the state folder"
        return failure(Check.STATE_EXPOSED, message, _elsewhere(facts), **place)
    message += f"can be changed by others ({file.mode:04o}): they could replace the state folder"
    fix = f"chmod go-w {sh(file.path)}"
    return failure(Check.STATE_EXPOSED, message, fix, **place)


def _config(facts: MachineFacts) -> Iterator[CheckResult]:
    """Checks the settings file: it contains commands that the server runs as its user."""
    file = facts.security.config
    if file is None or (file.uid in (0, facts.user.uid) and not file.mode & 0o022):
        return
    owned = file.uid in (0, facts.user.uid)
    how = f"can be changed by others ({file.mode:04o})" if owned else f"belongs to {file.owner}"
    message = f"the settings {file.path} {how}; its commands run as {facts.user.name}"
    quoted = sh(file.path)
    fix = f"chmod go-w {quoted}" if owned else f"ls -l {quoted} && unset ANDON_CONFIG"
    place = {"path": file.path, "owner": file.owner, "mode": f"{file.mode:04o}"}
    yield failure(Check.CONFIG_EXPOSED, message, fix, **place)


# The server and the ports.


def _server(facts: MachineFacts) -> Iterator[CheckResult]:
    server, listeners = facts.security.server, facts.security.listeners
    mine = [x for x in listeners if x.uid == facts.user.uid and server and x.port == server.port]
    if server is not None and server.lives and mine:
        yield _own_server(mine, server.tls)
    elif server is not None:
        message = f"{server.path} refers to a server that has ended: any user may take its port"
        yield warning(Check.SERVER_GONE, message, f"rm -f {sh(server.path)}")
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
        message = f"your server listens on {where} with TLS; reading requires the token"
        return ok(Check.SERVER, message, **place)
    message = f"your server listens on {where} without TLS: the token is sent unencrypted"
    return warning(Check.SERVER_WITHOUT_TLS, message, _CLOSE, **place)


def _foreign(listener: PortListener) -> CheckResult:
    message = (
        f"{listener.owner} (uid {listener.uid}) listens on {listener.address} port "
        f"{listener.port}: it is not your server"
    )
    fix = f"andon serve --port {_another(listener.port)} # do not send your token there"
    place: dict[str, Value] = {
        "address": listener.address,
        "port": listener.port,
        "uid": listener.uid,
    }
    return warning(Check.PORT_FOREIGN, message, fix, **place)


def _another(port: int) -> int:
    return port + 1 if port < 65535 else port - 1


def _usual(usual: list[PortListener], facts: MachineFacts) -> CheckResult:
    if not usual:
        message = f"{facts.user.name} has no server, and port {facts.security.usual_port} is free"
        return ok(Check.SERVER, message, port=facts.security.usual_port)
    shown = usual[0]
    message = f"{shown.owner} listens on {shown.address} port {shown.port}"
    return ok(Check.SERVER, message, address=shown.address, port=shown.port, uid=shown.uid)


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
        message = "the kernel protects hard links, so lease files belong to their owners"
        yield ok(Check.LINKS_PROTECTED, message, **place)
        return
    message = (
        "fs.protected_hardlinks is 0: a user can hard-link another's lease file and keep it in "
        "the book"
    )
    yield warning(
        Check.LINKS_UNPROTECTED, message, "sudo sysctl -w fs.protected_hardlinks=1", **place
    )
