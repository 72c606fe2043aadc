"""The tables of the exports: `[[export]]`, where a server sends its metrics, and how."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from andon.settings.alerts import tables_in, values_in
from andon.settings.kinds import SECONDS, TEXT, TableKey, ValueKind, matching, repr_without

REMOTE_WRITE, OTLP = "remote-write", "otlp"
KINDS = (REMOTE_WRITE, OTLP)
INTERVAL_SECONDS = 15.0
TIMEOUT_SECONDS = 10.0
LONGEST_SECONDS = {"interval": 3600.0, "timeout": 600.0}
_NAME = re.compile(r"[\w.-]{1,40}", re.ASCII)
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,63}")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
OWN_HEADERS = frozenset({"authorization", "host", "content-type", "content-encoding",
                         "content-length", "transfer-encoding", "connection"})  # fmt: skip


class SecretSource(Struct, frozen=True):
    """Where a secret is: in a file, or in a variable of the server's environment."""

    file: str = ""
    variable: str = ""


class ExportSettings(Struct, frozen=True):
    """One export. The values of its headers and its address may be secrets: never in a `repr`."""

    __repr__ = repr_without("url", "headers")
    name: str
    kind: str
    url: str
    interval_seconds: float = INTERVAL_SECONDS
    timeout_seconds: float = TIMEOUT_SECONDS
    labels: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    secret: SecretSource | None = None
    """The password of the user, or without one a bearer token."""

    @property
    def queue(self) -> str:
        """The folder of the queue, within the machine's state folder."""
        return f"exports/{self.kind}-{self.name}"

    @property
    def place(self) -> str:
        """The address as it may be shown: without a query, which may hold a key."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{parts.path}"


def _kind(value: object) -> str:
    if value not in KINDS:
        raise ValueError
    return str(value)


def _url(value: object) -> str:
    text = str(TEXT.read(value))
    parts = urlsplit(text)
    if not text.isascii() or " " in text or not parts.hostname or parts.port == 0:
        raise ValueError
    if parts.scheme not in ("http", "https") or parts.username or parts.fragment:
        raise ValueError
    return text


def _pairs(pattern: re.Pattern[str]) -> Any:
    def read(value: object) -> dict[str, str]:
        if not isinstance(value, dict) or len(value) > 64:
            raise ValueError
        for name, text in value.items():
            if pattern.fullmatch(name) is None or not TEXT.read(text) or len(text) > 1000:
                raise ValueError
        return value

    return read


def _headers(value: object) -> dict[str, str]:
    found: dict[str, str] = _pairs(_HEADER)(value)
    if OWN_HEADERS & {name.lower() for name in found} or not "".join(found.values()).isascii():
        raise ValueError
    return found


def _path(value: object) -> str:
    text = str(TEXT.read(value))
    if not text.startswith(("/", "~/")):
        raise ValueError
    return text


_FILE = ValueKind("an absolute path", _path)
_ENV = ValueKind("the name of a variable", matching(_VARIABLE))
COLUMNS = (
    TableKey("kind", ValueKind(" or ".join(KINDS), _kind), "the protocol"),
    TableKey("url", ValueKind("a URL such as http://host:9090/api/v1/write, without a password",
                              _url), "where to send; the whole address"),
    TableKey("name", ValueKind("letters, digits, - and _", matching(_NAME)),
             "its name; else its kind"),
    TableKey("interval", SECONDS, "how often the metrics are sent"),
    TableKey("timeout", SECONDS, "the longest that one request may take"),
    TableKey("labels", ValueKind('a table such as { cluster = "lab" }', _pairs(_LABEL)),
             "added to every series, or to the resource"),
    TableKey("headers", ValueKind('a table such as { X-Scope-OrgID = "lab" }, without those that'
                                  " andon sets", _headers), "added to every request"),
    TableKey("token_file", _FILE, "a file with a bearer token"),
    TableKey("token_env", _ENV, "a variable of the server with a bearer token"),
    TableKey("user", ValueKind("a text without a colon", matching(re.compile(r"[^:\s]{1,200}"))),
             "the user name, with a password"),
    TableKey("password_file", _FILE, "a file with the password"),
    TableKey("password_env", _ENV, "a variable of the server with the password"),
)  # fmt: skip
SECRETS = frozenset({"url", "headers", "token_file", "token_env", "password_file", "password_env"})
"""Keys whose values are not quoted: a secret may have been written there by mistake."""


def read_exports(raw: object, where: str, mistakes: list[str]) -> tuple[ExportSettings, ...]:
    """Parses `[[export]]`; reports every mistake, and no secret."""
    found: list[ExportSettings] = []
    for place, table in tables_in(raw, where, mistakes):
        before = len(mistakes)
        values = values_in(place, table, COLUMNS, mistakes, SECRETS)
        mistakes += [f"{place}: {text}" for text in _wrong(values, table)]
        name = values.get("name", values.get("kind"))
        if any(one.name == name for one in found):
            mistakes.append(f"{place}: another export is named {name}: give each a name")
        if len(mistakes) == before:
            found.append(_export(values))
    return tuple(found)


def _wrong(values: Mapping[str, Any], table: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{key} is missing" for key in ("kind", "url") if key not in table)
    for key, most in LONGEST_SECONDS.items():
        if key in values and not 1 <= values[key] <= most:
            yield f"{key}: must be from 1 to {most:g} seconds"
    secrets = [one for one in ("token_file", "token_env", "password_file", "password_env")
               if one in table]  # fmt: skip
    if len(secrets) > 1:
        yield f"{' and '.join(secrets)}: name one of them"
    elif ("user" in table) != any(one.startswith("password") for one in secrets):
        yield "user belongs together with password_file or password_env"


def _export(values: Mapping[str, Any]) -> ExportSettings:
    given = {key.rpartition("_")[2]: values[key] for key in values if key.startswith(_SECRET)}
    return ExportSettings(
        values.get("name", values["kind"]),
        values["kind"],
        values["url"],
        values.get("interval", INTERVAL_SECONDS),
        values.get("timeout", TIMEOUT_SECONDS),
        values.get("labels", {}),
        values.get("headers", {}),
        values.get("user", ""),
        SecretSource(given.get("file", ""), given.get("env", "")) if given else None,
    )


_SECRET = ("token_", "password_")


def shown(export: ExportSettings) -> dict[str, object]:
    """Returns an export as `andon config` may show it."""
    secret = export.secret
    return {
        "name": export.name,
        "kind": export.kind,
        "url": export.place,
        "interval_seconds": export.interval_seconds,
        "timeout_seconds": export.timeout_seconds,
        "labels": [f"{name}={text}" for name, text in export.labels.items()],
        "headers": sorted(export.headers),
        "user": export.user,
        "secret": None if secret is None else secret.file or f"${secret.variable}",
    }
