"""An alert on the board, from firing to acknowledged, silenced and over; by hand and by command."""

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from playwright.sync_api import Route, expect

from andon.host.users import user_name
from andon.model.alert import Alert, Level, Phase
from andon.model.event import Party
from andon.stores.sqlite_alerts import SqliteAlertStore
from tests.integration.board import sideways, tiles, violations
from tests.integration.browser import Window
from tests.integration.serving import Served, serving

pytestmark = pytest.mark.timeout(300)


TRAINING: Any = {"ANDON_SIMULATE_SCENARIO": "training"}
"""Somebody is on every device."""
LOST = "/api/alerts?rule=device_lost"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A node that loses a device a few seconds after its start, and lost another one before."""
    state = tmp_path_factory.mktemp("home")
    file = state / "past.db"
    ended_before(file)
    with serving(
        state, simulate=3, ANDON_SIMULATE_FAULTS="lost:1@8", ANDON_HISTORY=str(file), **TRAINING
    ) as served:
        yield served


def lost(served: Served) -> dict[str, Any]:
    """The alert as the server tells it."""
    found: dict[str, Any]
    [found] = served.ask(f"{LOST}&state=firing", **served.bearer).json()["alerts"]
    return found


def test_an_alert_goes_from_firing_to_acknowledged(owner: Window, home: Served) -> None:
    page = owner.page
    expect(tiles(page)).to_have_count(3)
    expect(page.locator("li.tile.red")).to_have_count(1, timeout=90_000)
    expect(page.get_by_role("heading", level=1)).to_contain_text("GPU 1 is lost")
    expect(page.get_by_role("link", name=re.compile(r"Alerts\s*1"))).to_be_visible()

    page.get_by_role("link", name=re.compile("^Alerts")).click()
    row = page.locator("li.alert", has_text="GPU 1 is lost")
    expect(row).to_be_visible()
    expect(row.get_by_text("andon alerts ack")).to_have_count(1)
    assert violations(page.get_by_role("main")) == []

    expect(row.get_by_label("your name")).to_have_count(0)  # the server knows who it is
    me = user_name(os.getuid())
    row.get_by_label("note").fill("on it")
    row.get_by_role("button", name="Acknowledge").click()
    expect(row.get_by_text(f"acknowledged by {me}: on it")).to_be_visible()
    assert lost(home)["acknowledged"]["by"] == me
    assert lost(home)["acknowledged"]["note"] == "on it"
    page.get_by_role("link", name="Board", exact=True).click()
    expect(page.locator("li.tile.handled.red")).to_contain_text(f"acknowledged by {me}")
    handled = f"2 of 3 GPUs are fine; GPU 1 is lost (acknowledged by {me})"
    expect(page.locator("header.headline.ring")).to_have_text(handled)
    expect(page.locator("nav .badge")).to_have_count(0)
    page.get_by_role("link", name=handled).click()
    row.get_by_role("button", name="Unacknowledge").click()
    expect(row.get_by_role("button", name="Acknowledge", exact=True)).to_be_visible()
    assert lost(home)["acknowledged"] is None

    row.get_by_role("button", name="silence 1 h").click()
    expect(row.get_by_text("silenced until")).to_be_visible()
    expect(page.get_by_text(re.compile(r"^Lost on GPU 1, until \d\d:\d\d"))).to_be_visible()
    expect(page.locator("nav .badge")).to_have_count(0)
    page.get_by_role("button", name="Remove silence").click()
    expect(row.get_by_text("silenced until")).to_be_hidden()
    assert owner.complaints == []


def test_a_changed_session_may_not_change_anything(owner: Window, home: Served) -> None:
    """A tab whose session ended says so instead of pretending."""
    page = owner.page
    page.goto(f"{home.url}/#/alerts")
    row = page.locator("li.alert", has_text="GPU 1 is lost")
    acknowledge = row.get_by_role("button", name="Acknowledge", exact=True)
    expect(acknowledge).to_be_visible(timeout=90_000)
    # In one step: the next request of the page would find out, and the button be gone.
    acknowledge.evaluate("one => { sessionStorage.setItem('andon.secret', 'wrong'); one.click(); }")
    expect(row.get_by_role("link", name="Sign in")).to_be_visible()
    expect(page.get_by_text("your session has ended")).to_be_visible()
    assert lost(home)["acknowledged"] is None


def test_what_a_command_does_is_seen_at_once(reader: Window, home: Served) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/alerts")
    row = page.locator("li.alert", has_text="GPU 1 is lost")
    expect(row).to_be_visible(timeout=90_000)
    expect(row.get_by_role("link", name="Sign in")).to_be_visible()
    expect(row.get_by_role("button", name="Acknowledge")).to_have_count(0)
    path = "/api/alerts/" + lost(home)["id"].replace("#", "%23").replace("@", "%40")
    body = '{"by": "erin", "note": "on it"}'
    json = {"Content_Type": "application/json"}
    answer = home.ask(f"{path}/acknowledge", "POST", body, **home.bearer, **json)
    assert answer.status == 200, answer.body
    expect(row.get_by_text("acknowledged by erin")).to_be_visible()


def test_a_line_opens_in_place(reader: Window, home: Served) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/alerts")
    row = page.locator("li.alert", has_text="GPU 1 is lost")
    line = row.get_by_role("button", name=re.compile("GPU 1 is lost"))
    expect(line).to_have_attribute("aria-expanded", "true", timeout=90_000)
    where = line.bounding_box()
    line.click()
    expect(row.get_by_text("what to do")).to_be_hidden()
    line.click()
    expect(row.get_by_text("what to do")).to_be_visible()
    assert line.bounding_box() == where
    assert lost(home)["id"] in unquote(page.url)


def test_a_lost_device_says_who_was_on_it_and_offers_no_lease(reader: Window, home: Served) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/")
    tile = page.locator("li.tile.red")
    expect(tile).to_contain_text(re.compile(r"last seen \d\d:\d\d with "), timeout=90_000)
    expect(tile.locator(".sparkline .line")).to_have_attribute("d", re.compile("^M"))
    expect(tile.locator(".advice")).to_have_text(str(lost(home)["advice"]))
    tile.click()
    main = page.get_by_role("main")
    expect(main.get_by_role("heading", name="Facts")).to_be_visible()
    expect(main.get_by_role("heading", name=re.compile("missing"))).to_have_count(0)
    expect(main).to_contain_text(re.compile(r"Not known: it is lost; last seen \d\d:\d\d with \w+"))
    expect(main.get_by_text("andon lease --devices")).to_have_count(0)
    page.goto(f"{home.url}/#/processes")
    expect(page.get_by_role("main")).to_contain_text("GPU 1: not known: it is lost")


def ended_before(file: Path) -> None:
    """What an earlier server wrote: GPU 7 was lost for ten minutes, and ada worked on it."""
    since = float(int(time.time()) - 3600)
    over = Alert(
        f"device_lost@GPU-7#{since:.0f}", "device_lost", "GPU-7", Level.CRITICAL, Phase.RESOLVED,
        since, "GPU 7 (NVIDIA H200)", 7, fired=since, resolved=since + 600,
        message="GPU 7 is lost: it has fallen off the bus", advice="Reset it, or reboot.",
        affected=(Party(4242, "ada", "python"),),
    )  # fmt: skip
    store = SqliteAlertStore(file)
    store.save({}, [over], ())
    store.close()


def test_an_alert_that_is_over_has_a_card(reader: Window, home: Served) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/alerts")
    over = page.locator("li.alert.resolved", has_text="GPU 7")
    expect(over).to_be_visible(timeout=30_000)
    over.get_by_role("button").click()
    expect(over).to_contain_text("ended")
    expect(over).to_contain_text("affected")
    [past] = home.ask(f"{LOST}&state=resolved").json()["alerts"]
    page.route("**/api/alerts?limit=*", without(past["id"]))
    page.goto(f"{home.url}/#/alerts/{quote(past['id'], safe='')}")
    page.reload()  # as from a notification, when the list no longer has it
    linked = page.locator(".linked li.alert.resolved")
    expect(linked).to_contain_text("what to do then")
    assert violations(linked) == []


def without(number: str) -> Callable[[Route], None]:
    """The list as it is when an alert is older than what it has."""

    def cut(route: Route) -> None:
        answer = route.fetch()
        said = answer.json()
        said["alerts"] = [one for one in said["alerts"] if one["id"] != number]
        route.fulfill(response=answer, json=said)

    return cut


def test_the_rules_and_their_remedies_are_there(reader: Window, home: Served) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/alerts")
    page.get_by_text("Alert rules and what to do about each").click()
    rules = page.get_by_role("region", name="rules")
    expect(rules).to_contain_text("thermal")
    expect(rules).to_contain_text("80 °C")
    assert violations(rules) == []
    expect(page.get_by_text("Nobody is notified: no notifier is configured.")).to_be_visible()

    page.set_viewport_size({"width": 390, "height": 844})
    heat = rules.locator("details.rule").filter(has_text="thermal · threshold 80 °C")
    expect(heat).to_have_count(1)
    assert sideways(page) <= 0
    lines = rules.locator("details.rule").count()
    assert rules.evaluate("one => one.clientHeight") < 60 * lines, "a line each"
    heat.locator("summary").click()
    expect(heat).to_contain_text("Check the cooling")
    assert violations(rules) == []
