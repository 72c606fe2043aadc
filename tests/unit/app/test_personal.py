"""Messages to the person: which notifiers, and what a terminal shows."""

import os

from msgspec.structs import replace

from andon.app.messages.personal import (
    personal_notice,
    personal_notifiers,
    run_notice,
    terminal_message,
    watching_notifiers,
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
    assert watching_notifiers(Settings(), "node7") == []
    ((notifier, route),) = watching_notifiers(Settings(notify_me_alerts=True), "node7")
    assert (notifier.name, route.owners) == ("desktop", (user_name(os.getuid()),))
    assert watching_notifiers(Settings(notify_me_alerts=True, replay="x"), "node7") == []


@rows("wanted, by, informed", [
    (False, (), {"mine": (), "bobs": ("bob",), "strict": ()}),
    (True, (), {"mine": ("ME",), "bobs": ("bob",), "strict": ("ME",), "desktop": ("ME",)}),
    (True, ("bobs",), {"mine": (), "bobs": ("bob", "ME"), "strict": (), "desktop": ("ME",)}),
])  # fmt: skip
def test_who_is_sent_a_reservation_ahead(
    wanted: bool, by: tuple[str, ...], informed: dict[str, tuple[str, ...]]
) -> None:
    plain = NotifierSettings("mine", "command", command=("true",))
    bobs = replace(plain, name="bobs", owners=("bob",))
    strict = replace(plain, name="strict", minimum_level=Level.CRITICAL)
    settings = Settings(
        alerts_notifiers=(plain, bobs, strict), notify_me_alerts=wanted, notify_me_by=by
    )
    found = {one.name: one.informs for _, one in watching_notifiers(settings, "node7")}
    me = user_name(os.getuid())
    assert found == {
        name: tuple(me if one == "ME" else one for one in people)
        for name, people in informed.items()
    }


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
