"""What every notifier must keep: each has a real other side, which may behave badly."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from andon.core.notifying.messages import MessageContext
from andon.core.settings.alerts import NOTIFIER_KINDS, NotifierSettings
from andon.errors import AndonError
from andon.model.alert import NoticeKind
from andon.ports import Notifier
from andon.registry import NOTIFIERS, load
from tests.integration.parts import free_port
from tests.support.listening import Listening, listening
from tests.support.notices import HOT, berlin, notice, over

__all__ = ["listening"]

SECRET = "s3cr3tT0kenValue"
VOICE = MessageContext("node7", berlin, "https://gpus.example/")


@dataclass
class Other:
    """The other side: what it heard, and how it behaves."""

    heard: Callable[[], list[str]]
    behave: Callable[[str], None]
    """As one of "well", "badly" and "never"."""
    settings: NotifierSettings
    elsewhere: NotifierSettings
    """The same kind, where nobody is."""


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


def by_http(kind: str, scheme: str, path: str, server: Listening) -> Other:
    def settings(port: int) -> NotifierSettings:
        url = f"{scheme}://user:{SECRET}@127.0.0.1:{port}{path}"
        return NotifierSettings("phone", kind, url=url, timeout_seconds=1.0)

    here = settings(server.server_address[1])
    return Other(lambda: server.heard, server.behave, here, settings(free_port()))


def by_command(folder: Path) -> Other:
    script, manner, heard = folder / "tell.py", folder / "manner", folder / "heard"
    script.write_text(SCRIPT)
    manner.write_text("well")
    heard.touch()

    def behave(how: str) -> None:
        manner.write_text(how)

    command = (sys.executable, str(script), str(folder), SECRET)
    settings = NotifierSettings("phone", "command", command=command, timeout_seconds=1.0)
    patient = replace(settings, timeout_seconds=30.0)
    return Other(
        lambda: heard.read_text().splitlines(),
        behave,
        patient,
        replace(settings, command=(str(folder / "nobody"), SECRET)),
    )


STARTS = {"command": [pytest.mark.process]}


@pytest.fixture(params=[pytest.param(k, marks=STARTS.get(k, [])) for k in NOTIFIER_KINDS])
def other(request: pytest.FixtureRequest, tmp_path: Path, listening: Listening) -> Other:
    if request.param == "command":
        return by_command(tmp_path)
    if request.param == "apprise":
        return by_http("apprise", "json", "/told", listening)
    return by_http("alertmanager", "http", "/prefix", listening)


Open = Callable[[NotifierSettings], Notifier]


@pytest.fixture
def opened() -> Iterator[Open]:
    made: list[Notifier] = []

    def open_it(settings: NotifierSettings) -> Notifier:
        made.append(load(NOTIFIERS, settings.kind)(settings, VOICE))
        return made[-1]

    yield open_it
    for notifier in made:
        notifier.close()
        notifier.close()


def test_every_kind_is_in_the_registry() -> None:
    assert set(NOTIFIERS) == set(NOTIFIER_KINDS)


def test_what_is_sent_has_arrived_when_it_returns(other: Other, opened: Open) -> None:
    notifier = opened(other.settings)
    assert notifier.name == "phone"
    notifier.send([notice()], [HOT])
    (told,) = other.heard()
    text = json.dumps(json.loads(told), ensure_ascii=False)
    for word in ("GPU 3 is too hot: 91 °C", "ada", "cooling", "https://gpus.example/", "node7"):
        assert word in text, word


def test_the_end_is_told_too(other: Other, opened: Open) -> None:
    notifier = opened(other.settings)
    notifier.send([notice()], [HOT])
    notifier.send([over(HOT)], [])
    assert len(other.heard()) == 2


def test_a_test_arrives(other: Other, opened: Open) -> None:
    test = replace(HOT, message="This is a test: nothing is wrong.")
    opened(other.settings).send([notice(test, NoticeKind.TEST)], [])
    assert "This is a test" in other.heard()[0]


def test_with_nothing_to_tell_nothing_is_told(other: Other, opened: Open) -> None:
    opened(other.settings).send([], [])
    assert other.heard() == []


def test_what_is_simulated_says_so(other: Other, opened: Open) -> None:
    opened(other.settings).send([notice(simulated=True)], [])
    assert "SIMULATED" in other.heard()[0]


def test_no_secret_of_a_command_line_leaves(other: Other, opened: Open) -> None:
    opened(other.settings).send([notice()], [HOT])
    assert "hunter2" not in other.heard()[0]


def test_a_refusal_is_an_error_without_secrets_and_can_be_tried_again(
    other: Other, opened: Open
) -> None:
    notifier = opened(other.settings)
    other.behave("badly")
    with pytest.raises(AndonError) as caught:
        notifier.send([notice()], [HOT])
    assert SECRET not in caught.value.reason + caught.value.hint
    assert caught.value.hint
    other.behave("well")
    notifier.send([notice()], [HOT])
    assert len(other.heard()) == 1


def test_where_nobody_is_the_error_says_so(other: Other, opened: Open) -> None:
    with pytest.raises(AndonError) as caught:
        opened(other.elsewhere).send([notice()], [HOT])
    assert SECRET not in caught.value.reason + caught.value.hint


def test_what_never_answers_is_given_up(other: Other, opened: Open) -> None:
    other.behave("never")
    notifier = opened(replace(other.settings, timeout_seconds=0.2))
    with pytest.raises(AndonError) as caught:
        notifier.send([notice()], [HOT])
    assert SECRET not in caught.value.reason


def test_the_address_is_not_in_its_repr(other: Other) -> None:
    assert SECRET not in repr(other.settings)
