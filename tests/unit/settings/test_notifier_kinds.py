"""Notifiers by their own names and keys, and adding one to the configuration file."""

import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.app.notifier_file import add_notifier
from andon.cli.main import run
from andon.errors import Conflict, Denied, Invalid
from andon.settings.alerts import read_notifiers
from andon.settings.notifier_kinds import (
    KINDS,
    addressed,
    free_name,
    notifier_lines,
    with_lines,
    wrong_keys,
)
from tests.support.listening import Listening, listening
from tests.support.rows import rows

__all__ = ["listening"]

HOOK = "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
KEY = "0123456789abcdef0123456789abcdef"


@pytest.mark.slow
@rows(
    "kind, values, url",
    [
        ("slack", {"url": HOOK}, HOOK),
        ("slack", {"url": "slack://T/B/X/#gpus"}, "slack://T/B/X/#gpus"),
        ("webhook", {"url": "https://h.example/a%20b"}, "jsons://h.example/a%20b"),
        ("webhook", {"url": "http://u:p@[::1]:9/x?k=1&l="}, "json://u:p@[::1]:9/x?-k=1&-l="),
        (
            "webhook", {"url": "http://h/", "headers": {"X-Token": "a&b c"}},
            "json://h/?%2BX-Token=a%26b%20c",
        ),
        (
            "email", {"to": ["ada@example.org"]},
            "mailto://localhost:25?smtp=localhost&from=ada%40example.org&to=ada%40example.org"
            "&mode=insecure&format=text",
        ),
        (
            "email",
            {"to": ["a@x.org", "b@x.org"], "from": "andon@x.org", "host": "mail.x.org",
             "user": "u@x.org", "password": "p/w:@"},
            "mailtos://u%40x.org:p%2Fw%3A%40@mail.x.org:587?smtp=mail.x.org&from=andon%40x.org"
            "&to=a%40x.org%2Cb%40x.org&mode=starttls&format=text",
        ),
        (
            "email", {"to": ["a@x.org"], "host": "m", "encryption": "ssl", "port": 4465},
            "mailtos://m:4465?smtp=m&from=a%40x.org&to=a%40x.org&mode=ssl&format=text",
        ),
        ("pagerduty", {"routing_key": KEY}, f"pagerduty://{KEY}@{KEY}"),
        ("slack", {"url": f"https://chat.x.org:8443/team/hooks/{KEY}"},
         f"mmosts://chat.x.org:8443/team/{KEY}"),
        ("slack", {"url": f"http://localhost:8065/hooks/{KEY}/"}, f"mmost://localhost:8065/{KEY}"),
    ],
)  # fmt: skip
def test_a_kind_takes_its_own_keys_and_apprise_understands_the_address(
    kind: str, values: dict[str, Any], url: str
) -> None:
    import apprise

    mistakes: list[str] = []
    (found,) = read_notifiers([{"name": "n", "kind": kind, **values}], "notifier", mistakes)
    assert (mistakes, found.kind, found.url) == ([], kind, url)
    assert isinstance(apprise.Apprise.instantiate(url), apprise.NotifyBase), url


@pytest.mark.slow
def test_apprise_reads_a_webhooks_headers_and_parameters_back() -> None:
    import apprise

    headers = {"X-Token": "a&b c+%2B%"}
    url = addressed("webhook", {"url": "https://h/x?a=b%26c%2541", "headers": headers})["url"]
    plugin: Any = apprise.Apprise.instantiate(url)
    assert (plugin.headers, plugin.params) == (headers, {"a": "b&c%41"})


@rows(
    "kind, values, words",
    [
        ("slack", {}, ["url is missing"]),
        ("slack", {"url": "https://example.org/x"},
         ["url: Slack's incoming webhooks begin with https://hooks.slack.com/services/, "
          "Mattermost's end in /hooks/KEY"]),
        ("slack", {"url": HOOK, "to": ["a@b.c"], "command": ["x"]},
         ["slack takes no to (it takes url)", "slack takes no command (it takes url)"]),
        ("webhook", {"url": "ftp://h"},
         ["url: must begin with http:// or https:// and name a host"]),
        ("webhook", {"url": "http://:9/"},
         ["url: must begin with http:// or https:// and name a host"]),
        ("webhook", {"url": "http://h:99999/"},
         ["url: must begin with http:// or https:// and name a host"]),
        ("email", {"user": "u"}, ["to is missing", "user and password belong together"]),
        ("pagerduty", {"url": "x"},
         ["routing_key is missing", "pagerduty takes no url (it takes routing_key)"]),
        ("command", {"url": "x"},
         ["command is missing", "command takes no url (it takes command)"]),
        ("alertmanager", {"url": "am://x"},
         ["url: Alertmanager's must begin with http:// or https://"]),
        ("pigeon", {"url": "x", "to": ["a@b.c"]}, ["pigeon takes no to"]),
    ],
)  # fmt: skip
def test_every_mistake_is_named(kind: str, values: dict[str, Any], words: list[str]) -> None:
    assert [*wrong_keys(kind, values, values)] == words


@rows(
    "key, value",
    [
        ("url", "https://x/\n"), ("url", 5), ("to", "nobody"), ("to", []), ("to", ["a@b,c@d"]),
        ("from", "Andon <a@b.c>"), ("host", "mail/x"), ("host", "-x"), ("port", 0),
        ("port", 65_536), ("port", True), ("encryption", "tls"), ("headers", ["X"]),
        ("headers", {"X Y": "z"}), ("headers", {"X": "a\r\nBcc: b"}), ("password", ""),
        ("password", "a\nb"), ("routing_key", "short"), ("routing_key", "a" * 20 + "@evil/"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_and_a_secret_is_not_quoted(key: str, value: object) -> None:
    mistakes: list[str] = []
    assert read_notifiers([{"name": "n", "kind": "apprise", key: value}], "n", mistakes) == ()
    told = next(one for one in mistakes if f".{key}:" in one)
    hidden = key in ("url", "headers", "password", "routing_key")
    assert ("the value is not" in told) == hidden


@given(st.dictionaries(st.sampled_from(sorted({*KINDS["email"].keys, "url", "headers"})),
                       st.text(st.characters(exclude_categories=["Cs"])), max_size=4))  # fmt: skip
def test_what_is_written_is_read_back(values: dict[str, str]) -> None:
    text = with_lines("# a comment\n[alerts]", notifier_lines("n", "email", values))
    told = tomllib.loads(text)["alerts"]["notifier"]
    assert told == [{"name": "n", "kind": "email", **values}]


def test_a_name_is_the_kind_and_counts_on() -> None:
    assert free_name("slack", ()) == "slack"
    assert free_name("slack", ("slack", "slack-3")) == "slack-2"


# In the file.


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config" / "andon.toml"
    monkeypatch.setenv("ANDON_CONFIG", str(path))
    return path


def test_lines_are_added_once_and_the_rest_of_the_file_stays(file: Path) -> None:
    file.parent.mkdir()
    before = "# mine\n[alerts]\nthermal_celsius = 75  # a warm room"
    file.write_text(before)
    file.chmod(0o644)
    made = add_notifier("slack", {"url": HOOK})
    assert made.lines == f'[[alerts.notifier]]\nname = "slack"\nkind = "slack"\nurl = "{HOOK}"\n'
    assert file.read_text() == f"{before}\n\n{made.lines}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [p.name for p in file.parent.iterdir()] == ["andon.toml"]
    again = add_notifier("slack", {"url": HOOK})
    assert (again.settings, again.lines) == (made.settings, "")
    assert add_notifier("slack", {"url": HOOK}, "slack").lines == ""
    other = add_notifier("slack", {"url": HOOK[:-1]})
    assert other.settings.name == "slack-2"
    with pytest.raises(Conflict, match="named slack already"):
        add_notifier("webhook", {"url": "http://h/"}, "slack")
    assert add_notifier("slack", {"url": HOOK}, "second").settings.name == "second"


def test_a_file_that_does_not_exist_is_made_and_a_link_is_kept(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_notifier("pagerduty", {"routing_key": KEY})
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    monkeypatch.setenv("ANDON_CONFIG", str(link))
    add_notifier("webhook", {"url": "http://h/"})
    assert link.is_symlink()
    assert file.read_text().count("[[alerts.notifier]]") == 2


@rows(
    "text, words",
    [
        ("alerts = { thermal_celsius = 75 }\n", "keeps its notifiers in another form"),
        ("[alerts]\nthermal_celcius = 75\n", "thermal_celcius"),
        ("[alerts\n", "andon.toml"),
        ("\xff", "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_extended_stays_as_it_is(
    text: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "andon.toml"
        file.write_bytes(text.encode("latin-1"))
        before = file.read_bytes()
        monkeypatch.setenv("ANDON_CONFIG", str(file))
        with pytest.raises(Invalid) as caught:
            add_notifier("slack", {"url": HOOK})
        assert words in " ".join((caught.value.reason, *caught.value.mistakes))
        assert file.read_bytes() == before


def test_a_folder_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    monkeypatch.setenv("ANDON_CONFIG", str(occupied / "andon.toml"))
    with pytest.raises(Denied, match="cannot be written: "):
        add_notifier("slack", {"url": HOOK})


def test_the_command_writes_shows_and_tries(
    file: Path, listening: Listening, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    url = f"http://127.0.0.1:{listening.server_address[1]}/x"
    said = ["alerts", "notify", "add", "webhook", url, "--header", "X-Token: abc"]
    assert run(said) == 0
    out = capsys.readouterr().out
    assert out.startswith(f'{file}:\n\n[[alerts.notifier]]\nname = "webhook"\n')
    assert "webhook: a test message was sent" in out
    (heard,) = listening.heard
    assert "nothing is wrong" in json.loads(heard)["message"]
    listening.behave("badly")
    assert run(said) == 1
    out = capsys.readouterr().out
    assert "has it already, as webhook" in out
    assert "the test message failed" in out
    assert "abc" not in out
    assert run(["config", "check"]) == 0


@rows(
    "words, told",
    [
        (["slack"], "Missing argument"),
        (["slack", HOOK, HOOK], "slack takes one address"),
        (["pigeon", "x"], "pigeon"),
        (["webhook", "http://h/", "--header", "X"], "write a header as"),
        (["slack", "https://example.org/"], "Slack's incoming webhooks begin with"),
        (["email", "ada"], "is not an address such as"),
        (["email", "a@b.c", "--password-file", "/nowhere"], "/nowhere cannot be read"),
    ],
)
def test_a_wrong_command_is_told_in_a_line(
    words: list[str], told: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["alerts", "notify", "add", *words, "--no-test"]) == 2
    assert told in capsys.readouterr().err
    assert not file.exists()


def test_an_address_is_read_from_standard_input(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.write(writing, f"{KEY}\n".encode())
    os.close(writing)
    with os.fdopen(reading) as given:
        monkeypatch.setattr("sys.stdin", given)
        assert run(["alerts", "notify", "add", "pagerduty", "-", "--no-test"]) == 0
    assert f'routing_key = "{KEY}"' in file.read_text()
