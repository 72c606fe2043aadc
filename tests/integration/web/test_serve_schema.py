"""The OpenAPI description, tried out: what it allows and what it forbids."""

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import response_schema_conformance

from andon.app.history import open_store
from andon.history.writer import Recorder
from andon.leases.book.lease_book import Book
from andon.model.device import Snapshot
from andon.node.watched.recorded_past import RecordedPast
from andon.settings.resolution import Settings
from tests.support import snapshots as drawn
from tests.support.sharing_parts import gpu
from tests.support.web_parts import BEARER, Hand, Parts, at_home, end_holders

BOUNDED = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("examples", [2, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_request_that_the_schema_allows_or_forbids_breaks_the_server(
    tmp_path: Path, mode: GenerationMode, examples: int, book_folder: Path
) -> None:
    sampler = Hand(drawn.farm())
    recorder = Recorder(lambda: open_store(Settings(history_store="memory:")), sampler.subscribe(1))
    free = Snapshot("node17", drawn.AT, devices=tuple(gpu(index) for index in range(4)))
    parts = Parts(
        tmp_path, [drawn.farm()], memory=RecordedPast(recorder), longest_wait_seconds=0.05
    )
    parts.sampler.give(free)  # what a lease's look sees; the routes may still say the first
    schema = schemathesis.openapi.from_asgi("/openapi.json", at_home(parts.app))
    try:
        asked = {one.label for one in _operations(schema) if _answers(one, mode, examples)}
    finally:
        end_holders(Book(parts.env))
        parts.close()
        recorder.close()
    wanted = {"GET /api/devices/{device}/history", "POST /api/session", "POST /api/silences",
              "POST /api/leases", "POST /api/leases/{lease}/renew"}  # fmt: skip
    assert wanted <= asked
    assert len(asked) >= (20 if mode is GenerationMode.POSITIVE else 4)


def _operations(schema: Any) -> list[Any]:
    return [found.ok() for found in schema.get_all_operations()]


def _answers(operation: Any, mode: GenerationMode, examples: int) -> bool:
    """Whether there was anything to ask; a route without parameters has no wrong ones."""

    @settings(BOUNDED, max_examples=examples)
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        answer = case.call(headers=BEARER)
        assert answer.status_code < 500, answer.text
        case.validate_response(answer, checks=[response_schema_conformance])

    try:
        ask()
    except Unsatisfiable:
        return False
    return True
