"""The settings for alerts: every mistake at once, and no secret in any of them."""

import json
import re
import textwrap
from pathlib import Path

import pytest

from andon.app.alerts import open_notifiers
from andon.app.thresholds import rulebook
from andon.cli.main import run
from andon.errors import Invalid
from andon.explain.conditions.catalogue import FIGURES
from andon.explain.conditions.rulebook import RENOTIFY_SECONDS, thresholds
from andon.model.alert import Level
from andon.model.device import Device
from andon.registry import NOTIFIERS
from andon.settings.alerts import NOTIFIER_COLUMNS, NotifierSettings, OverrideSettings, masked
from andon.settings.figures import every_field
from andon.settings.kinds import NUMBER_OR_OFF, SECONDS_OR_OFF, ValueKind
from andon.settings.moments import QuietHours
from andon.settings.resolution import Resolved, Settings, resolve
from tests.conftest import REPOSITORY

SECRET = "TIiajkdnlazkcOXrIdevi7FQ"
TEXT = f"""
[alerts]
thermal_celsius = 75
power_percent = "off"
disabled_rules = ["fan"]
renotify_seconds = "1h"
quiet_hours = "22:00-07:00"
time_zone = "Europe/Berlin"
board_url = "https://gpus.example/"

[[alerts.override]]
device = 3
thermal_celsius = 90
memory_percent = "off"
xid = "off"

[[alerts.override]]
model = "H200"
disabled_rules = ["fan", "ecc"]

[[alerts.notifier]]
name = "phone"
kind = "apprise"
url = "slack://T1JJ3T3L2/A1BRTD4JD/{SECRET}/#gpus"
minimum_level = "critical"
rules = ["thermal", "device_lost"]
devices = [0, "GPU-1234"]
owners = ["ada"]
quiet_hours = "23:00-06:00"
bypass_quiet_hours = "never"

[[alerts.notifier]]
name = "log"
kind = "command"
command = "logger -t andon 'two words'"
timeout_seconds = "5s"

[[alerts.notifier]]
name = "am"
kind = "alertmanager"
url = "https://am.example/prefix"
"""


def from_file(text: str) -> Resolved:
    return resolve(("andon.toml", text), {}, {})


def mistakes(text: str) -> tuple[str, ...]:
    with pytest.raises(Invalid) as caught:
        from_file(text)
    return caught.value.mistakes


def test_everything_can_be_written_in_the_file() -> None:
    settings = from_file(TEXT).settings
    assert dict(settings.alerts_figures)["thermal_celsius"] == 75
    assert dict(settings.alerts_figures)["power_percent"] is None
    assert settings.alerts_renotify_seconds == 3600
    assert settings.alerts_overrides == (
        OverrideSettings(3, None, {"thermal_celsius": 90.0}, ("memory", "xid")),
        OverrideSettings(None, "H200", {}, ("ecc", "fan")),
    )
    phone, log, am = settings.alerts_notifiers
    assert phone == NotifierSettings(
        name="phone",
        kind="apprise",
        url=f"slack://T1JJ3T3L2/A1BRTD4JD/{SECRET}/#gpus",
        minimum_level=Level.CRITICAL,
        rules=("thermal", "device_lost"),
        devices=("0", "GPU-1234"),
        owners=("ada",),
        quiet_hours="23:00-06:00",
        bypass_quiet_hours="never",
    )
    assert log.command == ("logger", "-t", "andon", "two words")
    assert log.timeout_seconds == 5
    assert am.url == "https://am.example/prefix"


def test_each_threshold_can_be_given_by_a_variable_and_has_the_rulebooks_default() -> None:
    fields = {f.name: f for f in every_field()}
    for name in FIGURES:
        field = fields[f"alerts_{name}"]
        assert field.default == getattr(thresholds(), name), name
        value = max(12, field.low or 0)
        given = resolve(None, {field.variable: f"{value}"}, {}).settings.alerts_figures
        assert given == ((name, value),), name
    assert Settings().alerts_renotify_seconds == RENOTIFY_SECONDS
    found = resolve(
        None, {"ANDON_ALERTS_DISABLED_RULES": "fan,xid", "ANDON_ALERTS_THERMAL_CELSIUS": "off"}, {}
    )
    assert found.settings.alerts_disabled_rules == ("fan", "xid")
    assert found.settings.alerts_figures == (("thermal_celsius", None),)


def test_the_rulebook_follows_the_settings() -> None:
    book = rulebook(from_file(TEXT).settings)
    assert book.thresholds.thermal_celsius == 75
    assert book.thresholds.off == {"power", "fan"}
    assert book.renotify_seconds == 3600
    found = book.for_device(Device("GPU-9", 3, "nvidia", "NVIDIA H200"))
    assert found.thermal_celsius == 90
    assert found.off == {"power", "fan", "memory", "xid", "ecc"}


@pytest.mark.slow
def test_the_routes_follow_the_settings() -> None:
    routes = [route for _, route in open_notifiers(from_file(TEXT).settings, "node7")]
    phone, log, am = routes
    assert (phone.quiet, phone.bypass_quiet_hours, phone.level) == (
        QuietHours(1380, 360),
        None,
        Level.CRITICAL,
    )
    assert (log.quiet, log.bypass_quiet_hours, log.level) == (
        QuietHours(1320, 420),
        Level.CRITICAL,
        Level.WARNING,
    )
    assert am.quiet is None, "Alertmanager has quiet hours of its own"


WRONG = f"""
[alerts]
thermal_celsius = "warm"
quiet_hours = "22-7"
disabled_rules = ["fna"]
minimum_level = "info"
tempo = 1

[[alerts.override]]
device = "the third"
thermal_celsius = "hot"

[[alerts.override]]
device = 1
model = "H200"
thermal_margin_celsius = "off"
speed = 3

[[alerts.notifier]]
kind = "pigeon"
rules = ["termal"]
devices = ["gpu three"]
quiet_hours = "late"
minimum_level = "info"

[[alerts.notifier]]
name = "a b"
kind = "apprise"
url = "no url {SECRET}"

[[alerts.notifier]]
name = "am"
kind = "alertmanager"
url = "slack://{SECRET}"
command = "x {SECRET}"
timeout_seconds = 0

[[alerts.notifier]]
name = "am"
kind = "command"
"""


def test_every_mistake_is_told_at_once_and_no_secret_with_it() -> None:
    found = "\n".join(mistakes(WRONG))
    for word in (
        'thermal_celsius: "warm" is not', "quiet_hours", "did you mean fan?", "minimum_level",
        "alerts.tempo", "override 1.device: 'the third' is not a device such as 3",
        "override 1.thermal_celsius", "override 2: name either a device or a model",
        "override 2.thermal_margin_celsius: 'off' is not a number",
        "override 2: there is no setting 'speed'",
        "notifier 1: name is missing",
        "there is no rule 'termal': did you mean thermal?", "notifier 1.devices",
        "notifier 1.minimum_level",
        "notifier 1.quiet_hours: 'late' is not a time", "notifier 2.name", "notifier 2.url",
        "notifier 3 (am): alertmanager takes no command", "begin with http://",
        "notifier 3 (am): timeout_seconds", "notifier 4 (am): command is missing",
    ):  # fmt: skip
        assert word in found, word
    assert SECRET not in found


def test_two_notifiers_of_one_name_are_a_mistake() -> None:
    one = '[[alerts.notifier]]\nname = "a"\nkind = "command"\ncommand = "true"\n'
    (found,) = mistakes(one + one)
    assert "another notifier has this name" in found


@pytest.mark.parametrize("text", ["[alerts]\nnotifier = 3", "[alerts.notifier]\nname = 'x'"])
def test_what_is_no_list_of_tables_says_how_it_is_written(text: str) -> None:
    assert "[[alerts.notifier]]" in mistakes(text)[0]


def test_a_zone_that_does_not_exist_is_a_mistake() -> None:
    with pytest.raises(Invalid, match="time zone"):
        open_notifiers(resolve(None, {"ANDON_ALERTS_TIME_ZONE": "Europe/Nowhere"}, {}).settings)


@pytest.mark.parametrize("url", [f"slack://{SECRET}", f"json://user:{SECRET}@host/{SECRET}?x=1"])
def test_of_an_address_only_its_kind_is_shown(url: str) -> None:
    assert masked(url) == f"{url.partition(':')[0]}://***"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "andon.toml"
    path.write_text(TEXT)
    monkeypatch.setenv("ANDON_CONFIG", str(path))
    monkeypatch.setenv("COLUMNS", "200")
    return path


def test_config_masks_addresses(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show"]) == 0
    text = capsys.readouterr().out
    assert run(["config", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert run(["config", "check"]) == 0
    assert SECRET not in text + json.dumps(shown) + capsys.readouterr().out
    assert "slack://***" in text
    phone, log, _ = shown["notifiers"]
    assert (phone["url"], log["command"]) == ("slack://***", "logger -t andon two words")
    assert [one["device"] for one in shown["overrides"]] == [3, None]


def test_config_check_notes_a_file_that_others_may_read(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.chmod(0o644)
    assert run(["config", "check"]) == 0
    assert "chmod 600" in capsys.readouterr().err
    file.chmod(0o600)
    assert run(["config", "check"]) == 0
    assert capsys.readouterr().err == ""


def test_config_check_asks_the_notifiers_too(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(
        f'[[alerts.notifier]]\nname = "a"\nkind = "apprise"\nurl = "slakc://{SECRET}"\n'
        '[[alerts.notifier]]\nname = "b"\nkind = "apprise"\nurl = "pagerduty://short"\n'
    )
    assert run(["config", "check"]) == 2
    err = capsys.readouterr().err
    assert "notifier a: Apprise does not accept slakc://***" in err
    assert "notifier b" in err
    assert SECRET not in err


def test_config_check_tells_wrong_addresses_beside_the_other_mistakes(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(
        '[alerts]\nquiet_hours = "22-7"\n'
        f'[[alerts.notifier]]\nname = "a"\nkind = "apprise"\nurl = "slakc://{SECRET}"\n'
        'rules = ["termal"]\n'
        '[[alerts.notifier]]\nkind = "apprise"\nurl = "pagerduty://short"\n'
        "[[alerts.notifier]]\nname = 3\nkind = []\nurl = 4\n"
    )
    assert run(["config", "check"]) == 2
    err = capsys.readouterr().err
    for word in (
        "quiet_hours",
        "did you mean thermal?",
        "slakc://***",
        "pagerduty://***",
        "name is",
    ):
        assert word in err, word
    assert SECRET not in err


def test_config_check_tells_an_unknown_kind_beside_the_other_mistakes(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(
        '[alerts]\nquiet_hours = "22-7"\n[[alerts.notifier]]\nname = "a"\nkind = "pigeon"\n'
    )
    assert run(["config", "check"]) == 2
    err = capsys.readouterr().err
    assert "quiet_hours" in err
    assert "unknown notifier: pigeon" in err
    assert f"one of: {', '.join(sorted(NOTIFIERS))}; or install a package" in err


PAGE = (REPOSITORY / "docs" / "notifiers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
def test_the_examples_of_the_docs_are_accepted(example: str) -> None:
    settings = from_file(example).settings
    assert len(open_notifiers(settings, "node7")) == len(settings.alerts_notifiers) > 0


def test_the_docs_show_a_message_as_it_is() -> None:
    golden = (REPOSITORY / "tests" / "golden" / "messages.txt").read_text(encoding="utf-8")
    shown = golden.partition("=== firing\n")[2].partition("\n=== ")[0]
    assert textwrap.indent(shown, "    ") in PAGE


def test_the_docs_name_every_key_of_a_notifier() -> None:
    assert [c.name for c in NOTIFIER_COLUMNS if f"`{c.name}`" not in PAGE] == []


@pytest.mark.parametrize("kind", [NUMBER_OR_OFF, SECONDS_OR_OFF])
def test_a_zero_is_a_number_in_the_file_as_in_a_variable(kind: ValueKind) -> None:
    assert [kind.read(given) for given in (0, 0.0, "0")] == [0.0] * 3
    assert [kind.read(given) for given in (False, "off")] == [None] * 2
