"""What every notifier must keep: each has a real other side, which may behave badly."""

import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.ports import Notifier
from andon.registry import NOTIFIERS, load
from andon.settings.alerts import NotifierSettings
from andon.settings.notifier_kinds import KINDS, addressed
from andon.testing.notifier_contract import SECRET, NotifierContract, NotifierService
from tests.integration.parts import free_port
from tests.support.listening import Listening, listening

__all__ = ["listening"]


def plain(lines: list[str]) -> list[str]:
    """JSON without escapes, as a person reads it."""
    return [json.dumps(json.loads(line), ensure_ascii=False) for line in lines]


SCRIPT = """
import sys, time, pathlib
folder = pathlib.Path(sys.argv[1])
manner = (folder / "manner").read_text()
told = sys.stdin.read()
if manner == "never":
    time.sleep(600)
if manner == "badly":
    sys.exit("it is not to be: password=" + sys.argv[2])
with (folder / "heard").open("a") as file:
    file.write(told)
"""


def by_http(kind: str, scheme: str, path: str, server: Listening) -> NotifierService:
    def settings(port: int) -> NotifierSettings:
        url = f"{scheme}://user:{SECRET}@127.0.0.1:{port}{path}"
        values = {"name": "phone", "kind": kind, "url": url, "timeout_seconds": 1.0}
        return NotifierSettings(**addressed(kind, values))

    here = settings(server.server_address[1])
    return NotifierService(lambda: plain(server.heard), server.behave, here, settings(free_port()))


def by_command(folder: Path) -> NotifierService:
    script, manner, heard = folder / "tell.py", folder / "manner", folder / "heard"
    script.write_text(SCRIPT)
    manner.write_text("well")
    heard.touch()

    def behave(how: str) -> None:
        manner.write_text(how)

    command = (sys.executable, str(script), str(folder), SECRET)
    settings = NotifierSettings("phone", "command", command=command, timeout_seconds=1.0)
    patient = replace(settings, timeout_seconds=30.0)
    return NotifierService(
        lambda: plain(heard.read_text().splitlines()),
        behave,
        patient,
        replace(settings, command=(str(folder / "nobody"), SECRET)),
    )


DESKTOP_SCRIPT = """
import json, sys, time, pathlib
folder = pathlib.Path(sys.argv[1])
manner = (folder / "manner").read_text()
if manner == "never":
    time.sleep(600)
if manner == "badly":
    sys.exit("no: " + sys.argv[2])
with (folder / "heard").open("a") as file:
    file.write(json.dumps(sys.argv[3:]) + "\\n")
"""


def by_desktop(folder: Path) -> NotifierService:
    found = by_command(folder)
    (folder / "tell.py").write_text(DESKTOP_SCRIPT)
    own = {"kind": "desktop"}
    return replace(
        found,
        settings=replace(found.settings, **own),
        unreachable=replace(found.unreachable, **own),
    )


STARTS = {"command": [pytest.mark.process], "desktop": [pytest.mark.process]}
OWN = ("alertmanager", "apprise", "command", "desktop", "webhook")
"""Those whose other side can be here; slack, email and pagerduty are Apprise with an address."""


class TestNotifiers(NotifierContract):
    """Each kind of andon's own."""

    @pytest.fixture(params=[pytest.param(k, marks=STARTS.get(k, [])) for k in OWN])
    def service(
        self, request: pytest.FixtureRequest, tmp_path: Path, listening: Listening
    ) -> NotifierService:
        if request.param == "command":
            return by_command(tmp_path)
        if request.param == "desktop":
            return by_desktop(tmp_path)
        if request.param == "apprise":
            return by_http("apprise", "json", "/told", listening)
        if request.param == "webhook":
            return by_http("webhook", "http", "/told?key=1", listening)
        return by_http("alertmanager", "http", "/prefix", listening)

    def make(self, settings: NotifierSettings) -> Notifier:
        made: Notifier = load(NOTIFIERS, settings.kind)(settings, self.context)
        return made


def test_every_kind_is_in_the_registry() -> None:
    assert set(NOTIFIERS) == set(KINDS)
