"""What a log-out does, in a systemd of the test's own: the facts and the scope that andon uses."""

from pathlib import Path

import pytest

from tests.integration.own_systemd import in_a_systemd

pytestmark = pytest.mark.timeout(300)  # a systemd starts and ends, on a machine that may be busy
KILLS = "KillUserProcesses=yes\nKillExcludeUsers=root"
START = r"""
cat > /tmp/start.py <<'X'
import subprocess, time
from andon.jobs.log_out import log_out_line, read_log_out, scope_prefix
facts = read_log_out()
print("facts", facts.kills, facts.lingering, facts.place.value, facts.can_scope)
print("says", log_out_line())
prefix = scope_prefix("andon-job-1")
print("scope", bool(prefix))
job = subprocess.Popen([*prefix, "sleep", "4242"], start_new_session=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
while job.poll() is None:  # until it runs: systemd may take its time
    found = subprocess.run(["pgrep", "-f", "^[^ ]*sleep 4242$"], stdout=subprocess.DEVNULL)
    if found.returncode == 0:
        break
    time.sleep(0.2)
else:
    print("it did not start:", job.returncode)
X
alive() { pgrep -f '^[^ ]*sleep 4242$' > /dev/null; }
gone() { ! alive; }
logged_out() {  # the session is closing and empty; in this cgroup hierarchy nobody tells systemd so
    for session in $(loginctl list-sessions --no-legend | awk '{print $1}'); do
        test "$(loginctl show-session --property=State --value $session)" = closing || return 1
    done
    ! cat /sys/fs/cgroup/systemd/user.slice/user-*.slice/session-*.scope/cgroup.procs | grep -q .
}
"""


@pytest.mark.parametrize("lingers", [True, False], ids=["lingering", "not lingering"])
def test_a_job_outlives_the_session_where_andon_says_so(tmp_path: Path, lingers: bool) -> None:
    script = START + ("loginctl enable-linger dora\n" if lingers else "")
    if lingers:
        script += "soon test -S /run/user/$(id -u dora)/systemd/private\n"
    script += r"""
login '$PYTHON -P /tmp/start.py'
soon logged_out
"""
    script += "alive && echo it lives\n" if lingers else "soon gone && echo it is gone\n"
    said = in_a_systemd(script, tmp_path, KILLS)
    assert f"facts True {lingers} session" in said, said
    assert f"scope {lingers}" in said, said
    if lingers:
        assert "says jobs keep running when you log out" in said, said
        assert "it lives" in said, said
    else:
        assert "says logging out ends your jobs (KillUserProcesses=yes)" in said, said
        assert "it is gone" in said, said
