"""Makes a command line safe to show: printable, bounded, secrets replaced by `***`.

A value is hidden because of its name (`--token x`, `DB_PASSWORD=x`, `?sig=x`, `"api_key": "x"`,
`Authorization: x`), its own form (`sk-...`, `hf_...`, a JWT, a URL with a password), or because it
follows a short option of a program that is known to take a password there.

- After `--token` the next argument is always hidden, even if it begins with `--`: hiding a flag by
  mistake does less harm than showing a secret.
- `-p` alone means a port, a path or a profile far more often than a password, so short options
  count only for the programs in `_SHORT_OPTIONS`.
- Names are compared word by word: `--tokenizer`, `--max-tokens`, `--eos-token`, `--keyframes` and
  `--password-file` are harmless.
- Any user can write command lines, so the cost is linear in their length: no pattern scans the same
  text twice, and a value is searched only after a secret name.
- What identifies a secret may come after it (`://u:x@`, a closing quote). So a line that is too
  long is cut at a space, and an unclosed quote extends to the end.
"""

import re
from collections.abc import Callable, Sequence

from andon.units import printable

HIDDEN = "***"
MAX_CHARACTERS = 4096
_MAX_DEPTH = 4  # `--env=A=B=c`
READ_CHARACTERS = 2 * MAX_CHARACTERS  # more would not be shown
CUT = "…"

_SHORT_OPTIONS = {
    "curl": {"-u", "-U", "--user", "--proxy-user"},
    "ldapsearch": {"-w"},
    "mariadb": {"-p"},
    "mongo": {"-p"},
    "mongosh": {"-p"},
    "mysql": {"-p"},
    "mysqladmin": {"-p"},
    "mysqldump": {"-p"},
    "openssl": {"-pass", "-passin", "-passout"},
    "redis-cli": {"-a"},
    "sshpass": {"-p"},
}

_SECRET_ENDINGS = ("password", "passwd", "passphrase", "secret", "apikey", "accesskey", "secretkey")
_SECRET_WORDS = {
    "authorization", "bearer", "cookie", "cookies", "cred", "credential", "credentials", "creds",
    "passwords", "privatekey", "secrets",
}  # fmt: skip
_ABOUT_SECRETS = {
    "backend", "class", "column", "count", "dir", "directory", "endpoint", "engine", "env",
    "expiry", "field", "file", "files", "format", "header", "length", "limit", "manager",
    "mode", "name", "names", "path", "policy", "prompt", "provider", "size", "stdin",
    "store", "timeout", "ttl", "type", "uri", "url", "version",
}  # fmt: skip
_SWITCHES = {"allow", "disable", "enable", "no", "require", "show", "skip"}
_TOKENS_OF_A_TEXT = {
    "add", "audio", "begin", "bos", "by", "class", "cls", "end", "eos", "first", "image", "last",
    "mask", "max", "min", "new", "next", "num", "pad", "per", "placeholder", "sep", "special",
    "start", "stop", "trigger", "unk", "video",
}  # fmt: skip
_TOKEN_WORDS = {"accesstoken", "apitoken", "authtoken", "bearertoken", "token"}
_KEYS_TO_SOMETHING = {
    "access", "account", "api", "auth", "deploy", "encryption", "license", "master", "private",
    "secret", "service", "session", "shared", "signing", "storage",
}  # fmt: skip
_OWNERS_OF_A_PASS = {
    "admin", "app", "db", "email", "ftp", "http", "login", "mail", "mysql", "pg", "postgres",
    "proxy", "redis", "root", "smtp", "ssh", "user",
}  # fmt: skip
_QUERY_WORDS = {"auth", "code", "key", "sig", "signature", "token"}
_STEMS = (
    "auth", "bearer", "code", "cook", "cred", "key", "pass", "pwd", "secret", "sig", "token",
)  # fmt: skip
"""Part of every secret name; this alone rules out most names."""
_FORMS = (
    "sk-", "hf_", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "xox", "akia",
    "asia", "aiza", "npm_", "pypi-", "eyj", "slack",
)  # fmt: skip
_MARKS = (":", "?", "&", *_STEMS, *_FORMS)
"""Part of everything that is hidden, in small letters; this alone rules out most arguments."""

# Patterns are compiled when they are used: most command lines need few of them.

_WORD = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"
_FLAG = r"--?[A-Za-z][\w.-]+"
_ASSIGNMENT = r"((?:--?|\+{1,2})?[A-Za-z_][\w.-]*)=(.+)"
_HEADER = (
    r"(?:proxy-)?authorization|(?:set-)?cookie"
    r"|x-(?=[\w-]{3,46}+\s*:)[\w-]{0,40}(?:token|key|secret)"
    r"|api-key|private-token"
)
_WHOLE_HEADER = rf"(?i)((?:-H)?(?:{_HEADER})\s*:)\s*\S.*"
_INNER_HEADER = rf"(?i)(\b(?:{_HEADER})\s*:)\s*(?!\*\*\*(?:\s|$))[^\s\"'][^\"']*"
_JSON = r"""(["'])([\w.-]+)\1\s*:\s*(?=["'])"""
_QUERY = r"[?&]([\w.-]+)="
_NAMED = r"(?<![\w?&.-])(?:(-{1,2}[A-Za-z][\w.-]+)\s+|(-{0,2}[A-Za-z_][\w.-]*)=)"
_QUOTED_OR_RUN = r""""[^"]*"?|'[^']*'?|\S+"""
_QUERY_VALUE = r"""[^&\s#"']*"""
_URL_USER = r"://[^\s:/@?#]*:(?![0-9]{1,5}(?:[/?#]|$))"
_URL_REST = r"[^\s\"']*"
_URL_LOGIN = r"://[^\s:/@?#]{20,}@"
_SLACK = r"(hooks\.slack\.com/)[\w/]+"
_BEARER = r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}"
_KNOWN = (
    r"(?<![A-Za-z0-9_])(?:"
    r"sk-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}"
    r"|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{30,}"
    r"|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}|-----BEGIN [A-Z ]*PRIVATE KEY-----.*)"
)
# The second part is optional: otherwise every `eyJ` within would be scanned again.
_JWT = r"(?<![A-Za-z0-9_])eyJ[\w-]{5,}(\.[\w-]{5,}(?:\.[\w-]*)?)?"


def redact(arguments: Sequence[str], room: int = READ_CHARACTERS) -> str:
    """Joins a command line for display; characters beyond `room` are not read."""
    shown, hide_next = list[str](), False
    short_options = _short_options(arguments)
    for argument in arguments:
        text = printable(argument[: room + 1])
        whole = len(text) <= room
        text = text if whole else text[:room].rpartition(" ")[0]
        if text or whole:
            hidden = hide_next and argument
            shown.append(HIDDEN if hidden else _argument(text, short_options))
        if not whole:
            shown.append(CUT)
            break
        hide_next = argument in short_options or (
            argument.startswith("-")
            and is_secret_name(argument)
            and re.fullmatch(_FLAG, argument) is not None
        )
        room = max(0, room - len(text) - 1)
    line = " ".join(shown)
    return line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - 1] + CUT


def redact_text(text: str) -> str:
    """Returns a text, such as a URL, without the secrets in it."""
    return _inside(text)


def is_secret_name(name: str) -> bool:
    """Whether a value with this name must be hidden: `DB_PASSWORD`, `--api-key`, `authToken`."""
    if not _has(name, _STEMS):
        return False
    words = [word.lower() for word in re.findall(_WORD, name)]
    if not words or words[0] in _SWITCHES:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if any(word.endswith(_SECRET_ENDINGS) or word in _SECRET_WORDS for word in words):
        return last not in _ABOUT_SECRETS
    if last in _TOKEN_WORDS:
        return before not in _TOKENS_OF_A_TEXT
    return (
        (last in ("key", "keys", "tokens") and before in _KEYS_TO_SOMETHING)
        or (
            last == "pass" and (before in _OWNERS_OF_A_PASS or name == "--pass")
        )  # not ffmpeg's -pass
        or (last == "pwd" and before != "")  # PWD alone is the current folder
        or last == "auth"
    )


def _has(text: str, marks: Sequence[str]) -> bool:
    small = text.lower()
    return any(mark in small for mark in marks)


def _short_options(arguments: Sequence[str]) -> frozenset[str]:
    """Returns the short options of all programs in the line: `sudo` or `env` may come first."""
    options: set[str] = set()
    for argument in arguments:
        options |= _SHORT_OPTIONS.get(argument.rpartition("/")[2], set())
    return frozenset(options)


def _argument(text: str, short_options: frozenset[str], depth: int = 0) -> str:
    """Redacts one whole argument: everything after a secret name in it is hidden."""
    if not short_options and not _has(text, _MARKS):
        return text
    if header := re.fullmatch(_WHOLE_HEADER, text):
        return f"{header[1]} {HIDDEN}"
    assigned = re.fullmatch(_ASSIGNMENT, text)
    if assigned and depth < _MAX_DEPTH:
        name, value = assigned[1], assigned[2]
        secret = name in short_options or is_secret_name(name)
        return f"{name}={HIDDEN if secret else _argument(value, short_options, depth + 1)}"
    if len(text) > 2 and text[:2] in short_options and text not in short_options:
        return text[:2] + HIDDEN
    return _inside(text)


def _inside(text: str) -> str:
    """Hides secrets within a longer text, such as a script given to `sh -c`."""
    text = re.sub(_INNER_HEADER, rf"\1 {HIDDEN}", text)
    text = _hide_values(text, _JSON, _QUOTED_OR_RUN, lambda m: is_secret_name(m[2]))
    text = _hide_values(text, _QUERY, _QUERY_VALUE, lambda m: _is_secret_parameter(m[1]))
    text = _hide_values(text, _NAMED, _QUOTED_OR_RUN, lambda m: is_secret_name(m[1] or m[2]))
    text = _hide_passwords(text)
    text = re.sub(_URL_LOGIN, f"://{HIDDEN}@", text)
    text = re.sub(_SLACK, rf"\1{HIDDEN}", text)
    text = re.sub(_BEARER, rf"\1{HIDDEN}", text)
    text = re.sub(_JWT, lambda m: HIDDEN if m[1] else m[0], text)
    return re.sub(_KNOWN, HIDDEN, text)


def _hide_passwords(text: str) -> str:
    """Hides the text between a URL's user and its last `@`, which is where a password ends."""
    parts: list[str] = []
    done = rest_ends = last_at = 0
    for user in re.finditer(_URL_USER, text):
        if user.end() > rest_ends and (rest := re.compile(_URL_REST).match(text, user.end())):
            rest_ends, last_at = rest.end(), text.rfind("@", *rest.span())
        if done <= user.start() and user.end() <= last_at:
            parts += [text[done : user.end()], HIDDEN]
            done = last_at
    return "".join([*parts, text[done:]])


def _is_secret_parameter(name: str) -> bool:
    if not _has(name, _STEMS):
        return False
    words = re.findall(_WORD, name)
    return is_secret_name(name) or (bool(words) and words[-1].lower() in _QUERY_WORDS)


def _hide_values(
    text: str,
    names: str,
    values: str,
    is_secret: Callable[[re.Match[str]], bool],
) -> str:
    """Replaces the value after each secret name; a name is never taken as another's value."""
    parts: list[str] = []
    done = 0
    for name in re.finditer(names, text):
        if name.start() < done or not is_secret(name):
            continue
        value = re.compile(values).match(text, name.end())
        if value and value[0]:
            parts += [text[done : name.end()], HIDDEN]
            done = value.end()
    return "".join([*parts, text[done:]])
