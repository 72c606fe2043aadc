"""Translates PostgreSQL's errors into andon's own: one sentence each, with a hint."""

import re

import psycopg

from andon.errors import AndonError, Conflict, Denied, Invalid, Unavailable
from andon.units import sh

BUSY = ("55P03", "40001", "40P01")  # a lock that is held, or a deadlock
_NO_DATABASE = re.compile(r'database "([^"]*)" does not exist')
_NO_ROLE = re.compile(r'role "([^"]*)" does not exist')
_PREFIX = re.compile(r"^.*FATAL:\s*|^.*connection to server |^.*connection (?:failed|is bad): ")
_PASSWORDS = "use ~/.pgpass, a service (?service=NAME) or PGPASSWORD"


class Silent(psycopg.OperationalError):
    """The server did not answer in time; its connection must not be used again."""


def translated(error: psycopg.Error, place: str) -> AndonError:
    """Returns an error of psycopg as one of andon's, without the text of a statement."""
    code, text = error.sqlstate or "", _sentence(error)
    if isinstance(error, Silent):
        hint = "check the server: systemctl status postgresql"
        return Unavailable(f"{place} does not respond: {text}", hint=hint)
    for codes, kind, reason, hint in _KNOWN:
        if code.startswith(codes):
            return kind(f"{place}: {reason.format(text)}", hint=hint)
    if code:
        return Unavailable(f"{place}: {text} ({code})", hint="see the log of PostgreSQL")
    return _unconnected(text, place)


def _unconnected(text: str, place: str) -> AndonError:
    """Returns the error for a connection that failed: libpq gives no code then."""
    if found := _NO_DATABASE.search(text):
        name = found[1]
        return Unavailable(f'{place}: there is no database "{name}"', hint=f"createdb {sh(name)}")
    if found := _NO_ROLE.search(text):
        hint = "name another: postgresql://ROLE@HOST/DATABASE; or: createuser " + sh(found[1])
        return Denied(f"{place}: {text}", hint=hint)
    if "no password supplied" in text or "authentication failed" in text:
        return Denied(f"{place}: {text}", hint=_PASSWORDS)
    if "pg_hba.conf" in text or "permission denied for database" in text:
        return Denied(f"{place}: {text}", hint="the administrator of PostgreSQL must let it in")
    if re.search("invalid .* value:", text):
        return Invalid(f"{place}: {text}", hint="postgresql://[ROLE@]HOST[:PORT]/DATABASE")
    if "read-only" in text or "hot standby" in text:
        return Unavailable(f"{place}: only a standby responds", hint=_STANDBY)
    if "No such file or directory" in text and "socket" in text:
        hint = "start it, or name its host: postgresql://HOST/DATABASE"
        return Unavailable(f"{place}: no PostgreSQL is running on this machine", hint=hint)
    return Unavailable(f"{place}: {text}", hint="is PostgreSQL running? try: pg_isready")


def _sentence(error: psycopg.Error) -> str:
    """Returns the message in one line; of several hosts, that of each."""
    primary = error.diag.message_primary
    lines = [line.strip(" -\t") for line in (primary or str(error)).splitlines()]
    hosts = [line for line in lines if line.startswith("host: ")]
    reasons = [line for line in hosts or lines if not line.startswith(("HINT", "Is the server"))]
    texts = dict.fromkeys(_PREFIX.sub("", line) for line in reasons if line)
    return "; ".join(texts)[:300] or type(error).__name__


_STANDBY = "name all servers, PostgreSQL finds the primary: postgresql://a,b/andon"
_KNOWN: tuple[tuple[str | tuple[str, ...], type[AndonError], str, str], ...] = (
    ("25006", Unavailable, "it is a standby, or read-only", _STANDBY),
    ("42501", Denied, "{}", "let its role own the database: ALTER DATABASE … OWNER TO …"),
    ("3F000", Invalid, "{}", "create it: CREATE SCHEMA …, or correct search_path"),
    ("3D000", Unavailable, "{}", "create it: createdb"),
    ("28", Denied, "{}", _PASSWORDS),
    ("53100", Unavailable, "the disk of the database is full", "free some space there"),
    ("53300", Unavailable, "{}", "raise max_connections of PostgreSQL"),
    ("23505", Conflict, "{}", "it is another one's"),
    (BUSY, Conflict, "locked by another session: {}", "see pg_stat_activity"),
    ("42P07", Invalid, "{}, and it is another program's", "name a database of andon's own"),
    ("57P", Unavailable, "the server stops or starts: {}", "it is tried again"),
)
