"""Messages to the person: which notifiers, and what a terminal shows."""

import os

from andon.app.messages.personal import (
    personal_notice,
    personal_notifiers,
    personal_routes,
    run_notice,
    terminal_message,
)
from andon.host.users import user_name
from andon.model.alert import Level
from andon.settings.alerts import NotifierSettings
from andon.settings.resolution import Settings
from tests.support.rows import rows

TWO = tuple(NotifierSettings(name, "command", command=("true",)) for name in ("mine", "other"))


@rows("configured, by, names", [
    ((), (), ["desktop"]),
    (TWO, (), ["mine", "other"]),
    (TWO, ("mine",), ["mine"]),
    (TWO, ("mine", "desktop"), ["mine", "desktop"]),
    (TWO, ("desktop",), ["desktop"]),
])  # fmt: skip
def test_who_gets_a_message_to_the_person(
    configured: tuple[NotifierSettings, ...], by: tuple[str, ...], names: list[str]
) -> None:
    settings = Settings(alerts_notifiers=configured, notify_me_by=by)
    assert [one.name for one in personal_notifiers(settings)] == names


def test_alerts_of_ones_own_go_to_the_desktop_only_if_wanted() -> None:
    assert personal_routes(Settings()) == []
    ((notifier, route),) = personal_routes(Settings(notify_me_alerts=True))
    assert (notifier.name, route.owners) == ("desktop", (user_name(os.getuid()),))


@rows("code, level, text", [
    (0, Level.INFO, "Run train succeeded after 2 min"),
    (3, Level.WARNING, "Run train failed with exit code 3 after 2 min"),
])  # fmt: skip
def test_the_end_of_a_run(code: int, level: Level, text: str) -> None:
    alert = run_notice("train", code, 120.0, simulated=False).alert
    assert (alert.level, alert.message) == (level, text)


def test_a_terminal_gets_nothing_but_the_text() -> None:
    assert (
        terminal_message("GPU 1; free\x1b[2J\x07", "xterm")
        == "\x1b]9;GPU 1, free\\x1b[2J\\x07\x07\x07"
    )
    assert terminal_message("x", "rxvt-unicode").startswith("\x1b]777;notify;andon;x\x07")
    assert personal_notice("GPUs", "x", good=True).alert.level is Level.INFO
