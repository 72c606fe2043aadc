"""Leases on the board: who holds what until when, seen, extended and given back in a browser."""

import fcntl
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from andon.leases.book.lease_book import Book
from andon.units import GIB
from tests.integration.board import (
    serving_node,
    show_only,
    sideways,
    sign_in,
    tiles,
    uuids,
    violations,
    violations_in_both_themes,
)
from tests.integration.browser import Window
from tests.integration.conftest import andon, is_alive
from tests.integration.leasing import FOREVER, kill, line, running, work_pid
from tests.integration.serving import Served, serving
from tests.standin import StandIn, StandInProcess
from tests.support.waiting import wait_for
from tests.support.web_parts import end_holders

pytestmark = pytest.mark.timeout(300)

PYTHON = sys.executable
DEVICES = 3
SIMULATED = ("--simulate", str(DEVICES))
WORK = ("--", PYTHON, "-c", FOREVER)
NO_ROUNDS = """
const often = window.setInterval;
window.setInterval = (act, ms, ...more) => (ms < 5000 ? often(act, ms, ...more) : 0);
"""
JSON = {"Content_Type": "application/json"}
PHONE_COLUMNS = 60
LISTED = ("leases", "waiting", "cordons", "reservations")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home") / ("a_book_with_a_name_wider_than_a_phone_" * 2)


@pytest.fixture(scope="module")
def home(folder: Path) -> Iterator[Served]:
    """One server for all: every test finds its book empty."""
    with serving(
        folder.parent, simulate=DEVICES,
        HOME="/nonexistent", ANDON_LEASE_DIR=str(folder), ANDON_SIMULATE_SCENARIO="idle",
        ANDON_ALERTS_NODE_CPU_PERCENT="off",
    ) as served:  # fmt: skip
        yield served


@pytest.fixture(autouse=True)
def book(
    home: Served, folder: Path, own_places: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    monkeypatch.setenv("ANDON_LEASE_DIR", str(folder))  # the server's
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "idle")
    yield folder
    book = Book(make=False)
    end_holders(book)
    for cordon in book.cordons():
        book.uncordon(cordon.uuid)
    for one in book.reservations():
        book.cancel(one)
    for left in [*folder.glob("leases/*.lease"), *folder.glob("tickets/*.ticket")]:
        left.unlink(missing_ok=True)
    wait_for(lambda: not any(home.ask("/api/leases").json()[name] for name in LISTED))


@pytest.fixture
def reader(reader: Window, home: Served) -> Window:
    """On the page of leases, where those of the test before are gone."""
    show(reader.page, home)
    expect(rows(reader.page)).to_have_count(0)
    return reader


@pytest.fixture
def owner(owner: Window, home: Served) -> Window:
    show(owner.page, home)
    expect(rows(owner.page)).to_have_count(0)
    return owner


def leases(served: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.ask("/api/leases", **served.bearer).json()["leases"]
    return found


def lend(served: Served, **asked: object) -> dict[str, Any]:
    """A lease over the network."""
    body = json.dumps({"seconds": 3600, "command": "nightly evaluation", **asked})
    answer = served.ask("/api/leases", "POST", body, **served.bearer, **JSON)
    assert answer.status == 201, answer.body
    found: dict[str, Any] = answer.json()
    return found


def show(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/#/leases")
    expect(page.get_by_role("heading", level=1, name="Leases")).to_be_visible()


def board(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/#/")
    expect(tiles(page)).to_have_count(DEVICES)


def rows(page: Page) -> Locator:
    return page.locator("li.lease")


def test_where_nobody_holds_one_the_page_teaches(reader: Window, home: Served) -> None:
    reader.page.goto(f"{home.url}/#/")
    reader.page.get_by_role("link", name="Leases").click()
    expect(reader.page.get_by_role("heading", name="No leases")).to_be_visible()
    for text in ("andon run -- python train.py", "andon lease --devices 0 --for 2h"):
        expect(reader.page.get_by_role("button", name=f"copy: {text}")).to_be_visible()
    expect(reader.page.get_by_role("main")).to_contain_text("take it and open a shell")
    assert violations(reader.page.get_by_role("main")) == []
    assert reader.complaints == []


def test_a_book_that_cannot_be_read_is_no_empty_list(seen: Window, tmp_path: Path) -> None:
    house = tmp_path / "house"
    book = str(house / "book")
    with serving(
        tmp_path / "server", "--no-history", simulate=1, HOME=str(house), ANDON_LEASE_DIR=book
    ) as served:
        show(seen.page, served)
        expect(seen.page.get_by_text("The lease book cannot be read")).to_be_visible()
        expect(seen.page.get_by_role("main")).to_contain_text("is under a home directory")
        expect(seen.page.get_by_role("heading", name="No leases")).to_have_count(0)
        assert violations(seen.page.get_by_role("main")) == []


def test_a_lease_says_who_what_and_until_when(owner: Window, home: Served) -> None:
    shared = ("--shared", "--memory", "2GiB", "--devices", "1")
    with (
        running("lease", *SIMULATED, "--gpus", "1", "--devices", "0", "--for", "2h", *WORK) as one,
        running("run", *SIMULATED, *shared, *WORK) as two,
    ):
        assert (line(one), line(two)) == ("started", "started")
        expect(rows(owner.page)).to_have_count(2)
        first = rows(owner.page).filter(has=owner.page.get_by_role("link", name="GPU 0"))
        expect(first).to_contain_text("held")
        expect(first).to_contain_text(
            re.compile(r"\d\d:\d\d 1(19|20)\smin left|\d\d:\d\d 2\sh left")
        )
        expect(first).to_contain_text("used (exclusive)")
        expect(first.locator("code.work")).to_contain_text("time.sleep")
        expect(first.locator("svg.lamp.green")).to_have_count(1)
        other = rows(owner.page).filter(has=owner.page.get_by_role("link", name="GPU 1"))
        expect(other).to_contain_text("of 2.0 GiB promised")
        expect(other).to_contain_text("its command ends")
        expect(other.get_by_role("button", name="Extend", exact=True)).to_have_count(0)
        assert violations_in_both_themes(owner.page.get_by_role("main")) == []
        assert owner.complaints == []


def test_a_stranger_reads_and_changes_nothing(reader: Window, home: Served) -> None:
    lent = lend(home)
    page = reader.page
    show(page, home)
    expect(rows(page)).to_contain_text(lent["id"])
    expect(page.get_by_role("main").get_by_role("link", name="Sign in")).to_be_visible()
    expect(rows(page).get_by_role("button", name="Give back", exact=True)).to_have_count(0)
    expect(page.get_by_role("button", name=re.compile("^Take"))).to_have_count(0)
    rows(page).get_by_text("as commands").click()
    expect(rows(page).get_by_text(f"andon release {lent['id']}")).to_be_visible()
    assert "nightly" not in page.content()


def test_no_command_is_shown_to_a_person_who_may_not_use_it(reader: Window, home: Served) -> None:
    lent = lend(home)
    page = reader.page

    def as_dora(route: Route) -> None:
        if route.request.method != "GET":  # the exchange of the code
            route.continue_()
            return
        said = route.fetch()
        may = {**said.json()["may"], "release": "own"}
        route.fulfill(response=said, json={**said.json(), "user": "dora", "may": may})

    page.route("**/api/session", as_dora)
    sign_in(page, home)
    show(page, home)
    expect(rows(page)).to_contain_text(lent["id"])
    expect(rows(page).get_by_text("andon release")).to_have_count(0)
    expect(rows(page).get_by_text("andon lease extend")).to_have_count(0)
    page.unroute_all(behavior="ignoreErrors")  # one that is being answered is not waited for
    page.get_by_role("button", name="sign out").click()
    expect(page.get_by_text("read-only: run")).to_be_visible()


def test_extending_moves_the_end_and_shows_the_command(owner: Window, home: Served) -> None:
    lent = lend(home, seconds=600)
    page = owner.page
    row = rows(page)
    row.get_by_text("as commands").click()
    expect(row.get_by_text(f"andon lease extend {lent['id']} --for 1h")).to_be_visible()
    row.get_by_role("combobox").select_option("4 h from now")
    expect(row.get_by_text(f"andon lease extend {lent['id']} --for 4h")).to_be_visible()
    row.get_by_role("button", name="Extend", exact=True).click()
    expect(row).to_contain_text(re.compile(r"3\sh 59\smin left|4\sh left"))
    [held] = leases(home)
    assert held["until"] > lent["until"] + 10_000
    expect(row.get_by_role("combobox")).to_have_value("8h")  # what is nearer extends nothing
    assert owner.complaints == []


def test_releasing_asks_first_and_then_ends_the_work(owner: Window, home: Served) -> None:
    page = owner.page
    with running("run", *SIMULATED, *WORK) as process:
        assert line(process) == "started"
        pid = work_pid()
        rows(page).get_by_role("button", name="Release", exact=True).click()
        dialog = page.get_by_role("dialog", name=re.compile("^Release .*'s lease"))
        expect(dialog).to_contain_text("This will stop")
        expect(dialog.get_by_role("button", name="Keep it")).to_be_focused()
        assert violations(dialog) == []
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        assert is_alive(pid)
        assert len(leases(home)) == 1

        rows(page).get_by_role("button", name="Release", exact=True).press("Enter")
        note = dialog.get_by_label(re.compile("^Note for "))
        note.fill("the fan's turn")
        expect(dialog.get_by_text("--note 'the fan'\\''s turn'")).to_be_visible()
        dialog.get_by_role("button", name="Keep it").focus()
        page.keyboard.press("Tab")
        expect(dialog.get_by_role("button", name="Stop job and release")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="No leases")).to_be_visible()
        wait_for(lambda: not is_alive(pid))
        assert "the fan's turn" in process.communicate(timeout=120)[1], "its holder reads why"
    assert leases(home) == []
    assert owner.complaints == []


def test_of_two_who_release_the_same_the_second_sees_that_it_is_over(
    owner: Window, home: Served
) -> None:
    lent = lend(home)
    page = owner.page
    path = f"/api/leases/{lent['id']}?fence={lent['fence']}"

    def late(route: Route) -> None:
        assert home.ask(path, "DELETE", **home.bearer).status == 200
        route.continue_()

    page.route(f"**{path}", late)
    rows(page).get_by_role("button", name="Give back", exact=True).click()
    with page.expect_response(f"**{path}") as answer:
        page.get_by_role("dialog").get_by_role("button", name="Give back", exact=True).click()
    assert answer.value.status in (404, 410)
    expect(page.get_by_role("heading", name="No leases")).to_be_visible()


def test_work_that_does_not_end_is_told_of(owner: Window, home: Served) -> None:
    stubborn = f"import signal; signal.signal(15, signal.SIG_IGN); {FOREVER}"
    page = owner.page
    with running("run", *SIMULATED, "--", PYTHON, "-c", stubborn) as process:
        assert line(process) == "started"
        rows(page).get_by_role("button", name="Release", exact=True).click()
        page.get_by_role("button", name="Stop job and release").click()
        expect(rows(page).get_by_role("status")).to_contain_text("waiting for its holder")
        expect(rows(page).get_by_role("alert")).to_contain_text("its command is still running")


def test_what_others_do_is_seen_without_asking(seen: Window, home: Served) -> None:
    """Its slow rounds are stopped: nothing but the live event can bring it."""
    page = seen.page
    page.add_init_script(NO_ROUNDS)
    sign_in(page, home)
    show(page, home)
    expect(page.get_by_role("heading", name="No leases")).to_be_visible()
    lent = lend(home)
    expect(rows(page)).to_contain_text(lent["id"])
    path = f"/api/leases/{lent['id']}?fence={lent['fence']}"
    assert home.ask(path, "DELETE", **home.bearer).status == 200
    expect(page.get_by_role("heading", name="No leases")).to_be_visible()


def test_nothing_is_asked_while_the_page_is_not_shown(reader: Window, home: Served) -> None:
    page = reader.page
    show(page, home)
    expect(page.get_by_role("heading", name="No leases")).to_be_visible()
    page.get_by_role("link", name="Board", exact=True).click()
    expect(tiles(page)).to_have_count(DEVICES)
    asked = [url for url in reader.requests if url.endswith("/api/leases")]
    with page.expect_request("**/api/board"):
        lend(home)
    with page.expect_request("**/api/board", timeout=60_000):
        pass
    assert [url for url in reader.requests if url.endswith("/api/leases")] == asked


def test_who_waits_and_what_is_cordoned_is_listed(reader: Window, home: Served) -> None:
    everything = ("--gpus", str(DEVICES - 1))
    page = reader.page
    assert andon("cordon", *SIMULATED, "2", "--reason", "new fan").code == 0
    with ExitStack() as stack:
        process = stack.enter_context(running("run", *SIMULATED, *everything, *WORK))
        assert line(process) == "started"  # the next must not come first
        stack.enter_context(running("run", *SIMULATED, "--memory", "1GiB", *WORK))
        wait_for(lambda: home.ask("/api/leases").json()["waiting"])
        show(page, home)
        waiting = page.locator("ol.waiting li")
        expect(waiting).to_have_count(1)
        expect(waiting).to_contain_text("requests 1 GPU with 1.0 GiB")
        expect(waiting).to_contain_text(re.compile(r"· waiting \d+\ss"))  # its age, not a length
        cordoned = page.locator("ul.cordons li")
        expect(cordoned).to_contain_text("GPU 2")
        expect(cordoned).to_contain_text("new fan")
        command = re.compile("copy: andon uncordon 2")
        expect(cordoned.get_by_role("button", name=command)).to_be_visible()
        assert violations(page.get_by_role("main")) == []


def test_an_orphan_and_what_cannot_be_read_are_marked(
    owner: Window, home: Served, book: Path
) -> None:
    worker = f"import subprocess; p = subprocess.Popen([{PYTHON!r}, '-c', {FOREVER!r}]); p.wait()"
    page = owner.page
    with running("run", *SIMULATED, "--", PYTHON, "-c", worker) as process:
        assert line(process) == "started"
        pid = work_pid()
        kill(process.pid)
        process.wait()
        kill(pid)
        wait_for(lambda: not is_alive(pid))
        orphan = page.locator("li.lease.orphaned")
        expect(orphan.locator("svg.lamp.amber")).to_have_count(1)
        expect(orphan.locator(".state")).to_have_text("orphaned")
        expect(orphan.locator(".why-not")).to_contain_text("has exited")
        expect(orphan.get_by_role("button", name="Release", exact=True)).to_have_count(0)
        with (book / "leases" / "hostile.lease").open("w") as file:
            file.write("{ no lease")
            file.flush()
            fcntl.flock(file, fcntl.LOCK_EX)
            unreadable = page.locator("li.lease.unreadable")
            expect(unreadable.locator("svg.lamp.red")).to_have_count(1)
            expect(unreadable.locator(".state")).to_have_text("unreadable")
            assert violations(page.get_by_role("main")) == []
        os.killpg(pid, signal.SIGKILL)
    assert owner.complaints == []


def test_nothing_sticks_out_on_a_phone(owner: Window, home: Served, book: Path) -> None:
    lend(home, command="python train.py " + "--very-long-option " * 15)
    assert len(str(book)) > PHONE_COLUMNS
    owner.page.set_viewport_size({"width": 390, "height": 844})
    expect(rows(owner.page)).to_have_count(1)
    assert sideways(owner.page) <= 0
    assert violations(owner.page) == []


def test_the_board_says_who_holds_a_device(owner: Window, home: Served) -> None:
    page = owner.page
    board(page, home)
    lent = lend(home, devices=["1"], seconds=3000)
    name = re.compile(rf"^GPU 1, held by {lent['user']}, until \d\d:\d\d, utilisation")
    held = page.get_by_role("link", name=name)
    expect(held).to_be_visible()
    expect(held.locator(".word")).to_have_text(f"held by {lent['user']}")
    expect(held.locator(".who")).to_have_text(re.compile(r"^until \d\d:\d\d · no processes$"))
    held.hover()
    expect(page.get_by_role("tooltip")).to_contain_text(lent["id"])
    assert violations(page.get_by_role("main")) == []
    page.goto(f"{home.url}/#/device/{quote(uuids(page)[1])}")
    panel = page.locator("section.panel", has=page.get_by_role("heading", name="Held by"))
    expect(panel).to_contain_text(lent["user"])
    expect(panel).to_contain_text(re.compile(r"until \d\d:\d\d, (49|50)\smin left"))
    panel.get_by_role("link", name=lent["id"]).click()
    expect(page.locator("li.lease.chosen")).to_contain_text(lent["id"])


def test_a_free_one_is_taken_for_somebody_and_given_back(owner: Window, home: Served) -> None:
    page = owner.page
    expect(page.locator(".free-now")).to_contain_text("free: GPU 0, 1, 2")  # of the test before
    page.get_by_role("button", name="Take for 2 h…").click()
    dialog = page.get_by_role("dialog", name="Take a GPU")
    dialog.get_by_label("for whom").fill("")
    expect(dialog.get_by_role("button", name="Take for 2 h")).to_be_disabled()
    dialog.get_by_role("button", name="GPU 0", exact=True).click()
    dialog.get_by_role("button", name="GPU 1", exact=True).click()
    dialog.get_by_label("for how long").select_option("4 h")
    dialog.get_by_label("for whom").fill("dora")
    dialog.get_by_label("what for").fill("evaluation")
    assert violations(dialog) == []
    dialog.get_by_role("button", name="Take for 4 h").click()
    expect(page.get_by_role("dialog", name="Taken")).to_contain_text("GPU 1 is held for dora")
    expect(page.get_by_role("dialog")).to_contain_text("open a shell there")
    page.get_by_role("button", name="Close").click()
    [held] = leases(home)
    assert [share["index"] for share in held["devices"]] == [1]
    assert (held["whom"], held["command"]) == ("dora", "evaluation")
    assert held["until"] == pytest.approx(held["since"] + 4 * 3600, abs=5)
    expect(rows(page)).to_contain_text("dora")
    expect(rows(page)).to_contain_text("Held but not used")
    expect(page.locator(".free-now")).to_contain_text("free: GPU 0, 2")

    page.get_by_role("link", name="Board", exact=True).click()
    tile = page.get_by_role("link", name=re.compile(rf"^GPU 1, held by {held['user']}.* for dora"))
    expect(tile).to_be_visible()
    expect(page.get_by_role("list", name="GPUs")).to_contain_text("free: GPU 0, 2")
    page.get_by_role("button", name="free 2").click()
    expect(page.locator("li.tile.faded")).to_have_count(1)
    tile.click()
    page.get_by_role("button", name="Give back", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Give back", exact=True).click()
    expect(page.get_by_role("button", name="Take for 2 h…")).to_be_visible()
    assert leases(home) == []
    assert owner.complaints == []


def test_what_is_taken_by_another_meanwhile_is_said(owner: Window, home: Served) -> None:
    page = owner.page
    board(page, home)
    page.goto(f"{home.url}/#/device/{quote(uuids(page)[1])}")
    page.get_by_role("button", name="Take for 2 h…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("for whom").fill("dora")
    lend(home, devices=["1"])
    dialog.get_by_role("button", name="Take for 2 h").click()
    expect(dialog.get_by_role("alert")).to_contain_text("GPU 1")
    assert len(leases(home)) == 1


def test_the_board_filters_and_finds_what_is_free(reader: Window, home: Served) -> None:
    page = reader.page
    lend(home, devices=["1"])
    assert andon("cordon", *SIMULATED, "2", "--reason", "new fan").code == 0
    page.goto(f"{home.url}/#/")
    free = page.get_by_role("button", name="free 1")
    expect(free).to_be_visible()
    expect(page.locator("li.tile .cordon")).to_have_count(1)
    free.click()
    expect(page.get_by_text("1 of 3 match")).to_be_visible()
    expect(page.locator("li.tile:not(.faded)")).to_contain_text("free")
    free.click()
    show_only(page, "nowhere")
    expect(page.get_by_text("no GPU matches")).to_be_visible()
    show_only(page, "cordoned")
    expect(page.get_by_text("1 of 3 match")).to_be_visible()
    page.get_by_role("button", name="show more than").click()
    expect(page.locator("li.tile.faded")).to_have_count(0)
    assert reader.complaints == []


def test_a_process_says_which_lease_it_works_under(
    seen: Window, node: StandIn, tmp_path: Path
) -> None:
    page = seen.page
    with (
        running("run", "--gpus", "1", "--devices", "0", *WORK) as process,
        serving_node(tmp_path / "server", "--no-history") as served,
    ):
        assert line(process) == "started"
        node.change(0, processes=(StandInProcess(work_pid(), memory=2 * GIB),))
        [held] = leases(served)
        page.goto(f"{served.url}/#/processes")
        mark = page.locator("tbody").get_by_role("link", name=held["id"])
        expect(mark).to_be_visible()
        mark.click()
        expect(page.locator("li.lease.chosen")).to_contain_text("2.0 of")


def test_hours_are_reserved_by_dragging_and_by_keys_then_moved_and_cancelled(
    owner: Window, home: Served
) -> None:
    page, dialog = owner.page, owner.page.get_by_role("dialog")
    week = page.get_by_role("application", name="hours by GPU")
    for row in (0, 1):
        expect(week.locator(f'[data-row="{row}"]')).to_be_visible()
    week.scroll_into_view_if_needed()
    boxes = [week.locator(f'[data-row="{row}"]').bounding_box() for row in (0, 1)]
    first, second = (box for box in boxes if box is not None)
    page.mouse.move(first["x"] + 0.5 * first["width"], first["y"] + 9)
    page.mouse.down()
    page.mouse.move(second["x"] + 0.55 * second["width"], second["y"] + 9, steps=4)
    page.mouse.up()
    expect(dialog.get_by_role("button", pressed=True)).to_have_count(2)
    assert violations(dialog) == []
    dialog.get_by_label("what for").fill("<b>paper</b>")
    expect(
        dialog.get_by_role("button", name="copy: andon reserve --gpus 2 -d 0,1 ")
    ).to_be_visible()
    dialog.get_by_role("button", name="Reserve for ").click()
    listed = page.get_by_role("list", name="reservations").get_by_role("listitem")
    expect(listed).to_contain_text("GPUs 0, 1 from ")
    expect(listed).to_contain_text("<b>paper</b>")
    expect(week.get_by_role("button", name="<b>paper</b>: reserved from")).to_have_count(2)
    [made] = Book(make=False).reservations()
    week.focus()
    left = "ArrowDown End Enter ArrowLeft Escape"  # a range that is not reserved
    for key in f"{left} End ArrowDown ArrowDown Enter ArrowLeft ArrowLeft Enter".split():
        page.keyboard.press(key)
    expect(dialog.get_by_role("button", name="Reserve for 3 h")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    listed.get_by_role("button").first.click()
    dialog.get_by_label("for how long").select_option("1 h")
    dialog.get_by_role("button", name="Change the reservation").click()
    expect(dialog).to_have_count(0)
    [moved] = Book(make=False).reservations()
    assert (moved.begins, moved.ends) == (made.begins, made.begins + 3600)
    assert violations_in_both_themes(page.get_by_role("main")) == []
    page.get_by_role("button", name="Calendar link").click()
    link = page.get_by_role("button", name=f"copy: {home.url}/calendar/").get_attribute(
        "aria-label"
    )
    path = (link or "").removeprefix(f"copy: {home.url}")
    assert "SUMMARY:GPU 0\\, 1 of " in home.ask(path).body
    page.get_by_role("button", name="End my link").click()
    wait_for(lambda: home.ask(path).status == 404)
    week.get_by_role("button", name="<b>paper</b>").first.click()
    dialog.get_by_role("button", name="Cancel the reservation").click()
    asked = page.get_by_role("dialog", name="Cancel reservation")
    assert violations(asked) == []
    asked.get_by_role("button", name="Keep it").click()
    expect(listed).to_have_count(1)
    dialog.get_by_role("button", name="Cancel the reservation").click()
    asked.get_by_role("button", name="Cancel the reservation").click()
    expect(listed).to_have_count(0)
    assert Book(make=False).reservations() == ()
    assert owner.complaints == []


def test_who_may_not_reserve_gets_the_command_and_sees_what_another_process_reserved(
    reader: Window, home: Served
) -> None:
    page = reader.page
    page.set_viewport_size({"width": 360, "height": 740})
    page.get_by_role("button", name="Reserve…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="copy: andon reserve --gpus 1 -d 0")).to_be_visible()
    expect(dialog.get_by_role("button", name="Reserve for")).to_have_count(0)
    page.keyboard.press("Escape")
    made = andon("reserve", *SIMULATED, "-d", "1", "--from", "2h", "--for", "3h")
    assert made.code == 0, made.err
    listed = page.get_by_role("list", name="reservations")
    expect(listed).to_contain_text("GPU 1 from ")
    assert sideways(page) == 0
    assert andon("reserve", "cancel", "r1").code == 0
    expect(listed).to_have_count(0)
