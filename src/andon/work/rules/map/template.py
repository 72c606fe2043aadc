"""The command of a map, with the item filled in."""

from collections.abc import Sequence

from msgspec import Struct

from andon.errors import Invalid
from andon.work.rules.map.items import MapItem
from andon.work.rules.shell_text import NAMED, filled, filled_command

ITEM, STEM, INDEX, GPU = "item", "stem", "index", "gpu"
FIRST_GPU = "0"
"""What a worker on a cluster calls its GPU, whichever it got."""
OF_AN_ITEM = frozenset({ITEM, STEM, INDEX})


class CommandTemplate(Struct, frozen=True):
    """Arguments with `{item}`, `{stem}`, `{index}`, `{gpu}` or `{field}` in them; other braces
    stay.

    Without any that differs from item to item, the item is the last argument.
    """

    arguments: tuple[str, ...]
    fields: frozenset[str] = frozenset()  # those of the items, as far as the words name them

    @property
    def appends(self) -> bool:
        named = {name for argument in self.arguments for name in NAMED.findall(argument)}
        return not named & (OF_AN_ITEM | self.fields)

    def command(self, items: Sequence[MapItem], gpu: str) -> list[str]:
        """Returns the command of one call. Several items stand where `{item}` is an argument of
        its own, or at the end."""
        arguments = (*self.arguments, "{item}") if self.appends else self.arguments
        if len(items) == 1:
            return list(filled_command(arguments, values(items[0], gpu)))
        out: list[str] = []
        for argument in arguments:
            if argument == "{item}":
                out += [item.text for item in items]
            else:
                out.append(filled(argument, {GPU: gpu}))
        return out


def template_of(
    arguments: Sequence[str], items: Sequence[MapItem], per_call: int = 1
) -> CommandTemplate:
    """Returns the command for these items; raises Invalid if they do not fit together."""
    named = {name for argument in arguments for name in NAMED.findall(argument)}
    found = {name for item in items for name in item.fields}
    template = CommandTemplate(tuple(arguments), frozenset(named & found))
    for item in items:
        if lacking := sorted(template.fields - item.fields.keys()):
            raise Invalid(
                f"item {item.index} has no field {lacking[0]!r}: {item.shown[:80]}",
                hint=f"every item needs it, because the command has {{{lacking[0]}}}",
            )
    if per_call > 1:
        _refuse_several(template)
    return template


def _refuse_several(template: CommandTemplate) -> None:
    for argument in template.arguments:
        named = set(NAMED.findall(argument)) & (OF_AN_ITEM | template.fields)
        if named and argument != "{item}":
            raise Invalid(
                f"with --per-call the command gets several items, which {argument!r} cannot hold",
                hint="use {item} as a word of its own, or leave it out: items then come last",
            )


def values(item: MapItem, gpu: str) -> dict[str, str]:
    """Returns the values of the names in braces; andon's own win over fields of the same name."""
    return {
        **item.fields,
        ITEM: item.text,
        STEM: stem(item.text),
        INDEX: str(item.index),
        GPU: gpu,
    }


def stem(text: str) -> str:
    """Returns the name of a file without its folder and its last suffix."""
    name = text.rstrip("/").rpartition("/")[2]
    base, dot, _ = name.rpartition(".")
    return base if dot and base.strip(".") else name
