"""The board's styles have five sizes of type, by name."""

import re
from pathlib import Path

STYLES = Path("frontend/src/styles")
SIZES = {"small": 13, "text": 15, "large": 18, "head": 24, "huge": 36}
NAMED = {f"var(--{name})" for name in SIZES} | {"inherit", "min(var(--cell), var(--head))"}
"""A name on the wall of a fleet is as large as its cell allows."""
ROOT = re.compile(r"^(:root\.on-wall|html) \{[^}]*\}", re.M)  # how large one rem is
USED = re.compile(r"font-size:\s*([^;}]+)|(?<!-)font:\s*(?:\d+ )?([^/;}\s]+)")


def sizes_used(css: str) -> set[str]:
    return {(one[1] or one[2]).strip() for one in USED.finditer(ROOT.sub("", css))}


def test_the_styles_have_five_sizes_of_type() -> None:
    base = (STYLES / "base.css").read_text("utf-8")
    named = {name: 16 * float(rem) for name, rem in re.findall(r"--(\w+): ([\d.]+)rem;", base)}
    assert {name: named.get(name) for name in SIZES} == SIZES


def test_no_style_has_another_size() -> None:
    others = {
        path.name: sizes_used(path.read_text("utf-8")) - NAMED for path in STYLES.glob("*.css")
    }
    assert {name: found for name, found in others.items() if found} == {}


def test_another_size_is_found() -> None:
    css = "a { font-size: 0.9rem } b { font: 600 14px/1.2 x } c { font-size: calc(1em); }"
    assert sizes_used(css) == {"0.9rem", "14px", "calc(1em)"}
    assert sizes_used("html { font-size: max(100%, 1vw); }") == set()
