"""Files that `andon setup --system` writes: what is new, kept and removed, and what a unit has."""

from andon.host.rules.system_files import (
    MOST_LINES,
    FileChange,
    change_of,
    difference,
    filled,
    is_unedited,
    sealed,
    systemd_word,
)
from tests.support.rows import rows

OURS, OLDER = sealed("[Unit]\n"), sealed("[Unit]\nNice=5\n")


@rows("present, change, is_ours", [
    (None, FileChange.NEW, False),
    (OURS, FileChange.SAME, True),
    (OLDER, FileChange.UPDATE, True),  # of an earlier version, or another folder of andon
    (OURS + "Nice=5\n", FileChange.EDITED, False),
    (OURS.replace("Unit", "Install"), FileChange.EDITED, False),
    (OURS.removeprefix(OURS.splitlines()[0] + "\n"), FileChange.EDITED, False),  # no seal
    ("", FileChange.EDITED, False),
    ("[Unit]\n", FileChange.EDITED, False),  # an administrator's own of the same name
    (OLDER.splitlines()[0] + "\n[Unit]\n", FileChange.EDITED, False),
    (OURS.replace("\n", "\r\n"), FileChange.EDITED, False),
])  # fmt: skip
def test_only_what_nobody_edited_is_written_over_or_removed(
    present: str | None, change: FileChange, is_ours: bool
) -> None:
    assert change_of(present, OURS) is change
    assert is_unedited(present or "") is is_ours


def test_the_difference_has_the_edit_alone_and_an_end() -> None:
    assert difference("/etc/x", OURS + "Nice=5\n", OLDER + "User=me\n")[2:] == [
        "@@ -3 +2,0 @@", "-User=me",
    ]  # fmt: skip
    long = difference("/etc/x", OURS + "x=1\n" * 500, OURS)
    assert len(long) == MOST_LINES + 1
    assert long[-1].endswith("more lines")


@rows("word, written", [
    ("/opt/andon/bin/python", "/opt/andon/bin/python"),
    ("-P", "-P"),
    ("/srv/a b/python", '"/srv/a b/python"'),
    ("/srv/50%/python", "/srv/50%%/python"),
    ("/srv/$HOME/python", '"/srv/$$HOME/python"'),
    ('/srv/"a"/python', '"/srv/\\"a\\"/python"'),
    ("", '""'),
])  # fmt: skip
def test_a_path_is_one_word_of_a_unit(word: str, written: str) -> None:
    assert systemd_word(word) == written
    assert filled("ExecStart=@X@ serve\n", X=[word]) == f"ExecStart={written} serve\n"
