"""Figures as people read them: rounded alike by the commands and on the board."""

import json
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from andon.cli.show import cells
from andon.cli.show.runs import cells as run_cells
from andon.cli.show.text import percent
from andon.units import fixed, human_joules
from tests.conftest import REPOSITORY

CASES: dict[str, list[dict[str, Any]]] = json.loads(
    (REPOSITORY / "frontend/tests/figures.json").read_text("utf-8")
)


def test_figures_are_rounded_as_the_board_rounds_them() -> None:
    """A36: 22 % here and 23 % there of one run, "4 J" and 5 J of another."""
    told = [
        *(
            (one["value"], one["digits"], fixed(one["value"], one["digits"]))
            for one in CASES["fixed"]
        ),
        *((one["joules"], human_joules(one["joules"])) for one in CASES["energy"]),
        *((one["bytes"], cells.gib(one["bytes"])) for one in CASES["gib"]),
        *((one["value"], percent(one["value"]).plain) for one in CASES["percent"]),
    ]
    assert told == [
        *((one["value"], one["digits"], one["text"]) for one in CASES["fixed"]),
        *((one["joules"], one["text"]) for one in CASES["energy"]),
        *((one["bytes"], one["text"]) for one in CASES["gib"]),
        *((one["value"], one["text"]) for one in CASES["percent"]),
    ]


def test_energy_that_was_estimated_is_marked() -> None:
    assert run_cells.joules(0.7, "power").plain == "~0.70 J"
    assert run_cells.joules(0.7, "counter").plain == "0.70 J"
    assert run_cells.joules(None, "power").plain == "–"


@given(st.floats(-1e12, 1e12), st.integers(0, 4))
def test_halves_go_away_from_zero_and_all_else_to_the_nearest(value: float, digits: int) -> None:
    exact = Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    assert fixed(value, digits).removeprefix("-") == f"{exact:f}".removeprefix("-")
