"""Fills names in braces into a command. In a text for a shell a value is a variable, which the
shell reads as data wherever it stands; a mistake about the quotes around it never makes it code."""

import re
from collections.abc import Mapping, Sequence

from andon.errors import Invalid

NAMED = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_SHELL, _RUNS = re.compile(r"(?:.*/)?(?:ba|da|a|k|z)?sh"), re.compile(r"-[a-z]*c")
_INERT = re.compile(r"[A-Za-z0-9@%+=:,./_-]+")  # no shell reads anything into these
_DOCUMENT, _SUM = "<<", "(("
_INSIDE = r"\\.|`|\$\(\(?|" + NAMED.pattern
_COMMAND = (
    r"(?<![^\s;&|()])#[^\n]*|<<<|<<(?P<tabs>-?)[ \t]*(?P<quote>['\"\\]?)(?P<end>[\w.-]+)['\"]?"
    r"|['\"()\n]|"
)
_NEXT = {
    "": re.compile(_COMMAND + _INSIDE, re.DOTALL), "'": re.compile("'|" + NAMED.pattern),
    '"': re.compile('"|' + _INSIDE, re.DOTALL), _DOCUMENT: re.compile(_INSIDE, re.DOTALL),
}  # fmt: skip
"""What changes how a value must be written, by where it stands."""
_ENTERS = {"'": "'", '"': '"', "`": "`", "(": "(", "$(": "("}
_WRITTEN = {"'": "'\"%s\"'", '"': "%s", _DOCUMENT: "%s"}


def filled(text: str, known: Mapping[str, str]) -> str:
    """Returns the word with every known name in braces replaced; `${name}` stays."""
    return NAMED.sub(lambda match: known.get(match[1], match[0]), text)


def filled_command(arguments: Sequence[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """The command with every known name replaced: no value becomes several words or a part of a
    shell's text, unless it is all of that text."""
    made = [filled(argument, known) for argument in arguments]
    is_text = (
        len(arguments) > 2 and _SHELL.fullmatch(arguments[0]) and _RUNS.fullmatch(arguments[1])
    )
    if not is_text or NAMED.fullmatch(arguments[2]):
        return tuple(made)
    text = _ShellText(known)
    made[2] = text.filled(arguments[2])
    if text.used:
        given = " ".join(f"andon_{n}=${{{n}}}" for n in text.used.values())
        made[2] = f"{given}; shift {len(text.used)}; {made[2]}"
        made[3:] = [*(made[3:4] or made[:1]), *(known[name] for name in text.used), *made[4:]]
    return tuple(made)


class _ShellText:
    """Replaces the names in a shell text, and collects the values to pass as arguments after it."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known, self.used = known, dict[str, int]()

    def filled(self, text: str, outer: str = "") -> str:
        out, inside, documents, place = list[str](), [outer], list[tuple[int, re.Match[str]]](), 0
        while found := _NEXT.get(inside[-1], _NEXT[""]).search(text, place):
            sign, name = found[0], found[found.re.groups]
            out += [text[place : found.start()], self._value(name, inside) if name else sign]
            place = found.end()
            if sign == "\n":
                while documents:
                    place = self._document(text, place, out, *documents.pop(0))
            elif sign[:2] == "<<" and found["end"] and inside[-1] != _SUM:
                documents.append((len(out) - 1, found))
            elif (sign == inside[-1] != "(") or (sign == ")" and inside[-1][:1] == "("):
                inside.pop()
            else:
                inside += [_SUM, _SUM] if sign == "$((" else _ENTERS.get(sign, "")
        return "".join([*out, text[place:]])

    def _document(
        self, text: str, place: int, out: list[str], head: int, begin: re.Match[str]
    ) -> int:
        """Fills a here-document; one that the shell would not look into becomes one that it does,
        with the same text. Returns where it ends."""
        tabs = r"\t*" if begin["tabs"] else ""
        ending = rf"^{tabs}{re.escape(begin['end'])}$"
        end = re.compile(ending, re.MULTILINE).search(text, place)
        body = text[place : end.start() if end else len(text)]
        if begin["quote"] and NAMED.search(body):
            out[head] = f"<<{begin['tabs']}{begin['end']}"
            body = re.sub(r"[\\$`]", r"\\\g<0>", body)
        out += [self.filled(body, _DOCUMENT), end[0] if end else ""]
        return end.end() if end else len(text)

    def _value(self, name: str, inside: Sequence[str]) -> str:
        value = self._known.get(name, f"{{{name}}}")
        if name not in self._known or (_INERT.fullmatch(value) and _DOCUMENT not in inside):
            return value  # in a here-document such a value could be its end
        if _SUM in inside:  # some shells run what is in a text there
            raise Invalid(f"{{{name}}} within $((…)) is not a number: {value[:40]!r}")
        number = self.used.setdefault(name, len(self.used) + 1)
        return _WRITTEN.get(inside[-1], '"%s"') % f"${{andon_{number}}}"
