"""`andon doctor --bundle`: secrets are planted everywhere, and looked for in the archive."""

import stat
import tarfile
from pathlib import Path

import pytest

from andon.cli.main import run
from andon.errors import Conflict, Unavailable
from tests.integration.conftest import andon
from tests.integration.serving import serving
from tests.support.disks import file_limit

SECRETS = {
    "token": "T" + "0k" * 21, "hub": "H" + "0k" * 21, "variable": "V" + "0k" * 21,
    "address": "https://hooks.example.org/services/S3CRETHOOK", "password": "dbpassS3CRET",
    "header": "Bearer S3CRETHEADER", "line": "hunter2S3CRET", "log": "logpassS3CRET",
}  # fmt: skip
CONFIG = f"""
[[alerts.notifier]]
name = "hook"
kind = "webhook"
url = "{SECRETS["address"]}"
headers = {{ Authorization = "{SECRETS["header"]}" }}
[[alerts.notifier]]
name = "script"
kind = "command"
command = ["/bin/true", "--password={SECRETS["line"]}"]
"""


def contents(file: Path) -> dict[str, str]:
    with tarfile.open(file) as tar:
        opened = {one.name.rpartition("/")[2]: tar.extractfile(one) for one in tar}
        return {name: part.read().decode() for name, part in opened.items() if part is not None}


def test_no_secret_and_no_command_line_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, config, file = tmp_path / "state", tmp_path / "andon.toml", tmp_path / "report.tar.gz"
    config.write_text(CONFIG)
    with serving(state, "--store", f"sqlite:{tmp_path}/h.db") as server:
        (state / "andon/token").read_text()
        node = next((state / "andon/nodes").iterdir())
        (node / "jobs").mkdir(exist_ok=True)
        (node / "jobs/dispatcher.log").write_text(
            f"job 1: mysql --password={SECRETS['log']}\ntoken {server.token}\nwent on\n"
        )
        (node / "hub-token").write_text(SECRETS["hub"] + "\n")
        (node / "hub-token").chmod(0o600)
        for name, value in {
            "XDG_STATE_HOME": str(state), "ANDON_CONFIG": str(config), "ANDON_SIMULATE": "2",
            "ANDON_TOKEN": SECRETS["variable"], "ANDON_PORT": str(server.port),
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        done = andon("doctor", "--bundle", str(file))
        assert file.exists(), done.err
        found = contents(file)
        assert list(found) == sorted(found)
        assert {"doctor.json", "settings.json", "snapshot.json", "versions.json"} < set(found)
        assert "dispatcher.log" in found
        assert "health.json" in found
        assert "went on" in found["dispatcher.log"]
        for secret in (*SECRETS.values(), server.token):
            assert [name for name, text in found.items() if secret in text] == []
        assert '"command":null' in found["snapshot.json"].replace(" ", "")
        assert "train.py" not in found["snapshot.json"]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert [name for name in found if name not in done.out] == []
        again = andon("doctor", "--bundle", str(file))
        assert again.code == Conflict.exit_code


def test_wrong_settings_are_in_it_without_their_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, file = tmp_path / "andon.toml", tmp_path / "report.tar.gz"
    config.write_text(f'{CONFIG}[history]\nstore = "postgresql://me:{SECRETS["password"]}@db/x"\n')
    monkeypatch.setenv("ANDON_CONFIG", str(config))
    monkeypatch.setenv("ANDON_SIMULATE", "1")
    assert run(["doctor", "--bundle", str(file)]) in (0, 1, 3)
    found = contents(file)
    assert "has a password" in found["doctor.json"]
    assert [n for n, text in found.items() for one in SECRETS.values() if one in text] == []


def test_a_full_disk_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDON_SIMULATE", "1")
    folder = tmp_path / "here"
    folder.mkdir()
    with file_limit(512):
        assert run(["doctor", "--bundle", str(folder / "x.tar.gz")]) == Unavailable.exit_code
    assert "File too large" in capsys.readouterr().err
    assert list(folder.iterdir()) == []
