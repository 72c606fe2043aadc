"""Every page of the board: what a person finds there, by eye, by keyboard and by screen reader."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, Route, ViewportSize, expect

from tests.integration.board import (
    GROUND,
    USUAL_SIZE,
    chart_heights,
    downwards,
    drawn,
    opened,
    show_only,
    sideways,
    sign_in,
    tiles,
    uuids,
    violations,
    violations_in_both_themes,
)
from tests.integration.browser import Window
from tests.integration.serving import Served, serving

DEVICES = 8
PHONE = ViewportSize(width=390, height=844)
PAGES = (
    "", "charts", "processes", "alerts", "leases", "jobs", "runs", "estimate", "health", "fleet",
    "nowhere", "user/alice", "process/1",
)  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    faults = "lost:2@0,hung:5@0"
    state = tmp_path_factory.mktemp("home")
    with serving(state, simulate=DEVICES, ANDON_SIMULATE_FAULTS=faults) as served:
        yield served


def board(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/#/")
    expect(tiles(page)).to_have_count(DEVICES)


def go_to(page: Page, served: Served, name: str) -> None:
    """A page of the board, once it is drawn."""
    page.goto(f"{served.url}/#/{name}")
    drawn(page)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("main")).not_to_be_empty()


def test_every_device_has_a_lamp_with_a_shape_and_a_word(reader: Window, home: Served) -> None:
    board(reader.page, home)
    expect(reader.page.locator("li.tile.red")).to_have_count(1)
    expect(reader.page.locator("li.tile.grey")).to_have_count(1)
    shapes = {
        colour: reader.page.locator(f"li.tile.{colour} svg.lamp > *").first.evaluate(
            "one => one.tagName + (one.getAttribute('d') || one.getAttribute('class') || '')"
        )
        for colour in ("green", "red", "grey")
    }
    assert len(set(shapes.values())) == 3
    # Who holds what comes with an answer of its own, which may be a moment later.
    expect(reader.page.locator("li.tile .word", has_text="free").first).to_be_visible()
    words = reader.page.locator("li.tile .word").all_inner_texts()
    assert len(words) == DEVICES
    heights = chart_heights(reader.page)
    assert len(heights) >= DEVICES - 2
    assert min(heights) >= 50, heights
    assert "lost" in words
    assert any(word.startswith("in use by ") for word in words)
    expect(reader.page.get_by_role("link", name=re.compile("^GPU 2, lost"))).to_be_visible()


def test_the_headline_answers_in_words(reader: Window, home: Served) -> None:
    board(reader.page, home)
    headline = reader.page.get_by_role("heading", level=1)
    expect(headline).to_have_text(re.compile(r"GPU 2 .*lost"))
    expect(reader.page).to_have_title(re.compile(r"SIMULATED · GPU 2 .* · andon"))


def test_every_page_in_both_themes_and_on_a_phone(reader: Window, home: Served) -> None:
    """Axe finds nothing, nothing sticks out, all of them say that it is simulated, and none asks
    anybody but this server."""
    page = reader.page
    board(page, home)
    wrong = {}
    for name in (*PAGES, f"device/{quote(uuids(page)[0])}"):
        go_to(page, home, name)
        expect(page.get_by_text("SIMULATED", exact=True)).to_be_visible()
        found = violations_in_both_themes(page)
        page.set_viewport_size(PHONE)
        if (pixels := sideways(page)) > 0:
            found.append(f"{pixels} pixels too wide on a phone")
        page.set_viewport_size(USUAL_SIZE)
        if found:
            wrong[name] = found
    assert wrong == {}
    page.set_viewport_size(PHONE)
    page.get_by_role("button", name="help").click()
    assert violations(page.get_by_role("dialog")) == []
    page.keyboard.press("Escape")
    asked = [url.replace("ws:", "http:") for url in reader.requests]
    assert len(asked) > 8
    assert [url for url in asked if not url.startswith(f"{home.url}/")] == []
    assert reader.complaints == []


WATCHED = """() => {
  window.entered = window.carded = null;
  document.addEventListener('pointermove', () => window.entered ??= performance.now(), true);
  new MutationObserver(() => {
    if (document.querySelector('.card')) window.carded ??= performance.now();
  }).observe(document.body, {childList: true, subtree: true});
}"""
COVERED = """card => {
  const one = card.getBoundingClientRect();
  return [...document.querySelectorAll('.tile.red, .tile.amber')].filter(tile => {
    const lit = tile.getBoundingClientRect();
    return one.left < lit.right && lit.left < one.right
      && one.top < lit.bottom && lit.top < one.bottom;
  }).length;
}"""


def test_a_card_tells_more_after_a_moment_and_never_over_a_lit_tile(
    reader: Window, home: Served
) -> None:
    page = reader.page
    board(page, home)
    expect(page.locator("li.tile.red").first).to_be_visible()
    card = page.get_by_role("tooltip")
    page.evaluate(WATCHED)
    for place in (0, 1, 6, 7):
        tiles(page).nth(place).locator("a").hover()
        expect(card).to_contain_text("temperature")
        assert card.evaluate(COVERED) == 0, place
        page.mouse.move(5, 5)
        expect(card).to_have_count(0)
    assert page.evaluate("window.carded - window.entered") >= 290
    page.keyboard.press("ArrowRight")
    expect(card).to_contain_text("GPU 0")


def test_a_mouse_that_rests_where_a_tile_appears_opens_no_card(
    reader: Window, home: Served
) -> None:
    page = reader.page
    board(page, home)
    box = tiles(page).nth(0).bounding_box()
    assert box is not None
    page.keyboard.press("h")
    expect(page.get_by_role("heading", name="Sampling")).to_be_visible()
    page.mouse.move(box["x"] + 40, box["y"] + 40)
    page.keyboard.press("b")
    expect(tiles(page)).to_have_count(DEVICES)
    page.wait_for_timeout(600)
    expect(page.get_by_role("tooltip")).to_have_count(0)


@pytest.mark.long
def test_the_lines_of_all_tiles_have_the_same_scale(seen: Window, tmp_path: Path) -> None:
    """One with a reason has as much room for its line as one without."""
    with serving(tmp_path, "--no-history", simulate=4) as served:
        seen.page.goto(served.url)
        expect(tiles(seen.page)).to_have_count(4)
        seen.page.route("**/api/board", lit_by_hand)
        expect(seen.page.locator("li.tile.red .reason").first).to_contain_text("slows down")
        found = seen.page.locator("li.tile .sparkline").evaluate_all(
            """all => all.map(one => {
              const box = one.getBoundingClientRect();
              const tile = one.closest('.tile').getBoundingClientRect();
              return [Math.round(box.top - tile.top), Math.round(box.height)];
            })"""
        )
        assert len(found) == 4
        assert len({tuple(one) for one in found}) == 1


def lit_by_hand(route: Route) -> None:
    """The server's board, with one lamp lit."""
    said = route.fetch().json()
    said["lamp"] = "red"
    said["devices"][1] |= {
        "lamp": "red", "status": "too hot",
        "reason": "GPU 1 is too hot: 99 °C (slows down at 97 °C)",
    }  # fmt: skip
    route.fulfill(json=said)


# The browser says that a dialog was closed only after a while.
OPENED_AGAIN = """async () => {
  const help = document.querySelector("dialog.help");
  help.dispatchEvent(new Event("cancel"));
  for (let turn = 0; turn < 1000 && help.open; turn += 1) await null;
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "?", bubbles: true }));
  const said = new Promise((done) => help.addEventListener("close", done, { once: true }));
  await said;
  await new Promise((done) => setTimeout(done));
  return help.open;
}"""


def test_the_board_is_walked_by_keys(reader: Window, home: Served) -> None:
    board(reader.page, home)
    focused = "document.activeElement.dataset.uuid"
    every = uuids(reader.page)
    for key, place in (("ArrowRight", 0), ("ArrowRight", 1), ("ArrowLeft", 0), ("ArrowDown", 4),
                       ("ArrowUp", 0)):  # fmt: skip
        reader.page.keyboard.press(key)
        assert reader.page.evaluate(focused) == every[place], key
    reader.page.keyboard.press("Enter")
    expect(reader.page.get_by_role("heading", level=1)).to_contain_text("GPU 0")
    reader.page.keyboard.press("b")
    expect(tiles(reader.page)).to_have_count(DEVICES)
    reader.page.keyboard.press("?")
    expect(reader.page.get_by_role("dialog")).to_be_visible()
    reader.page.keyboard.press("Escape")
    expect(reader.page.get_by_role("dialog")).to_be_hidden()
    reader.page.keyboard.press("?")
    expect(reader.page.get_by_role("dialog")).to_be_visible()
    assert reader.page.evaluate(OPENED_AGAIN), "it is closed when it was opened again"
    reader.page.get_by_role("button", name="Close").click()
    expect(reader.page.get_by_role("dialog")).to_be_hidden()


def test_searching_keeps_the_stations_in_their_places(reader: Window, home: Served) -> None:
    board(reader.page, home)
    show_only(reader.page, "lost")
    expect(reader.page.locator("li.tile.faded")).to_have_count(DEVICES - 1)
    expect(tiles(reader.page)).to_have_count(DEVICES)
    reader.page.get_by_role("button", name="show more than “lost”").click()
    expect(reader.page.locator("li.tile.faded")).to_have_count(0)


def test_a_device_has_charts_reasons_processes_and_facts(reader: Window, home: Served) -> None:
    board(reader.page, home)
    reader.page.goto(f"{home.url}/#/device/{quote(uuids(reader.page)[0])}")
    for title in ("Utilisation", "Memory", "Temperature", "Power", "Clocks", "Active share", "PCIe",
                  "NVLink", "Throttling", "Processes"):  # fmt: skip
        expect(reader.page.get_by_role("figure", name=re.compile(f"^{title}"))).to_be_visible()
    expect(reader.page.locator("canvas")).to_have_count(8)
    for title in ("Why", "Alerts", "Processes now", "Facts"):
        expect(reader.page.get_by_role("heading", name=title, exact=True)).to_be_visible()
    command = reader.page.get_by_role("button", name="copy: andon why 0")
    expect(reader.page.get_by_text("andon why 0")).to_be_hidden()
    command.hover()
    expect(reader.page.get_by_text("andon why 0")).to_be_visible()
    expect(reader.page.get_by_role("figure", name=re.compile(r"^Utilisation.*mean \d+\s%"))
           ).to_be_visible()  # fmt: skip
    missing = reader.page.get_by_role("heading", name=re.compile(r"^\d+ values? missing$"))
    expect(missing).to_be_visible()
    energy = reader.page.locator("dl.facts > div").filter(has_text="energy since the driver was")
    expect(energy).to_have_text(re.compile(r"^energy since the driver was loaded\d+\.\d\d\skWh$"))
    for fact in ("PCI", "slot's PCIe link", "persistence mode", "ECC"):
        row = reader.page.locator("dl.facts > div").filter(has_text=re.compile(f"^{fact}–"))
        expect(row).to_have_text(f"{fact}– not simulated")


def test_charts_move_and_change_their_range(reader: Window, home: Served) -> None:
    board(reader.page, home)
    reader.page.goto(f"{home.url}/#/device/{quote(uuids(reader.page)[0])}")
    reader.page.get_by_role("button", name="earlier").click()
    expect(reader.page).to_have_url(re.compile(r"until=\d+"))
    reader.page.get_by_role("button", name="now").click()
    expect(reader.page).not_to_have_url(re.compile(r"until="))
    reader.page.get_by_role("button", name="1 y").click()
    expect(reader.page).to_have_url(re.compile(r"seconds=31536000"))
    expect(reader.page.locator("canvas")).to_have_count(8)
    assert reader.complaints == []


def test_processes_sort_and_hide_command_lines_without_the_token(
    reader: Window, home: Served
) -> None:
    reader.page.goto(f"{home.url}/#/processes")
    rows = reader.page.locator("tbody tr")
    expect(rows.first).to_be_visible()
    assert "--config" not in reader.page.content()
    assert "train.py" not in reader.page.content()
    assert "command" not in column_names(reader.page)
    reader.page.get_by_role("button", name="pid").click()
    expect(reader.page.get_by_role("columnheader", name="pid")).to_have_attribute(
        "aria-sort", "descending"
    )
    pids = [int(text) for text in column(reader.page, "pid")]
    assert pids == sorted(pids, reverse=True)


def column_names(page: Page) -> list[str]:
    found: list[str] = page.locator("thead th").all_inner_texts()
    return [name.strip(" ↑↓\u00a0") for name in found]


def column(page: Page, name: str) -> list[str]:
    place = column_names(page).index(name) + 1
    found: list[str] = page.locator(f"tbody tr.opens td:nth-child({place})").all_inner_texts()
    return found


def test_processes_are_called_as_people_call_them_and_open_to_the_whole_command(
    owner: Window, home: Served
) -> None:
    page = owner.page
    page.goto(f"{home.url}/#/processes")
    expect(page.get_by_text("python train.py").first).to_be_visible()
    assert {"train.py", "vllm serve"} <= set(column(page, "program"))
    assert not {"lease", "container or job"} & set(column_names(page)), "columns of dashes"
    page.get_by_role("button", name="program").click()
    expect(page).to_have_url(re.compile(r"sort=program$"))
    programs = column(page, "program")
    assert programs == sorted(programs, key=str.lower), "from A to Z first"
    page.reload()
    expect(page.locator("tr.opens").first).to_be_visible()
    assert column(page, "program") == programs
    table = page.locator("table").bounding_box()
    assert table is not None
    assert table["width"] > 1200
    page.get_by_role("button", name="details").first.click()
    expect(page.locator("tr.whole code")).to_have_text(page.locator("td.rest").first.inner_text())


def test_processes_are_grouped_with_sums(owner: Window, home: Served) -> None:
    page = owner.page
    page.goto(f"{home.url}/#/processes")
    for by, heading in (("GPU", r"GPU \d+ \d+ process.*\sGiB"),
                        ("user", r"\w+ \d+ process.*GPU.*\sGiB")):  # fmt: skip
        page.get_by_role("group", name="group by").get_by_text(by, exact=True).click()
        expect(page).to_have_url(re.compile(f"group={by.lower()}"))
        expect(page.locator("tr.group").first).to_have_text(re.compile(heading))
        groups, rows = page.locator("tr.group").count(), page.locator("tr.opens").count()
        assert 1 < groups <= rows
    assert violations(page.get_by_role("main")) == []


def test_one_node_is_not_listed_and_health_is_told_in_words(reader: Window, home: Served) -> None:
    board(reader.page, home)
    expect(reader.page.locator("footer").get_by_role("link", name="Health")).to_be_visible()
    expect(reader.page.locator("header nav a", has_text="Nodes")).to_have_count(0)
    reader.page.goto(f"{home.url}/#/health")
    expect(reader.page.get_by_text(re.compile(r"missed")).first).to_be_visible()
    told = reader.page.get_by_role("main").inner_text()
    assert "% of one core" in told
    assert not re.search(r"\b(own cpu|readable|buffered|snapshots)\b", told)


def test_the_help_names_every_key_and_mark(reader: Window, home: Served) -> None:
    board(reader.page, home)
    reader.page.keyboard.press("?")
    told = reader.page.get_by_role("dialog").inner_text()
    for word in ("74 %", "line", "bar", "flag", "lightly used", "dashed line", "[", "]", "+", "0"):
        assert word in told, word
    reader.page.keyboard.press("Escape")
    expect(reader.page.get_by_role("dialog")).to_be_hidden()
    for key, place in (("c", "charts"), ("p", "processes"), ("a", "alerts"), ("r", "runs"),
                       ("l", "leases"), ("h", "health"), ("b", "")):  # fmt: skip
        reader.page.keyboard.press(key)
        expect(reader.page).to_have_url(re.compile(f"#/{place}$"))


def test_the_theme_is_the_systems_until_one_is_chosen(browser: Browser, home: Served) -> None:
    with opened(browser, color_scheme="dark") as seen:
        board(seen.page, home)
        dark = seen.page.evaluate(GROUND)
        seen.page.get_by_role("button", name="light theme").click()
        light = seen.page.evaluate(GROUND)
        assert light != dark
        seen.page.reload()
        expect(tiles(seen.page)).to_have_count(DEVICES)
        assert seen.page.evaluate(GROUND) == light


def test_without_the_token_it_is_read_only_and_says_what_to_run(
    reader: Window, home: Served
) -> None:
    page = reader.page
    board(page, home)
    expect(page.get_by_text("read-only: run")).to_be_visible()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="copy: andon open").click()
    expect(page.get_by_text("copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == f"andon open --url {home.url}"  # its port is not the usual one
    for place in ("", "processes", "leases", "alerts", "runs", "jobs"):
        page.goto(f"{home.url}/#/{place}")
        expect(page.get_by_role("button", name="copy: andon open")).to_have_count(1)
    page.set_viewport_size(PHONE)
    expect(page.get_by_role("button", name="copy: andon open")).to_be_hidden()
    page.get_by_role("link", name="sign in from a phone or elsewhere").click()
    expect(page.get_by_role("button", name="--qr")).to_be_visible()
    assert violations(page) == []
    sign_in(page, home)
    expect(page.get_by_text("read-only: run")).to_be_hidden()
    assert "code" not in page.url
    page.set_viewport_size(USUAL_SIZE)
    page.get_by_role("button", name="sign out").click()
    expect(page.get_by_text("read-only: run")).to_be_visible()


@pytest.mark.long
def test_64_devices_fit_on_one_screen(seen: Window, tmp_path: Path) -> None:
    with serving(tmp_path, "--no-history", simulate=64) as served:
        seen.page.set_viewport_size({"width": 1440, "height": 900})
        seen.page.goto(served.url)
        expect(tiles(seen.page)).to_have_count(64)
        for size in (ViewportSize(width=1440, height=900), ViewportSize(width=1280, height=720)):
            seen.page.set_viewport_size(size)
            drawn(seen.page)
            assert downwards(seen.page) <= 0, size
            assert sideways(seen.page) <= 0, size
            outside = tiles(seen.page).evaluate_all(
                "all => all.filter(one => one.getBoundingClientRect().bottom > innerHeight).length"
            )
            assert outside == 0, size
