"""Root does not take the settings of the user whose home it happens to have."""

import os
import stat
from pathlib import Path

import pytest

from andon.app import settings
from tests.support.replaced import answers

TEXT = '[sampling]\ninterval = "3s"\n'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "andon" / "andon.toml"
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


def as_if(monkeypatch: pytest.MonkeyPatch, *, caller: int, owner: int) -> None:
    """This process has another user, and every file another owner."""
    real = Path.stat

    def owned(path: Path, **options: bool) -> os.stat_result:
        fields = list(real(path, **options))
        fields[stat.ST_UID] = owner
        return os.stat_result(fields)

    answers(monkeypatch, os, "geteuid", caller)
    monkeypatch.setattr(Path, "stat", owned)


@pytest.mark.parametrize(
    ("caller", "owner", "is_read"),
    [(0, 0, True), (0, 1234, False), (1234, 1234, True), (1234, 0, True), (1234, 4321, True)],
)
def test_root_reads_its_own_settings_and_says_so_of_others(
    file: Path, monkeypatch: pytest.MonkeyPatch, caller: int, owner: int, is_read: bool
) -> None:
    as_if(monkeypatch, caller=caller, owner=owner)
    found = settings.load_settings({})
    assert (found.settings.interval_seconds == 3.0) is is_read
    assert [str(file) in warning for warning in found.warnings] == [True] * (not is_read)


def test_a_file_that_is_named_is_meant(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_if(monkeypatch, caller=0, owner=1234)
    monkeypatch.setenv("ANDON_CONFIG", str(file))
    found = settings.load_settings({})
    assert found.settings.interval_seconds == 3.0
    assert found.warnings == ()
