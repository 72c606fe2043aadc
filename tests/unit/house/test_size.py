"""`dev/size`: what is counted as which package, and how changes are shown."""

from dev import size

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
