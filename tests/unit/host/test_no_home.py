"""A user without a home, as in a container, and `~` of a user who does not exist."""

import os
import pwd
from pathlib import Path

import pytest

from andon.app.settings import load_settings
from andon.errors import AndonError, Gone, Invalid
from andon.estimate.files import model_facts
from andon.host.state.user_folder import config_path, state_folder
from andon.jobs.file import specs_of
from andon.jobs.rules.file import jobs_in
from andon.node import server

NO_ONE = "~no-such-user-here/x"


@pytest.fixture
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "ANDON_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.mark.usefixtures("no_home")
def test_without_a_home_nothing_lies_in_the_current_folder() -> None:
    assert state_folder() == Path("/.local/state/andon")
    assert config_path() in (None, Path("/etc/andon/andon.toml"))
    assert load_settings({}).settings.simulate == int(os.environ.get("ANDON_SIMULATE", "0"))


def test_the_folder_of_a_user_who_does_not_exist_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(Gone, match="no-such-user-here"):
        model_facts(NO_ONE, {})
    with pytest.raises(AndonError):
        server._given(NO_ONE)
    [job] = jobs_in({"command": ["true"], "folder": NO_ONE}, "job.toml", {})
    with pytest.raises(Invalid, match="is not a folder"):
        specs_of(job, tmp_path)


def test_a_damaged_cache_of_models_is_one_line(tmp_path: Path) -> None:
    config = tmp_path / "models--a--b-8b" / "snapshots" / "1" / "config.json"
    config.mkdir(parents=True)
    with pytest.raises(Invalid, match="not a regular file"):
        model_facts("a/b-8b", {"HF_HUB_CACHE": str(tmp_path)})
