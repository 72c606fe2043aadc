"""Which files of a folder are copied to a host."""

import subprocess
from pathlib import Path

import pytest

from andon.clusters.ssh import copying
from andon.errors import AndonError, Invalid

pytestmark = pytest.mark.process


def repository(folder: Path, *ignored: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(("git", "init", "-q", str(folder)), check=True)
    (folder / ".gitignore").write_text("\n".join(ignored))
    (folder / "a.py").write_text("x")
    return folder


def test_the_files_of_repositories_within_are_copied(tmp_path: Path) -> None:
    repository(tmp_path, "*.log")
    inner = repository(tmp_path / "lib", "data")
    (inner / "data").write_text("large")
    (tmp_path / "b.log").write_text("x")
    (tmp_path / "link").symlink_to(".")
    found = copying._checked(str(tmp_path))
    assert set(found) == {".gitignore", "a.py", "link", "lib/.gitignore", "lib/a.py"}


def test_what_git_ignores_is_not_copied_because_git_fails(tmp_path: Path) -> None:
    repository(tmp_path, "secret")
    (tmp_path / ".git/config").write_text("[")
    with pytest.raises(AndonError, match=r"git does not list .*bad config"):
        copying._checked(str(tmp_path))


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").touch()

    def refuse(path: str, *_: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("tarfile.bltn_open", refuse)
    with (tmp_path / "to").open("wb") as to, pytest.raises(Invalid, match="key cannot be copied"):
        copying._archive(to, str(tmp_path), ["key"])
