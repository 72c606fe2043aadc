"""The board's files: compressed, kept by browsers, and a page that says how to get them."""

import gzip
from pathlib import Path

import pytest
from fastapi import FastAPI

from andon.web.routes.pages import add_board
from tests.support.web_parts import Caller


def client(folder: Path) -> Caller:
    api = FastAPI()
    add_board(api, folder)
    return Caller(api, "127.0.0.1", "localhost")


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<p>the board</p>")
    (tmp_path / "theme.js").write_text("1")
    script = tmp_path / "assets" / "index-1.js"
    script.write_text("let it = 1")
    script.with_name("index-1.js.gz").write_bytes(gzip.compress(b"let it = 1"))
    return tmp_path


def test_what_was_compressed_is_sent_so_and_may_be_kept(built: Path) -> None:
    answer = client(built).get("/static/assets/index-1.js", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["cache-control"]
    assert answer.text == "let it = 1"


def test_who_takes_no_gzip_gets_it_plain(built: Path) -> None:
    answer = client(built).get("/static/assets/index-1.js", headers={"accept-encoding": "br"})
    assert "content-encoding" not in answer.headers
    assert answer.text == "let it = 1"


def test_what_has_no_hash_in_its_name_is_asked_for_again(built: Path) -> None:
    found = client(built)
    assert "immutable" not in found.get("/static/theme.js").headers.get("cache-control", "")
    assert found.get("/static/nothing.js").status_code == 404
    assert found.get("/static/assets/nothing.js").headers.get("cache-control") is None


def test_without_the_board_the_page_says_how_to_get_it(tmp_path: Path) -> None:
    found = client(tmp_path)
    page = found.get("/")
    assert page.status_code == 200
    assert "frontend/build.py" in page.text
    assert "ANDON_BUILD_BOARD" in page.text
    assert "/api/snapshot" in page.text
    assert found.get("/favicon.ico").status_code == 204
    assert found.get("/static/theme.js").status_code == 404
