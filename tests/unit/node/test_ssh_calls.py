"""One ssh, and what a host may make of the script that it is sent."""

from pathlib import Path

import pytest

from andon.errors import AndonError
from andon.node.ssh.client import SshHost

pytestmark = pytest.mark.process

HOST = r"""#!/bin/sh
read -r _; read -r _; read -r line
nonce=${line##* }
printf '\n%s begin\n' "$nonce"
printf '\n%s andon\n' "$nonce"
printf '{"andon": "1"}\n{"code": 0, "out": {"name": "x"}}\n'
printf '\n%s end %s\n' "$nonce" "CODE"
"""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ssh that answers as a host would, with any exit code."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path / "ssh"


@pytest.mark.parametrize("code", ["9" * 5000, "²", "٣", "-1", "", "0"])
def test_an_exit_code_of_any_length_costs_nothing(host: Path, code: str) -> None:
    host.write_text(HOST.replace("CODE", code), encoding="utf-8")
    host.chmod(0o755)
    assert SshHost("lab").object(("status",)) == {"name": "x"}


def test_a_code_in_json_of_any_length_is_a_failure_there(host: Path) -> None:
    there = HOST.replace('"code": 0, "out": {"name": "x"}', f'"code": {"9" * 5000}')
    host.write_text(there.replace("CODE", "0"), encoding="utf-8")
    host.chmod(0o755)
    with pytest.raises(AndonError, match="not in JSON"):
        SshHost("lab").object(("status",))
