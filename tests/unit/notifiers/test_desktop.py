"""Messages on the desktop: by which program, and what it gets."""

import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.alerts.rules.messages import MessageContext
from andon.errors import Unavailable
from andon.notifiers.desktop import BUS, DesktopNotifier, desktop_environment, desktop_program
from andon.settings.alerts import NotifierSettings
from andon.testing.alert_store_contract import HOT, notice
from tests.support.rows import rows

CONTEXT = MessageContext("node7", lambda _at: 0.0)
WRITES = "#!{python}\nimport json, sys\nopen({heard!r}, 'w').write(json.dumps(sys.argv[1:]))\n"


def program(folder: Path, name: str) -> Path:
    path, heard = folder / name, folder / "heard"
    path.write_text(WRITES.format(python=sys.executable, heard=str(heard)))
    path.chmod(0o755)
    return heard


@rows("programs, found", [
    ("notify-send gdbus", "notify-send"),
    ("gdbus", "gdbus"),
    ("", None),
])  # fmt: skip
def test_which_program_shows_it(programs: str, found: str | None, tmp_path: Path) -> None:
    folder = tmp_path / (found or "none")
    folder.mkdir()
    for name in programs.split():
        program(folder, name)
    environment = {BUS: "unix:path=/x", "PATH": str(folder)}
    if found is None:
        with pytest.raises(Unavailable, match="there is no desktop"):
            desktop_program(environment)
    else:
        assert desktop_program(environment) == (str(folder / found),)
    with pytest.raises(Unavailable):
        desktop_program({"PATH": str(folder)})


def test_the_bus_of_this_user_is_found_where_the_variable_is_missing() -> None:
    assert desktop_environment({BUS: "mine"})[BUS] == "mine"
    assert set(desktop_environment({})) <= {BUS}


@pytest.mark.process
@pytest.mark.parametrize("name", ["notify-send", "gdbus"])
def test_markup_and_quotes_of_others_stay_text(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = program(tmp_path, name)
    monkeypatch.setenv(BUS, "unix:path=/x")
    monkeypatch.setenv("PATH", str(tmp_path))
    hostile = replace(HOT, message="<b>it's</b> \\ --urgency=critical")
    notifier = DesktopNotifier(NotifierSettings("desktop", "desktop"), CONTEXT)
    notifier.send([notice(hostile)], [])
    words = json.loads(heard.read_text())
    body = words[-1] if name == "notify-send" else words[-4]
    assert "&lt;b&gt;it" in body
    if name == "notify-send":
        assert words[2] == "--"
    else:
        assert "it\\'s" in body
        assert body[0] == body[-1] == "'"
