"""The agent as a service of a real systemd: a hub that refuses its token does not end it."""

import re
from pathlib import Path

import pytest

from tests.integration.agent_unit import HUB
from tests.integration.own_systemd import in_a_systemd

pytestmark = pytest.mark.timeout(300)  # a systemd starts and ends, on a machine that may be busy
TRIED = r"""
systemctl daemon-reload
systemctl start andon-agent
soon grep -q refused /srv/agent
systemctl show --property=ActiveState --property=NRestarts andon-agent
touch /tmp/known
soon grep -q "Heartbeat sent" /srv/agent
systemctl show --property=ActiveState --property=NRestarts andon-agent
systemctl stop andon-agent
"""


def test_a_refused_agent_goes_on_and_reports_once_its_token_is_known(tmp_path: Path) -> None:
    said = in_a_systemd(HUB + TRIED, tmp_path)
    assert re.findall(r"NRestarts=(\d+)", said) == ["0", "0"], said
    assert re.findall(r"ActiveState=(\w+)", said) == ["active", "active"], said
