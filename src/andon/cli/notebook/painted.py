"""The text of a command as a notebook shows it: the same cells, as HTML or as plain text."""

import re
from html import escape

from andon.cli.show.text import without_commands

_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_CLASSES = {
    "1": "bold", "2": "dim", "7": "reverse", "31": "red", "32": "green", "33": "yellow",
    "36": "cyan",
}  # fmt: skip
_LIGHT = {"red": "#b3261e", "green": "#1d6b38", "yellow": "#855300", "cyan": "#1d6f7a"}
_DARK = {"red": "#ff8a80", "green": "#7fd6a0", "yellow": "#ffc75f", "cyan": "#6fd3df"}
# The page may be dark by its own theme, whatever the system prefers: JupyterLab and VS Code say so.
_DARK_PAGES = ("[data-jp-theme-light=false]", ".vscode-dark", "html[theme=dark]")


def _style() -> str:
    rules = [
        ".andon{line-height:1.35;overflow-x:auto;white-space:pre;margin:0;background:none}",
        ".andon .bold{font-weight:600}.andon .dim{opacity:.65}",
        ".andon .reverse{outline:1px solid currentColor}",
    ]
    rules += [f".andon .{name}{{color:{value}}}" for name, value in _LIGHT.items()]
    dark = [f".andon .{name}{{color:{value}}}" for name, value in _DARK.items()]
    rules += [f"{page} {rule}" for page in _DARK_PAGES for rule in dark]
    plain = "body:not([data-jp-theme-light]):not(.vscode-light) "
    seen = "".join(plain + rule for rule in dark)
    return f"<style>{''.join(rules)}@media(prefers-color-scheme:dark){{{seen}}}</style>"


class Painted:
    """What a cell shows: text with colours. All of it is escaped; nothing in it runs."""

    def __init__(self, text: str) -> None:
        self._text = without_commands(text)

    def __repr__(self) -> str:
        return _SGR.sub("", self._text).rstrip("\n")

    def _repr_html_(self) -> str:
        return f'{_style()}<pre class="andon">{self._spans()}</pre>'

    def _spans(self) -> str:
        # Odd places hold the codes between the texts.
        parts, shown, names = _SGR.split(self._text.rstrip("\n")), "", ""
        for place, part in enumerate(parts):
            if place % 2:
                names = " ".join(_CLASSES[code] for code in part.split(";") if code in _CLASSES)
            elif names:
                shown += f'<span class="{names}">{escape(part)}</span>'
            else:
                shown += escape(part)
        return shown
