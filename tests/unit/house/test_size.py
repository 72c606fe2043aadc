"""The budget of lines of each package, and what `dev/size` prints."""

from dev import size

from tests.support.rows import rows

BUDGET = {
    "(modules)": 1282,
    "access": 1248,
    "alerts": 5225,
    "api": 3774,
    "app": 4096,
    "callbacks": 1456,
    "cli": 23367,
    "checks": 2377,
    "clusters": 4744,
    "doctor": 3351,
    "drivers": 7670,
    "engines": 456,
    "estimate": 4146,
    "events": 501,
    "explain": 8058,
    "exporter": 1935,
    "failures": 312,
    "fleet": 2136,
    "history": 2676,
    "host": 5459,
    "jobs": 9800,
    "kill": 526,
    "leases": 9039,
    "model": 5609,
    "node": 8584,
    "notifiers": 582,
    "runs": 5375,
    "sampling": 2740,
    "settings": 2357,
    "standalone": 1047,
    "stores": 2602,
    "testing": 2210,
    "tui": 4429,
    "web": 10639,
    "work": 6298,
}
"""The most lines of each package. Above fails; so does a row that is far above the truth, so that
it moves down with the code. A commit that raises a row says what people get for it."""
SLACK, SLACK_LINES = 0.02, 60


def beside_budget(lines: int, row: int) -> str:
    """What is wrong with a package of so many lines under a row of the budget; empty if nothing."""
    if lines > row:
        return f"{lines} lines, {lines - row} above its row"
    if row - lines > max(SLACK * lines, SLACK_LINES):
        return f"{lines} lines: its row of {row} moves down"
    return ""


def test_every_package_is_within_its_budget() -> None:
    found = {name: one.lines for name, one in size.sizes(size.lines_here()).items()}
    assert found.keys() == BUDGET.keys()
    wrong = {name: beside_budget(found[name], row) for name, row in BUDGET.items()}
    assert {name: why for name, why in wrong.items() if why} == {}


@rows("lines, row, is_wrong", [
    (100, 100, False),
    (101, 100, True),
    (940, 1000, False),
    (939, 1000, True),
    (9_804, 10_000, False),
    (9_803, 10_000, True),
])  # fmt: skip
def test_a_row_of_the_budget_is_neither_below_nor_far_above_the_truth(
    lines: int, row: int, is_wrong: bool
) -> None:
    assert bool(beside_budget(lines, row)) == is_wrong


HERE = {"units.py": 10, "cli/main.py": 20, "cli/show/text.py": 5, "runs/__init__.py": 0}


def test_lines_are_counted_by_package_and_loose_modules_apart() -> None:
    assert size.sizes(HERE) == {
        size.LOOSE: size.Size(10, 1), "cli": size.Size(25, 2), "runs": size.Size(0, 1),
    }  # fmt: skip


def test_a_change_is_shown_where_there_is_one_and_gone_packages_share_a_row() -> None:
    then = {"units.py": 10, "cli/main.py": 28, "core/a.py": 3, "engine/b.py": 4}
    rows = [line.split() for line in size.table(size.sizes(HERE), size.sizes(then))]
    assert rows == [
        ["src/andon", "lines", "files"],
        ["(modules)", "10", "1"],
        ["cli", "25", "-3", "2", "+1"],
        ["runs", "0", "1", "+1"],
        ["(gone)", "0", "-7", "0", "-2", "core,", "engine"],
        ["total", "35", "-10", "4"],
    ]


def test_without_a_commit_to_compare_with_there_are_no_changes() -> None:
    lines = size.table(size.sizes(HERE), None)
    assert not any(sign in line for line in lines for sign in "+-")
    assert lines[-1].split() == ["total", "35", "4"]


def test_here_is_counted_what_lies_here() -> None:
    found = size.lines_here()
    assert found["units.py"] > 100
    assert not any(path.startswith("src") for path in found)
