"""The board's pages of runs: what a person finds there, from an empty list to a live run."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from andon.model.run.record import RunState
from tests.integration.board import (
    drawn,
    opened,
    show_only,
    sideways,
    violations,
    violations_in_both_themes,
)
from tests.integration.browser import Window
from tests.integration.run_writing import WrittenRun
from tests.integration.serving import Served, serving

WIDE, PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=844)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("home"), "--no-history", simulate=2) as served:
        yield served


@pytest.fixture(scope="module")
def readers_window(readers_window: Window, empty: Served) -> Window:
    """On the list as it was before there were runs, left open."""
    page = readers_window.page
    page.goto(f"{empty.url}/#/runs")
    # A server of root shows nobody that nothing exists who has not signed in.
    nothing = re.compile("No runs yet|Your runs are shown when you have signed in")
    expect(page.get_by_role("heading", name=nothing)).to_be_visible()
    return readers_window


@pytest.fixture(scope="module")
def folder(empty: Served, readers_window: Window) -> Path:
    folder = empty.state / "andon" / "runs"
    sweep = WrittenRun(folder, "aaaaaaaa", "train.py", ago=9000, tags=("baseline",), group="sweep")
    sweep.sample(*range(0, 1200, 10))
    sweep.event(300, "epoch", number=1)
    sweep.event(900, "epoch", number=2)
    sweep.end(1200)
    other = WrittenRun(folder, "bbbbbbbb", "train.py", gpus=1, ago=7000, group="sweep")
    other.sample(*range(0, 600, 10))
    other.end(600)
    small = WrittenRun(
        folder, "cccccccc", "finetune.py", 1, ago=5000, model="NVIDIA A100-SXM4-80GB"
    )
    small.sample(0, 5)
    small.end(6, RunState.FAILED, message="exit code 1")
    short = WrittenRun(folder, "dddddddd", "quick", gpus=1, ago=4000)
    short.end(1, no_samples_reason="it ended before its devices were read")
    WrittenRun(folder, "eeeeeeee", "host.py", gpus=0, ago=3000).end(1)
    return folder


@pytest.fixture(scope="module")
def home(empty: Served, folder: Path) -> Served:
    return empty


def test_runs_appear_in_an_open_list(reader: Window, home: Served) -> None:
    rows = reader.page.locator("table tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.first).to_contain_text("host.py")
    expect(reader.page.get_by_text("andon run --name first")).to_have_count(0)
    assert reader.complaints == []


def test_the_list_says_what_each_run_had_and_whose_runs_these_are(
    reader: Window, owner: Window, home: Served
) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/runs")
    gpus = page.locator('td[data-name="GPUs"]')
    expect(gpus).to_have_text(["no GPU", "1 × H200", "1 × A100-SXM4", "1 × H200", "2 × H200"])
    expect(page.get_by_role("img", name="utilisation over its time")).to_have_count(3)
    expect(page.get_by_text("not sampled")).to_have_count(1)
    expect(page.get_by_text(re.compile("^The runs of .* who runs this server"))).to_be_visible()
    expect(page.get_by_text("--key of-root")).to_have_count(0)
    owner.page.goto(f"{home.url}/#/runs")
    expect(owner.page.get_by_text("--key of-root").first).to_be_attached()


def test_columns_filter_sort_and_scatter_are_in_the_address(owner: Window, home: Served) -> None:
    page = owner.page
    page.goto(f"{home.url}/#/runs")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(5)
    page.get_by_label("filter by values").fill("util>0")
    expect(page.get_by_text(re.compile(r"^\d of 5 match$"))).to_be_visible()
    kept = rows.count()
    assert 0 < kept < 5, "a run without a known utilisation meets no condition"
    page.get_by_role("button", name="duration").click()
    expect(page.locator('th[aria-sort="descending"]')).to_contain_text("duration")
    page.get_by_text("columns", exact=True).first.click()
    page.get_by_role("checkbox", name="energy").uncheck()
    expect(page.get_by_role("columnheader", name="energy")).to_have_count(0)
    page.get_by_role("button", name="scatter").click()
    expect(page.locator("a.dot")).not_to_have_count(0)
    assert violations(page.get_by_role("main")) == []
    page.reload()
    expect(rows).to_have_count(kept)
    expect(page.get_by_role("columnheader", name="energy")).to_have_count(0)
    expect(page.locator("a.dot").first).to_be_visible()


@pytest.mark.long
def test_long_names_leave_the_other_columns_in_view(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    state, long = tmp_path_factory.mktemp("long"), "llama-3.1-70b-finetune-on-support-dialogues-"
    with serving(state, "--no-history", simulate=1) as served, opened(browser) as seen:
        folder = state / "andon" / "runs"
        run = WrittenRun(folder, "ffffffff", f"{long}second-try-01", user=f"{long}of-a-person")
        run.sample(0, 5, 10)
        run.end(15)
        page = seen.page
        page.goto(f"{served.url}/#/runs")
        link = page.get_by_role("link", name=f"{long}second-try-01")
        expect(link).to_have_attribute("title", f"{long}second-try-01")
        energy = page.get_by_role("columnheader", name="energy").bounding_box()
        assert energy is not None
        assert energy["x"] + energy["width"] <= WIDE["width"]
        page.set_viewport_size(PHONE)
        state_of = page.locator('td[data-name="state"]').bounding_box()
        assert state_of is not None
        assert state_of["x"] + state_of["width"] <= PHONE["width"]
        assert sideways(page) <= 0


def test_the_list_is_searched_and_filtered_and_the_address_keeps_it(
    reader: Window, home: Served
) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/runs")
    rows = page.locator("table tbody tr")
    expect(rows).to_have_count(5)
    page.get_by_role("combobox", name="GPU").select_option("A100-SXM4")
    expect(rows).to_have_count(1)
    page.reload()
    expect(rows).to_have_count(1)
    page.get_by_role("combobox", name="GPU").select_option("")
    page.get_by_role("combobox", name="group").select_option("sweep")
    expect(rows).to_have_count(2)
    show_only(page, "aaaa")
    expect(rows).to_have_count(1)
    expect(page.get_by_text("1 of 5 runs")).to_be_visible()
    show_only(page, "nothing like it")
    expect(page.get_by_role("heading", name="No run matches")).to_be_visible()


def test_a_run_has_its_box_its_table_and_four_charts_with_events(
    reader: Window, home: Served
) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/runs")
    page.locator("tr", has_text="aaaaaaaa").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1, name="train.py")).to_be_visible()
    box = page.locator(".run-box")
    expect(box).to_contain_text("20 min")
    expect(box).to_contain_text("120")
    head = page.get_by_label("GPUs of this run", exact=True).locator("th")
    expect(head).to_have_text(["GPU ID", "Model", "Utilisation", "Memory", "Temperature", "Power"])
    first = page.locator('td[data-name="Utilisation"]').first
    expect(first).to_have_text(re.compile(r"^\d+\s% \(\d+–\d+\)$"))
    expect(page.locator("figure.chart")).to_have_count(4)
    expect(page.locator("figure.chart canvas")).to_have_count(4)
    expect(page.locator(".happened li")).to_have_count(2)
    assert reader.complaints == []


@pytest.mark.long
def test_a_chart_is_read_and_zoomed_and_back_undoes_it(owner: Window, home: Served) -> None:
    page = owner.page
    page.goto(f"{home.url}/#/runs/aaaaaaaa")
    surface = page.get_by_role("slider", name=re.compile("^Utilisation"))
    box = surface.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 4, middle)
    readout = page.locator(".readout")
    expect(readout).to_contain_text("5:00 after the start")
    expect(readout).to_contain_text("GPU 1")
    expect(readout).to_contain_text("epoch")
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, middle, steps=4)
    page.mouse.up()
    expect(page.get_by_text(re.compile(r"^(4:5\d|5:00) to (9:5\d|10:00) after"))).to_be_visible()
    assert "from=" in page.url
    page.go_back()
    expect(page.get_by_text("0:00 to 20:00 after the start")).to_be_visible()


def test_without_samples_the_page_says_why(reader: Window, home: Served) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/runs/dddddddd")
    expect(page.get_by_role("heading", name="No charts")).to_be_visible()
    expect(page.get_by_text("it ended before its devices were read").last).to_be_visible()
    expect(page.locator("figure.chart")).to_have_count(0)
    page.goto(f"{home.url}/#/runs/nothing1")
    expect(page.get_by_text("there is no run 'nothing1'")).to_be_visible()
    assert "/api/" not in page.locator("main").inner_text()
    page.locator("main").get_by_role("link", name="All runs").click()
    expect(page).to_have_url(f"{home.url}/#/runs")


def test_runs_are_laid_over_each_other_by_the_time_since_their_start(
    reader: Window, home: Served
) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/runs")
    page.get_by_label("overlay train.py aaaaaaaa").check()
    expect(page.get_by_role("button", name="Overlay 1 runs")).to_be_disabled()
    expect(page.get_by_label("overlay quick dddddddd")).to_be_disabled()
    page.get_by_label("overlay train.py bbbbbbbb").check()
    page.get_by_label("overlay finetune.py cccccccc").check()
    page.get_by_role("button", name="Overlay 3 runs").click()
    expect(page.get_by_role("heading", level=1, name="3 runs")).to_be_visible()
    expect(page.locator("figure.chart canvas")).to_have_count(4)
    expect(page.locator(".run-legend li")).to_have_count(3)
    expect(page.get_by_text("0:00 to 20:00 after the start")).to_be_visible()


def test_the_record_is_downloaded_after_signing_in(
    reader: Window, owner: Window, home: Served
) -> None:
    for page in (reader.page, owner.page):
        page.goto(f"{home.url}/#/runs/aaaaaaaa")
    expect(reader.page.get_by_text(re.compile("^Command, folders"))).to_be_visible()
    expect(reader.page.get_by_role("button", name="Download record")).to_have_count(0)
    with owner.page.expect_download() as saved:
        owner.page.get_by_role("button", name="Download record").click()
    assert saved.value.suggested_filename == "train.py_aaaaaaaa.jsonl"
    written = (home.state / "andon" / "runs" / "train.py_aaaaaaaa.jsonl").read_bytes()
    assert Path(saved.value.path()).read_bytes() == written


def test_a_run_that_goes_on_is_drawn_as_it_goes_and_ends(
    owner: Window, home: Served, folder: Path
) -> None:
    run = WrittenRun(folder, "ffffffff", "live.py", gpus=1, ago=30)
    run.sample(1, 2)
    page = owner.page
    page.goto(f"{home.url}/#/runs/ffffffff")
    samples = page.locator(".run-box div", has_text="samples").locator("dd")
    expect(samples).to_have_text("2")
    run.sample(10)
    expect(samples).to_have_text("3")
    run.event(11, "saved")
    expect(page.locator(".happened li")).to_have_text([re.compile("saved")])
    run.end(30)
    expect(page.get_by_text("succeeded")).to_be_visible()
    expect(page.locator(".run-box")).to_contain_text("30 s")
    assert owner.complaints == []


def test_what_a_run_logs_is_drawn_over_time_and_steps_and_moves(
    owner: Window, home: Served, folder: Path
) -> None:
    run = WrittenRun(folder, "kkkkkkkk", "learn.py", gpus=1, ago=60)
    run.sample(*range(1, 40))
    for second in range(1, 40):
        run.log(second, 10 * second if second < 30 else second, loss=4 / second)
    page = owner.page
    page.goto(f"{home.url}/#/runs/kkkkkkkk")
    loss = page.locator("figure.chart", has_text="loss")
    expect(loss).to_contain_text("lowest 0.1026 at 39 · highest 4 at 10 · steps went back 1 ×")
    expect(page.locator("figure.chart canvas")).to_have_count(5)
    run.log(41, 41, loss=0.05)
    expect(loss).to_contain_text("0.05 · lowest 0.05 at 41")
    page.get_by_role("button", name="steps").click()
    expect(page.get_by_text("step 10 to step 290")).to_be_visible()
    assert "time=step" in page.url
    assert page.locator("figure.chart canvas").count() == 5  # the GPU's too, on the same axis
    assert violations(page) == []
    run.end(42)
    assert owner.complaints == []


def test_a_person_pins_a_run_and_writes_a_note_on_it(
    owner: Window, reader: Window, home: Served
) -> None:
    page = owner.page
    page.goto(f"{home.url}/#/runs/bbbbbbbb")
    page.get_by_role("button", name="add note").click()
    page.get_by_label("note on this run").fill("the <b>new</b> loader")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("the <b>new</b> loader")).to_be_visible()
    page.get_by_role("button", name="pin", exact=True).click()
    expect(page.get_by_role("button", name="pinned")).to_have_attribute("aria-pressed", "true")
    page.goto(f"{home.url}/#/runs")
    expect(page.locator("tbody tr").first).to_contain_text("bbbbbbbb")
    reader.page.goto(f"{home.url}/#/runs/bbbbbbbb")
    expect(reader.page.get_by_role("heading", level=1, name="train.py")).to_be_visible()
    expect(reader.page.get_by_role("button", name="pin")).to_have_count(0)
    page.goto(f"{home.url}/#/runs/bbbbbbbb")
    page.get_by_role("button", name="pinned").click()
    expect(page.get_by_role("button", name="pin", exact=True)).to_be_visible()
    assert owner.complaints == []


def test_a_run_that_goes_on_has_its_numbers_beside_others_too(
    reader: Window, home: Served, folder: Path
) -> None:
    for run, name in (("gggggggg", "going.py"), ("hhhhhhhh", "other.py")):
        WrittenRun(folder, run, name, ago=60).sample(0, 5, 10)
    reader.page.goto(f"{home.url}/#/runs/gggggggg,hhhhhhhh")
    row = reader.page.get_by_role("row").filter(has_text="going.py")
    expect(row).to_contain_text("running")
    expect(row).to_contain_text(re.compile(r"\d+\s%"))
    expect(row).to_contain_text("90.0")


def test_the_pages_open_while_the_server_is_away(seen: Window, home: Served) -> None:
    """All code is loaded with the first page: a second script right after it."""
    page = seen.page
    with page.expect_response(re.compile(r"/assets/later-.*\.js")):
        page.goto(home.url)
    expect(page.locator("li.tile")).to_have_count(2)
    page.route("**/*", lambda route: route.abort())
    page.evaluate("location.hash = '#/runs'")
    expect(page.get_by_role("heading", level=1, name="Runs")).to_be_visible()


@pytest.mark.parametrize(
    "names",
    [("/aaaaaaaa", "/aaaaaaaa,bbbbbbbb"), pytest.param(("", "/dddddddd"), marks=pytest.mark.long)],
)
def test_axe_finds_nothing_and_nothing_is_cut(
    reader: Window, home: Served, names: tuple[str, ...]
) -> None:
    page = reader.page
    wrong = {}
    for name in names:
        page.goto(f"{home.url}/#/runs{name}")
        drawn(page)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("table").first).to_be_visible()
        found = violations_in_both_themes(page)
        for size in (PHONE, WIDE):
            page.set_viewport_size(size)
            drawn(page)
            if (pixels := sideways(page)) > 0:
                found.append(f"{pixels} pixels too wide for {size}")
            if size is PHONE and name in ("", "/aaaaaaaa"):  # the others have less of the same
                found += violations(page.get_by_role("main"))
        if found:
            wrong[name] = found
    assert wrong == {}
