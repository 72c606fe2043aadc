"""Fuzzes the settings: TOML files and ANDON_* variables with whatever may stand in them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from andon.app.settings import load_settings
from andon.errors import AndonError
from andon.settings.resolution import describe, resolve
from tests.fuzz.chance import Chance, rounds
from tests.support.homes import own_folders

LIMIT_SECONDS = 60.0
FILES = 120  # read in this process in a round; then one command reads the last
COMMANDS = (
    ("config", "check"), ("config",), ("config", "check", "--json"), ("status", "--json"),
    ("alerts", "rules"), ("doctor", "--json"), ("devices", "--json"),
)  # fmt: skip
CODES = (0, 1, 2, 3, 4, 6)
TABLES = ("alerts.notifiers", "alerts.overrides", "alerts.routes", "sampling", "history", "x.y.z")
TOML: tuple[str, ...] = (
    "0", "-1", "1e400", "-inf", "nan", "0x7fffffffffffffff", "9" * 4000, "9" * 5000, "0.1",
    "1e-400", "true", "false", '""', '"a"', "'\\u0000'", '"\\u0000"', '"\\U0010FFFF"', '"\\ud800"',
    "'''a\nb'''", "[]", "[[], []]", "[1, 'a', true]", "{}", "{a = 1}", "{a = {b = {c = [1]}}}",
    "1979-05-27", "1979-05-27T07:32:00Z", "07:32:00", "[" * 300 + "]" * 300, "[" * 9000,
    '"' + "a" * 5000 + '"', "", "=", "x", '"1h"', '"99999999999999h"', '"../../x"', '"%s"',
    '"\\u001b[31m"', '"off"', "'auto'", '["auto"]',
)  # fmt: skip
BROKEN = (b"", b"\xff\xfe", b"\x00", b"a" * 100_000, b"[" * 50_000, b"\xef\xbb\xbf", b"[a]\n" * 2)


def play(folder: Path, seed: int, seconds: float) -> int:
    """Many files in this process, and one command as a person runs it, in each round."""
    folder.mkdir(parents=True, exist_ok=True)
    known = [(row.place, row.variable) for row in describe()]

    def one(chance: Chance, number: int) -> None:
        path = folder / "andon.toml"
        for _ in range(FILES):
            content = toml(chance, known)
            path.write_bytes(content)
            _load(str(path), content)
            _resolve(content, variables(chance, known))
        _load(_plain(chance), b"a name that may be no path at all")
        _command(chance, folder, path, variables(chance, known))

    return rounds("settings", seed, seconds, one)


# What is written.


def toml(chance: Chance, known: list[tuple[str, str]]) -> bytes:
    lines = list(_lines(chance, known))
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    kind = chance.randrange(12)
    if kind == 0:
        return chance.spoiled(content)
    if kind == 1:
        return chance.choice((*BROKEN, chance.junk()))
    if kind == 2:
        return content.replace(b"\n", b"\r\n") + b"\r"
    return content


def _lines(chance: Chance, known: list[tuple[str, str]]) -> Iterator[str]:
    for _ in range(chance.randrange(1, 6)):
        place = chance.choice(known)[0]
        table, _, key = place.rpartition(".")
        if chance.random() < 0.15:
            yield f"[{table}]"
            yield f"{key} = {_value(chance)}"
            continue
        yield f"{place} = {_value(chance)}"
    if chance.random() < 0.4:
        table = chance.choice(TABLES)
        yield f"[[{table}]]" if chance.random() < 0.7 else f"[{table}]"
        for key in chance.sample(("name", "kind", "url", "command", "level", "device", "off"), 3):
            yield f"{key} = {_value(chance)}"
    if chance.random() < 0.2:
        yield f"{json.dumps(chance.text()[:30])} = {_value(chance)}"


def _value(chance: Chance) -> str:
    if chance.random() < 0.7:
        return chance.choice(TOML)
    return json.dumps(chance.odd(), default=str)


def variables(chance: Chance, known: list[tuple[str, str]]) -> dict[str, str]:
    """Of the settings, misspelt ones, and those of other parts; a folder is never a real one."""
    found = {}
    for _ in range(chance.randrange(4)):
        name = chance.choice(known)[1]
        if chance.random() < 0.1:
            name += chance.choice(("S", "_", "_X"))
        found[name] = _plain(chance)
    if chance.random() < 0.2:
        name = chance.choice(("ANDON_TOKEN", "ANDON_LEASE", "ANDON_CONFIG"))
        found[name] = _plain(chance)
    return found


def _plain(chance: Chance) -> str:
    """What a variable can hold: any bytes but NUL."""
    text = chance.text() if chance.random() < 0.7 else str(chance.odd())
    content = text.encode("utf-8", "surrogatepass").replace(b"\x00", b"")
    return os.fsdecode(content[: chance.choice((20, 300, 6000))])


# Who reads it.


def _load(path: str, content: bytes) -> None:
    """Settings, or a mistake with a reason; nothing else, and not after a while."""
    began, refused = time.monotonic(), "nothing"
    os.environ["ANDON_CONFIG"] = path
    try:
        load_settings({})
    except AndonError as error:
        refused = error.reason
    except Exception as exc:
        raise AssertionError(f"{path!r}: {type(exc).__name__} for {content[:2000]!r}") from exc
    assert refused
    took = time.monotonic() - began
    assert took < LIMIT_SECONDS, f"{took:.1f} s for {content[:300]!r}"


def _resolve(content: bytes, env: dict[str, str]) -> None:
    text = content.decode("utf-8", "replace")
    for file, strict in ((("a.toml", text), True), (None, True), (None, False)):
        refused = "nothing"
        try:
            resolve(file, env, {}, strict)
        except AndonError as error:
            refused = error.reason
        except Exception as exc:
            raise AssertionError(f"{type(exc).__name__} for {env} {text[:2000]!r}") from exc
        assert refused


def _command(chance: Chance, folder: Path, path: Path, odd: dict[str, str]) -> None:
    words = chance.choice(COMMANDS)
    more = () if words[0] == "config" else ("--simulate", "1")
    named = () if chance.random() < 0.5 else ("--config", str(path))
    command = [sys.executable, "-P", "-m", "andon.cli", *words, *named, *more]
    env: dict[str, Any] = {
        **os.environ,
        **own_folders(folder),
        "HOME": str(folder),
        "ANDON_CONFIG": str(path),
        **odd,
    }
    told = f"andon {' '.join(words)} with {odd} and {path.read_bytes()[:2000]!r}"
    try:
        done = subprocess.run(
            command, capture_output=True, env=env, cwd=folder, timeout=LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired as exc:
        raise AssertionError(f"no end of {told}") from exc
    shown = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert "Traceback" not in shown, f"{told}: {shown[-3000:]}"
    assert "\x1b" not in shown, f"{told}: {shown[:1000]!r}"
    assert done.returncode in CODES, f"{done.returncode} from {told}: {shown[-1000:]}"
