"""Charts that answer: what stands at the cursor, zooming and its undo, limits, all GPUs at once."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from andon.cli.commands.watch.history import history
from andon.history.rules.seeding import specimens
from andon.history.rules.series import NodeReadings, tick_of
from andon.model.device import Device, DeviceStatus, Sample, Snapshot, State
from andon.model.throttling import HW_SLOWDOWN
from andon.settings.store_url import parse_store_url
from tests.integration.board import opened, tiles, uuids, violations
from tests.integration.browser import Window
from tests.integration.serving import Served, serving
from tests.support.history_parts import kind_of

DEVICES = 3


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("home"), simulate=DEVICES) as served:
        yield served


def device(page: Page, served: Served, query: str = "?seconds=300") -> None:
    page.goto(f"{served.url}/#/")
    expect(tiles(page)).to_have_count(DEVICES)
    page.goto(f"{served.url}/#/device/{quote(uuids(page)[0])}{query}")
    expect(page.get_by_role("figure", name=re.compile(r"^Utilisation.*mean"))).to_be_visible()


def drag(page: Page, begin: float, end: float, place: int = 0) -> None:
    """Over a chart, from one share of its width to another."""
    box = page.locator(".surface").nth(place).bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + begin * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], middle, steps=4)
    page.mouse.up()


def test_one_readout_has_the_time_and_the_values_of_every_chart(
    reader: Window, home: Served
) -> None:
    device(reader.page, home)
    charts = reader.page.locator(".chart .plot + .over .surface")
    expect(charts).to_have_count(8)
    surface = reader.page.locator(".surface").nth(2)
    box = surface.bounding_box()
    assert box is not None
    surface.hover(position={"x": box["width"] - 2, "y": 20})
    readout = reader.page.locator(".readout")
    expect(readout.locator("b")).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"))
    labels = ["utilisation", "memory", "temperature", "power", "SM clock", "memory clock"]
    expect(readout.locator("dt").nth(5)).to_have_text(labels[5])  # with the next reading
    assert readout.locator("dt").all_inner_texts()[:6] == labels
    expect(readout).to_contain_text(re.compile(r"\d+\s°C"))
    lines = "all => all.map(one => Math.round(parseFloat(getComputedStyle(one, '::after').left)))"
    places = charts.evaluate_all(lines)
    assert len(places) == 8
    assert len(set(places)) == 1, "one line through all charts"
    reader.page.mouse.move(5, 5)
    expect(readout).to_have_count(0)


def test_the_keyboard_reads_and_zooms_a_chart(reader: Window, home: Served) -> None:
    device(reader.page, home)
    chart = reader.page.get_by_role("slider", name="Power of GPU 0: instant")
    chart.focus()
    reader.page.keyboard.press("End")
    expect(chart).to_have_attribute("aria-valuetext", re.compile(r"power (mean )?\d+\sW"))
    expect(reader.page.locator(".readout")).to_be_visible()
    last = int(chart.get_attribute("aria-valuenow") or 0)
    reader.page.keyboard.press("ArrowLeft")
    assert int(chart.get_attribute("aria-valuenow") or 0) < last
    nearer = re.compile(r"seconds=([6-9]\d|1[0-4]\d|150)&.*range=300")  # half of what is recorded
    reader.page.keyboard.press("Enter")
    expect(reader.page).to_have_url(nearer)
    reader.page.keyboard.press("0")
    expect(reader.page).to_have_url(re.compile(r"seconds=300$"))
    reader.page.keyboard.press("Escape")
    expect(reader.page.locator(".readout")).to_have_count(0)
    reader.page.keyboard.press("+")
    expect(reader.page).to_have_url(nearer)
    reader.page.keyboard.press("Escape")
    expect(reader.page).to_have_url(re.compile(r"seconds=300$"))


def test_back_undoes_each_zoom_and_a_double_click_all_of_them(reader: Window, home: Served) -> None:
    page = reader.page
    device(page, home, "?seconds=1800")
    first = page.url
    drag(page, 0.2, 0.8)
    expect(page).to_have_url(re.compile(r"until=\d+"))
    second = page.url
    drag(page, 0.3, 0.6)
    expect(page).not_to_have_url(second)
    page.go_back()
    expect(page).to_have_url(second)
    page.go_back()
    expect(page).to_have_url(first)
    page.go_forward()
    expect(page).to_have_url(second)
    drag(page, 0.3, 0.6)
    page.locator(".surface").first.dblclick()
    expect(page).to_have_url(re.compile(r"seconds=1800$"))
    page.go_back()
    expect(page).to_have_url(re.compile(r"until=\d+"))
    assert reader.complaints == []


def test_a_drag_selects_what_it_covers(reader: Window, home: Served) -> None:
    device(reader.page, home)
    address = reader.page.url.partition("?")[0]
    reader.page.goto(f"{address}?seconds=1800&until=1794770000")
    expect(reader.page.get_by_text("nothing was read in this range").first).to_be_visible()
    drag(reader.page, 0.25, 0.75)
    expect(reader.page).to_have_url(re.compile("range=1800"))
    seconds = int(re.findall(r"seconds=(\d+)", reader.page.url)[0])
    until = int(re.findall(r"until=(\d+)", reader.page.url)[0])
    assert abs(seconds - 900) <= 15
    assert abs(until - (1794770000 - 450)) <= 15


@pytest.mark.long
def test_two_fingers_zoom_and_one_reads(browser: Browser, home: Served) -> None:
    size = {"width": 390, "height": 844}
    with opened(browser, viewport=size, has_touch=True, is_mobile=True) as seen:
        device(seen.page, home, "?seconds=1800")
        surface = seen.page.locator(".surface").first
        surface.scroll_into_view_if_needed()
        box = surface.bounding_box()
        assert box is not None
        touch = seen.page.context.new_cdp_session(seen.page)

        def fingers(kind: str, *shares: float) -> None:
            points = [
                {"x": box["x"] + share * box["width"], "y": box["y"] + 50, "id": number}
                for number, share in enumerate(shares)
            ]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        fingers("touchStart", 0.5)
        expect(seen.page.locator(".readout")).to_be_visible()
        fingers("touchEnd")
        fingers("touchStart", 0.4, 0.6)
        fingers("touchMove", 0.2, 0.8)
        fingers("touchEnd")
        expect(seen.page).to_have_url(re.compile("until="))
        seconds = int(re.findall(r"seconds=(\d+)", seen.page.url)[0])
        assert 60 <= seconds <= 700, "a third of what is recorded of half an hour"


def test_the_command_beneath_gives_the_range_that_is_drawn(reader: Window, home: Served) -> None:
    page = reader.page
    device(page, home, "?seconds=7200")
    for zoomed in (False, True):
        if zoomed:
            drag(page, 0.2, 0.7)
            expect(page).to_have_url(re.compile("until="))
        text = page.locator(".ranges .command code").inner_text()
        words = text.split()
        assert words[:3] == ["andon", "history", "0"]
        given = history.make_context("history", words[2:]).params
        seconds = int(re.findall(r"seconds=(\d+)", page.url)[0])
        assert abs(given["until"] - given["since"] - seconds) < 1
        if zoomed:
            assert given["until"] == int(re.findall(r"until=(\d+)", page.url)[0])


def test_a_title_tells_the_reading_of_now_from_the_mean_of_the_range(
    reader: Window, home: Served
) -> None:
    device(reader.page, home)
    caption = reader.page.locator("figure.chart figcaption").nth(1)
    expect(caption).to_have_text(re.compile(r"Memory[\d.]+\sGiB now · mean [\d.]+\sGiB"))
    shown = re.findall(r"([\d.]+)\sGiB now", caption.inner_text())[0]
    strip = reader.page.locator(".strip.large div", has_text="memory").locator("dd").inner_text()
    assert round(float(shown)) == round(float(strip.split(" / ")[0]))
    swatches = reader.page.locator("figure.chart").nth(4).locator(".legend i")
    colours = swatches.evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)")
    assert len(set(colours)) == 2, "SM and memory clock"
    reader.page.get_by_role("button", name="earlier").click()
    expect(caption).not_to_contain_text("now")


def test_all_gpus_stand_on_one_page_by_a_reading(reader: Window, home: Served) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/")
    page.get_by_role("link", name="all GPUs over time").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("All GPUs: utilisation")
    expect(page.locator("figure.small")).to_have_count(DEVICES)
    page.get_by_label("reading").select_option("power_watts")
    expect(page.get_by_role("heading", level=1)).to_have_text("All GPUs: power")
    expect(page.locator("figure.small .value").first).to_have_text(re.compile(r"\d+\sW now"))
    expect(page.locator("figure.small .limit")).to_have_count(DEVICES)
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("All GPUs: power")
    drag(page, 0.2, 0.7)
    expect(page).to_have_url(re.compile("until="))
    command = re.compile("copy: andon history --metric power_watts --since .* --until")
    expect(page.get_by_role("button", name=command)).to_be_visible()
    page.locator("figure.small a").first.click()
    expect(page).to_have_url(re.compile(r"device/.*until="))
    assert reader.complaints == []


@pytest.mark.long
def test_64_gpus_are_readable_together(browser: Browser, tmp_path: Path) -> None:
    size = {"width": 1920, "height": 1080}
    with (
        serving(tmp_path, simulate=64) as served,
        opened(browser, viewport=size) as seen,
    ):
        seen.page.goto(f"{served.url}/#/charts")
        expect(seen.page.locator("figure.small")).to_have_count(64)
        boxes = seen.page.locator("figure.small .drawn").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect()).map(b => [b.width, b.height, b.bottom])"
        )
        assert all(
            width > 140 and height >= 42 and bottom < 1080 for width, height, bottom in boxes
        )
        expect(seen.page.locator("figure.small path.line[d^=M]")).to_have_count(64)
        assert violations(seen.page) == []
        assert seen.complaints == []


@pytest.mark.long
def test_a_share_of_time_is_the_same_share_at_every_range(seen: Window, tmp_path: Path) -> None:
    """12 of every 21 readings were slowed down: 57 % of the time, however long that is."""
    uuid, end = specimens(1)[0].uuid, int(time.time()) // 630 * 630 - 6300
    store = kind_of("sqlite").open(parse_store_url(f"sqlite:{tmp_path}/history.db"), "")
    times = range(end - 7 * 86_400, end, 30)
    store.write([_slowed(uuid, float(at), at // 30 % 21 < 12) for at in times])
    store.close()
    with serving(tmp_path, simulate=1, ANDON_HISTORY=f"{tmp_path}/history.db") as served:
        for seconds in (1_890, 86_400, 604_800):
            seen.page.goto("about:blank")
            seen.page.goto(f"{served.url}/#/device/{uuid}?seconds={seconds}&until={end}")
            throttling = seen.page.get_by_role("figure", name=re.compile("^Throttling"))
            expect(throttling).to_contain_text("hardware slowdown 57 % of the time")
            heights = throttling.locator("rect").evaluate_all(
                "all => all.map(one => one.getAttribute('height') / 16)"
            )
            assert max(heights) <= 1
            if seconds == 604_800:
                assert 0.4 < sum(heights) / len(heights) < 0.7, "drawn as its share, not solid"


HOUR = 3600


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, int]]:
    """Two GPUs at 80 % for an hour, with ten minutes missing, and at 50 % a day before."""
    folder = tmp_path_factory.mktemp("recorded")
    end = int(time.time()) // HOUR * HOUR - HOUR
    store = kind_of("sqlite").open(parse_store_url(f"sqlite:{folder}/history.db"), "")
    uuids = [one.uuid for one in specimens(2)]
    today = [at for at in range(end - HOUR, end, 10) if not 1200 <= at - (end - HOUR) < 1800]
    for value, times in ((80, today), (50, [at - 86_400 for at in range(end - HOUR, end, 10)])):
        store.write([_used(uuids, float(at), value) for at in times])
    store.close()
    with serving(folder, simulate=2, ANDON_HISTORY=f"{folder}/history.db") as served:
        yield served, end


def test_a_board_of_few_shows_their_charts_processes_and_why(
    reader: Window, recorded: tuple[Served, int]
) -> None:
    assert_few(reader, recorded[0], devices=2)


@pytest.mark.long
def test_so_does_that_of_one(seen: Window, tmp_path: Path) -> None:
    with serving(tmp_path, simulate=1) as served:
        assert_few(seen, served, devices=1)


def assert_few(seen: Window, served: Served, devices: int) -> None:
    page = seen.page
    page.goto(served.url)
    expect(tiles(page)).to_have_count(devices)
    expect(page.locator("canvas")).to_have_count(4 * devices)
    for title in ("Why", "Processes now"):
        expect(page.get_by_role("heading", name=title, exact=True)).to_have_count(devices)
    drag(page, 0.2, 0.8)
    expect(page).to_have_url(re.compile(r"#/\?seconds=\d+&until="))
    page.go_back()
    expect(page).not_to_have_url(re.compile("until="))
    assert violations(page) == []
    assert seen.complaints == []


def test_a_chart_says_why_it_has_a_gap_and_what_was_yesterday(
    reader: Window, recorded: tuple[Served, int]
) -> None:
    served, end = recorded
    page = reader.page
    page.goto(f"{served.url}/#/charts?seconds={HOUR}&until={end}")
    gaps = page.locator("figure.small .gap")
    expect(gaps).to_have_count(2)
    expect(gaps.first).to_have_attribute("title", re.compile("no server was running"))
    expect(page.locator("figure.small .times")).to_have_count(2)
    page.get_by_label("compare with").select_option("day")
    expect(page).to_have_url(re.compile("compare=day"))
    expect(page.locator("figure.small .ghost[d^=M]")).to_have_count(2)
    page.locator(".surface").first.hover(position={"x": 20, "y": 20})
    expect(page.locator("figure.small .value").nth(1)).to_have_text("80 % · yesterday 50 %")
    page.locator("summary", has_text="all GPUs").click()
    page.get_by_label("1", exact=True).check()
    expect(page.locator("figure.small")).to_have_count(1)
    expect(page).to_have_url(re.compile("devices=1"))
    assert violations(page) == []
    page.reload()
    expect(page.locator("figure.small .ghost[d^=M]")).to_have_count(1)
    page.go_back()
    expect(page.locator("figure.small")).to_have_count(2)
    assert reader.complaints == []


def test_what_is_shown_is_saved_as_values_and_as_a_picture(
    reader: Window, recorded: tuple[Served, int]
) -> None:
    served, end = recorded
    page = reader.page
    for place, title in (
        ("charts", "All GPUs"), (f"device/{quote(specimens(2)[0].uuid)}", "GPU 0"),
    ):  # fmt: skip
        page.goto(f"{served.url}/#/{place}?seconds={HOUR}&until={end}")
        expect(page.get_by_role("heading", level=1)).to_contain_text(title)
        figure = page.locator("figure.small, figure.chart").first
        expect(figure).to_have_attribute("aria-label", re.compile(r"80\s%"))
        with page.expect_download() as csv:
            page.get_by_role("button", name="CSV").click()
        assert csv.value.suggested_filename.startswith("andon_SIMULATED_")
        rows = csv.value.path().read_text().splitlines()
        assert rows[0].startswith("time,gpu,utilisation % mean,")
        assert any(row.split(",")[1:3] == ["GPU 0", "80"] for row in rows)
        with page.expect_download() as picture:
            page.get_by_role("button", name="PNG").click()
        content = picture.value.path().read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) > 10_000, "an empty one is smaller"
    assert reader.complaints == []


def test_an_alert_is_marked_on_the_axis_and_leads_to_its_page(
    reader: Window, recorded: tuple[Served, int]
) -> None:
    served, end = recorded
    page, uuid = reader.page, specimens(2)[0].uuid

    def with_alert(route: Route) -> None:
        alert = {"id": "a1", "rule": "thermal", "subject": uuid, "level": "critical"}
        times = {"since": end - 1860, "fired": end - 1800, "resolved": end - 600}
        found = {"alerts": [{**alert, **times, "message": "GPU 0 is too hot"}]}
        route.fulfill(json=found)

    page.route("**/api/alerts?since=*", with_alert)
    page.goto(f"{served.url}/#/device/{quote(uuid)}?seconds={HOUR}&until={end}")
    page.reload()  # what was asked before is not asked again
    marks = page.get_by_role("list", name="what happened").get_by_role("link")
    expect(marks).to_have_count(2)
    expect(marks.first).to_have_attribute("aria-label", re.compile("alert: GPU 0 is too hot"))
    marks.first.focus()
    said = marks.first.evaluate("one => getComputedStyle(one, '::after').content")
    assert "GPU 0 is too hot" in said
    assert violations(page) == []
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/alerts/a1"))


def _used(uuids: list[str], at: float, value: int) -> NodeReadings:
    sample = Sample(at, utilization_percent=value, throttle=())
    devices = tuple(
        DeviceStatus(Device(uuid, place, "sim", "X"), State.OK, at, sample=sample)
        for place, uuid in enumerate(uuids)
    )
    return tick_of(Snapshot("n", at, devices=devices))


def _slowed(uuid: str, at: float, slowed: bool) -> NodeReadings:
    reasons = (HW_SLOWDOWN.name,) if slowed else ()
    sample = Sample(at, utilization_percent=50, throttle=reasons)
    status = DeviceStatus(Device(uuid, 0, "sim", "X"), State.OK, at, sample=sample)
    return tick_of(Snapshot("n", at, devices=(status,)))


def test_a_chosen_range_says_what_else_changed_and_keeps_notes(owner: Window, home: Served) -> None:
    page, text = owner.page, "new fan <b>&"
    device(page, home)
    past = page.get_by_role("region", name="what else changed")
    expect(past).not_to_contain_text("against the")
    past.get_by_role("textbox", name="note on this time").fill(text)
    past.get_by_role("button", name="Add note").click()
    expect(past.get_by_role("listitem").filter(has_text=text)).to_be_visible()
    place = page.url.partition("?")[0]
    page.goto(f"{place}?seconds=60&until={int(time.time()) + 30}")
    expect(past).to_contain_text("against the")
    expect(past.locator("ol")).to_contain_text(f": {text}")
    expect(page.locator(".marks .of-note a").first).to_have_attribute(
        "aria-label", re.compile("new fan")
    )
    past.get_by_role("button", name=f"remove the note {text}").click()
    expect(past.get_by_role("listitem").filter(has_text=text)).to_have_count(0)
