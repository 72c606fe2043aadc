"""The kinds of notifiers: which keys each takes, and the address that Apprise makes of them."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from msgspec import Struct

from andon.settings.kinds import WHOLE, TableKey, ValueKind, matching

HOOK = "https://hooks.slack.com/services/"
ENCRYPTION = {"starttls": ("mailtos", 587), "ssl": ("mailtos", 465), "none": ("mailto", 25)}
"""The scheme of Apprise and the usual port of each."""
MODES = {"starttls": "starttls", "ssl": "ssl", "none": "insecure"}
MOST_PORT = 65_535
_ADDRESS = re.compile(r"[^@\s,<>\"]{1,100}@[^@\s,<>\"]{1,200}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_SECRET = re.compile(r"[0-9A-Za-z_-]{8,100}")
_OWN_HOOK = re.compile(r"/hooks/([0-9A-Za-z]{8,100})/?$")
_HOST = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z.-]{0,250}[0-9A-Za-z])?|\[[0-9A-Fa-f:.]{2,45}\]")

Values = Mapping[str, Any]


class NotifierKind(Struct, frozen=True):
    """A kind of notifier: its required and optional keys, and how its address is built."""

    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()
    address: Callable[[Values], str] | None = None  # as Apprise writes it; None: `url` as it is
    check: Callable[[Values], str | None] | None = None  # what is wrong with its values together

    @property
    def keys(self) -> tuple[str, ...]:
        return (*self.needs, *self.takes)


def _texts(value: object) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not found:
        raise ValueError
    return tuple(matching(_ADDRESS)(one) for one in found)


def _printable(value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError
    return value


def _headers(value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError
    return {matching(_HEADER)(name): _printable(text) for name, text in value.items()}


def _port(value: object) -> int:
    found = WHOLE.read(value)
    if not isinstance(found, int) or not 1 <= found <= MOST_PORT:
        raise ValueError
    return found


def _encryption(value: object) -> str:
    if value not in ENCRYPTION:
        raise ValueError
    return str(value)


OWN_KEYS = (
    TableKey("headers", ValueKind('a table such as { X-Token = "…" }', _headers),
             "for webhook: sent with each message"),
    TableKey("to", ValueKind('an address such as "ada@example.org", or a list', _texts),
             "for email: who gets it"),
    TableKey("from", ValueKind("an address such as andon@example.org", matching(_ADDRESS)),
             "for email: the sender; else the user, or the first in to"),
    TableKey("host", ValueKind("the name of a mail server", matching(_HOST)),
             "for email: the mail server; else localhost"),
    TableKey("port", ValueKind("a port", _port), "for email; else that of the encryption"),
    TableKey("user", ValueKind("a text", _printable), "for email: to sign in to the mail server"),
    TableKey("password", ValueKind("a text", _printable), "for email"),
    TableKey("encryption", ValueKind("starttls, ssl or none", _encryption),
             "for email; else starttls, or none for localhost"),
    TableKey("routing_key", ValueKind("an integration key of PagerDuty", matching(_SECRET)),
             "for pagerduty: the key of a service's Events API v2 integration"),
)  # fmt: skip
SECRETS = frozenset({"url", "command", "headers", "user", "password", "routing_key"})
"""Keys whose values are never quoted."""


def _slack_check(values: Values) -> str | None:
    url = str(values.get("url", HOOK))
    if url.startswith((HOOK, "slack://")) or (_is_http(url) and _OWN_HOOK.search(url)):
        return None
    return f"url: Slack's incoming webhooks begin with {HOOK}, Mattermost's end in /hooks/KEY"


def _http_check(values: Values) -> str | None:
    url = str(values.get("url", "http://x"))
    return None if _is_http(url) else "url: must begin with http:// or https:// and name a host"


def _alertmanager_check(values: Values) -> str | None:
    url = str(values.get("url", "http://"))
    plain = url.startswith(("http://", "https://"))
    return None if plain else "url: Alertmanager's must begin with http:// or https://"


def _email_check(values: Values) -> str | None:
    if ("user" in values) != ("password" in values):
        return "user and password belong together"
    return None


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _slack(values: Values) -> str:
    """Returns the address; Mattermost takes what Slack does, and Apprise has a scheme for it."""
    url: str = values["url"]
    own = None if url.startswith((HOOK, "slack://")) else _OWN_HOOK.search(url)
    if own is None:
        return url
    return f"{url[: own.start()].replace('http', 'mmost', 1)}/{own[1]}"


def _webhook(values: Values) -> str:
    """Returns the address in Apprise's form: parameters begin with -, headers with +."""
    parts = urlsplit(values["url"])
    scheme = {"http": "json", "https": "jsons"}[parts.scheme]
    given = [(f"-{name}", text) for name, text in parse_qsl(parts.query, keep_blank_values=True)]
    given += [(f"+{name}", text) for name, text in values.get("headers", {}).items()]
    query = _query(given)
    return f"{scheme}://{parts.netloc}{parts.path}{'?' if query else ''}{query}"


def _query(pairs: Iterable[tuple[str, str]]) -> str:
    """Encodes the values twice, because Apprise decodes them twice."""
    return urlencode([(n, v.replace("%", "%25")) for n, v in pairs], quote_via=quote)


def _email(values: Values) -> str:
    host, to = values.get("host", "localhost"), values["to"]
    way = values.get("encryption") or ("none" if host == "localhost" else "starttls")
    scheme, port = ENCRYPTION[way]
    user = values.get("user", "")
    sender = values.get("from") or (user if _ADDRESS.fullmatch(user) else to[0])
    query = {"smtp": host, "from": sender, "to": ",".join(to), "mode": MODES[way], "format": "text"}
    signed = f"{quote(user, safe='')}:{quote(values.get('password', ''), safe='')}@" if user else ""
    place = f"{signed}{host}:{values.get('port', port)}"
    return f"{scheme}://{place}?{_query(query.items())}"


def _pagerduty(values: Values) -> str:
    """Returns the address; Apprise requires a second key, which the Events API does not use."""
    return f"pagerduty://{values['routing_key']}@{values['routing_key']}"


KINDS: Mapping[str, NotifierKind] = {
    "slack": NotifierKind(("url",), (), _slack, _slack_check),
    "email": NotifierKind(
        ("to",), ("from", "host", "port", "user", "password", "encryption"), _email, _email_check
    ),
    "webhook": NotifierKind(("url",), ("headers",), _webhook, _http_check),
    "pagerduty": NotifierKind(("routing_key",), (), _pagerduty),
    "command": NotifierKind(("command",)),
    "desktop": NotifierKind((), ("command",)),
    "alertmanager": NotifierKind(("url",), check=_alertmanager_check),
    "apprise": NotifierKind(("url",)),
}
"""The kinds that come with andon. Whether an installed package has another one is checked when the
notifiers are opened; such a one may take a url or a command."""
EVERY_KEY = frozenset(key for kind in KINDS.values() for key in kind.keys)


def wrong_keys(kind: str, values: Values, table: Values) -> Iterator[str]:
    """Yields the mistakes in the keys of this kind: missing, unknown or contradictory ones."""
    known = KINDS.get(kind)
    if known is None:
        yield from (f"{kind} takes no {key}" for key in table if key in EVERY_KEY - _FOREIGN)
        return
    yield from (f"{key} is missing" for key in known.needs if key not in table)
    named = ", ".join(known.keys)
    yield from (
        f"{kind} takes no {key} (it takes {named})"
        for key in table
        if key in EVERY_KEY and key not in known.keys
    )
    wrong = None if known.check is None else known.check(values)
    if wrong is not None:
        yield wrong


def addressed(kind: str, values: Values) -> dict[str, Any]:
    """Returns the values of `NotifierSettings`: a kind's own keys become its url."""
    known = KINDS.get(kind)
    if known is None or known.address is None:
        return dict(values)
    others = {name: value for name, value in values.items() if name not in known.keys}
    return {**others, "url": known.address(values)}


_FOREIGN = frozenset({"url", "command"})


# The lines of a notifier in the configuration file, and the file with them at its end.

TABLE = "[[alerts.notifier]]"


def notifier_lines(name: str, kind: str, values: Mapping[str, Any]) -> str:
    """Returns the table of one notifier, as a person would write it."""
    pairs = {"name": name, "kind": kind, **values}
    return "\n".join([TABLE, *(f"{key} = {_toml(value)}" for key, value in pairs.items())]) + "\n"


def with_lines(text: str, lines: str) -> str:
    """Returns the file's text with these lines at its end; the rest is unchanged."""
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{lines}"


def free_name(wanted: str, taken: Collection[str]) -> str:
    """Returns `slack`, or `slack-2` if that is taken."""
    names = (wanted if n == 1 else f"{wanted}-{n}" for n in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_text(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value) if isinstance(value, int) else _text(str(value))


def _text(text: str) -> str:
    """Returns a basic string of TOML, which has the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
