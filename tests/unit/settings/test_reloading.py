"""Which settings a running server takes over when it reads them again, and what it says of them."""

from msgspec.structs import replace

from andon.settings.alerts import NotifierSettings
from andon.settings.reloading import LIVE, reloaded
from andon.settings.table import Settings
from tests.support.rows import rows

SLACK = NotifierSettings("slack", "webhook", "https://hooks.example.org/S3CRET")
MAIL = NotifierSettings("mail", "webhook", "https://mail.example.org/S3CRET")
OLD = Settings(alerts_notifiers=(SLACK, MAIL), alerts_figures=(("thermal_celsius", 85.0),))


@rows("read, changed, on_restart", [
    (OLD, (), ()),
    (replace(OLD, alerts_figures=()), ("alerts.thermal_celsius = its default",), ()),
    (replace(OLD, alerts_figures=(("thermal_celsius", 71.5), ("fan_percent", None))),
     ("alerts.fan_percent = off", "alerts.thermal_celsius = 71.5"), ()),
    (replace(OLD, alerts_notifiers=(SLACK,)), ("alerts.notifier mail",), ()),
    (replace(OLD, alerts_notifiers=(SLACK, replace(MAIL, rules=("thermal",)))),
     ("alerts.notifier mail",), ()),
    (replace(OLD, share_labels=("quiet:1",), interval_seconds=2.0, node="n"),
     ("share.labels",), ("node.name", "sampling.interval")),
    (replace(OLD, alerts_time_zone="UTC", clusters=()), (), ("alerts.time_zone",)),
])  # fmt: skip
def test_what_changed_is_named_without_secrets(
    read: Settings, changed: tuple[str, ...], on_restart: tuple[str, ...]
) -> None:
    found = reloaded(OLD, read)
    assert (found.changed, found.on_restart) == (changed, on_restart)
    assert "S3CRET" not in found.text
    for name in Settings.__struct_fields__:
        expected = read if name in LIVE else OLD
        assert getattr(found.settings, name) == getattr(expected, name)
    assert reloaded(found.settings, read).changed == ()


def test_a_notifier_that_is_as_it_was_goes_on() -> None:
    other = replace(SLACK, quiet_hours="22:00-06:00")
    assert reloaded(OLD, OLD).same_notifiers == {"slack", "mail"}
    assert reloaded(OLD, replace(OLD, alerts_notifiers=(other, MAIL))).same_notifiers == {"mail"}
