"""Notes on times and what else changed, over REST: who may, what is refused, what is answered."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from andon.history.notes import NoteBook
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import NodeReadings
from andon.node.watched.recorded_past import NoPast
from andon.stores.memory import MemoryStore
from tests.support import snapshots as drawn
from tests.support.web_parts import BEARER, Caller, Parts, served

GPU = drawn.uuid(0)
NOTES = "/api/history/notes"


class Recorded(NoPast):
    """A store in memory that a test filled, and notes in a file."""

    @property
    def book(self) -> NoteBook:
        return self._notes

    def __init__(self, folder: Path) -> None:
        super().__init__("", "")
        store = MemoryStore()
        store.write(
            [NodeReadings(at, ((GPU, ("power_watts",), (watts,)),)) for at, watts in
             ((120.0, 300_000), (180.0, 300_000), (220.0, 90_000), (280.0, 90_000))],
            [UsageInterval(GPU, 7, 50.0, "alice", "train.py", 101.0, 205.0, 4 << 30)],
        )  # fmt: skip
        self.store = lambda: store
        self._notes = NoteBook(folder / "notes.jsonl")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Caller]:
    with served(Parts(tmp_path, [drawn.farm()], memory=Recorded(tmp_path))) as found:
        yield found


def test_a_note_is_written_shown_and_removed(client: Caller) -> None:
    body = {"text": "new\x1b[31m fan\n", "since": 210, "until": 220, "device": 0, "by": "ada"}
    assert client.post(NOTES, json=body).status_code == 401
    made = client.post(NOTES, json=body, headers=BEARER)
    assert made.status_code == 200, made.text
    note = made.json()
    assert (note["text"], note["by"], note["device"]) == ("new\\x1b[31m fan", "ada", GPU)
    asked = client.get(NOTES, params={"since": 0, "until": 300, "device": "0"})
    assert asked.json()["items"] == [note]
    assert client.get(NOTES, params={"since": 0, "until": 300, "device": "1"}).json()["items"] == []
    assert client.delete(f"{NOTES}/{note['id']}").status_code == 401
    assert client.delete(f"{NOTES}/{note['id']}", headers=BEARER).status_code == 200
    assert client.delete(f"{NOTES}/{note['id']}", headers=BEARER).status_code == 404


@pytest.mark.parametrize("wrong", [
    {"text": ""}, {"text": " \n"}, {"text": "x" * 501}, {"since": 230}, {"since": -1},
    {"device": 99},
])  # fmt: skip
def test_a_note_that_says_nothing_or_is_on_nothing_is_refused(
    client: Caller, wrong: dict[str, object]
) -> None:
    body = {"text": "x", "since": 210, "until": 220, "device": 0} | wrong
    assert client.post(NOTES, json=body, headers=BEARER).status_code in (400, 404, 422)
    assert client.get(NOTES, params={"since": 0, "until": 1e9}).json()["items"] == []


def test_what_else_changed_is_told_in_order_without_the_names_of_others_programs(
    client: Caller,
) -> None:
    body = {"text": "new fan", "since": 210, "until": 220, "by": "ada"}
    client.post(NOTES, json=body, headers=BEARER)
    params = {"device": "0", "since": 200, "until": 300}
    found = client.get("/api/history/changes", params=params).json()
    assert found["schema"] == "andon.changes/1"
    assert (found["before"], found["device"]) == (100, GPU)
    assert [one["text"] for one in found["changes"]] == [
        "note of ada: new fan",
        "a process of alice ended, with up to 4.0 GiB",
        "power fell from 300 W to 90 W",
    ]
    named = client.get("/api/history/changes", params=params, headers=BEARER).json()
    nothing = client.get("/api/history/changes", params={"device": "1", "since": 9, "until": 10})
    assert nothing.json()["unknown"][0] == "readings: nothing was read in either range"
    assert "train.py of alice ended, with up to 4.0 GiB" in [c["text"] for c in named["changes"]]
