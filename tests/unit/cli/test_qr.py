"""The QR code of `andon open --qr`: what a terminal shows is the link's code, dark on light."""

import sys

import pytest
import segno

from andon.cli.commands.watch.open import qr_text
from andon.errors import Unavailable

LINK = "https://gpus.example.org/#code=AbCdEfGhIjKlMnOpQrStUvWxYz0123456789_-Ab"
BLOCKS = {"█": (0, 0), "▀": (0, 1), "▄": (1, 0), " ": (1, 1)}
"""Two modules, one above the other: a block is light, and light is 0."""


def modules(text: str) -> list[list[int]]:
    out: list[list[int]] = []
    for line in text.splitlines():
        pairs = [BLOCKS[character] for character in line]
        out += [[pair[half] for pair in pairs] for half in (0, 1)]
    return out


def test_a_terminal_shows_the_code_of_the_link_with_a_quiet_zone() -> None:
    text = qr_text(LINK, "utf-8")
    assert text is not None
    shown = modules(text)
    code = [list(row) for row in segno.make(LINK, error="l", micro=False).matrix]
    size = len(code)
    assert [row[2 : size + 2] for row in shown[2 : size + 2]] == code
    edge = [shown[0], shown[1], shown[size + 2], *([r[0], r[1], r[-1]] for r in shown[:size])]
    assert not any(any(row) for row in edge)
    assert len(shown[0]) <= 78


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", None, "nonsense"])
def test_a_terminal_without_such_characters_gets_the_link_alone(encoding: str | None) -> None:
    assert qr_text(LINK, encoding) is None


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "segno", None)
    with pytest.raises(Unavailable, match="segno") as raised:
        qr_text(LINK, "utf-8")
    assert "andon open --print" in raised.value.hint
