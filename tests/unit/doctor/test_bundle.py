"""The archive for a bug report: bounded, the same for the same parts, without what is secret."""

import io
import tarfile

from andon.cli.commands.setup.bundle import archive
from andon.doctor.rules.bundle import MOST_BYTES, redacted_log, safe_parts
from tests.support.rows import rows

TOKEN = "s3cret-" + "x" * 36


def test_the_archive_depends_on_its_parts_alone() -> None:
    parts = safe_parts({"b.txt": "two\n", "a.txt": f"one {TOKEN}\n"}, [TOKEN, ""])
    packed = archive(parts)
    assert packed == archive(dict(parts))
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        members = tar.getmembers()
        assert [(m.name, m.mode, m.mtime, m.uid) for m in members] == [
            ("andon-report/a.txt", 0o600, 0, 0), ("andon-report/b.txt", 0o600, 0, 0),
        ]  # fmt: skip
        file = tar.extractfile(members[0])
        assert file is not None
        assert file.read() == b"one ***\n"


@rows("text, secrets, content", [
    (f"{TOKEN}{TOKEN}", [TOKEN], b"******"),
    (f"{TOKEN} and {TOKEN[:20]}", [TOKEN[:20], TOKEN], b"*** and ***"),  # the longest first
    ("a server", ["a"], b"a server"),  # too short to be one
    ("x" * (MOST_BYTES + 1), [], b"left out: it has 1000001 bytes\n"),
    ("\udcff", [], b"?"),
])  # fmt: skip
def test_secrets_are_hidden_wherever_they_stand(
    text: str, secrets: list[str], content: bytes
) -> None:
    assert safe_parts({"x": text}, secrets) == {"x": content}


def test_a_log_has_no_passwords_and_moves_no_cursor() -> None:
    assert "hunter" not in redacted_log("a\x1b[2Jb https://u:hunter2222@x/\nDB_PASSWORD=hunter2222")
    assert "\x1b" not in redacted_log("a\x1b[2Jb")
