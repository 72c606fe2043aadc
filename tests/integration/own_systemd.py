"""A systemd of its own for a test: `in_a_systemd` runs a script as root of such a machine.

It runs in namespaces of its own, over a copy of the file system that is thrown away. On this
machine it makes one cgroup in the hierarchy of that name, which limits nothing, and removes it.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, need
from tests.integration.machine import NO_OVERLAY, closed_folders, hidden_folders
from tests.support.waiting import wait_for

HIERARCHY = Path("/sys/fs/cgroup/systemd")
SYSTEMD = Path("/lib/systemd/systemd")
PAM = Path("/usr/share/pam-configs/systemd")
BEFORE = r"""
set -e
echo $$ > "$CGROUP/cgroup.procs"
exec unshare --mount --pid --fork --kill-child --uts --ipc --net --cgroup --propagation private \
    bash -c "$MACHINE"
"""
MACHINE = rf"""
set -e
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
R=/mnt/root
options=lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work
mount -t overlay -o $options overlay $R || exit {NO_OVERLAY}
mount -t proc proc $R/proc
printf '#subsys_name\thierarchy\tnum_cgroups\tenabled\n' > /mnt/controllers
mount --bind /mnt/controllers $R/proc/cgroups  # none: it must not touch this machine's
mount -t tmpfs -o mode=755 tmpfs $R/dev
for name in null zero full random urandom tty; do
    touch $R/dev/$name; mount --bind /dev/$name $R/dev/$name
done
mkdir $R/dev/shm $R/dev/pts
mount -t tmpfs -o mode=1777 tmpfs $R/dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts $R/dev/pts
ln -s pts/ptmx $R/dev/ptmx; ln -s /proc/self/fd $R/dev/fd
mount -t tmpfs -o mode=755 tmpfs $R/run
mount -t tmpfs -o mode=1777 tmpfs $R/tmp
for folder in $HIDDEN; do mkdir -p $R$folder; mount --bind $folder $R$folder; done
mount -t sysfs -o ro sysfs $R/sys
mount -t tmpfs -o mode=755 tmpfs $R/sys/fs/cgroup
mkdir $R/sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup $R/sys/fs/cgroup/systemd
mkdir -p $R/srv $R/etc/systemd/system $R/etc/systemd/logind.conf.d
mount --bind "$SHARED" $R/srv
for folder in $CLOSED; do chmod o+x $R$folder; done
printf '%s' "$LOGIND" > $R/etc/systemd/logind.conf.d/90-test.conf
cat > $R/etc/systemd/system/test.target <<X
[Unit]
Wants=dbus.socket systemd-logind.service test.service
X
cat > $R/etc/systemd/system/test.service <<X
[Unit]
Requires=dbus.socket systemd-logind.service
After=dbus.socket systemd-logind.service
[Service]
Type=oneshot
ExecStart=/bin/bash /srv/script
StandardOutput=file:/srv/said
StandardError=file:/srv/said
TimeoutStartSec=160
ExecStopPost=/bin/touch /srv/done
X
exec chroot $R env -i container=test PATH=$PATH {SYSTEMD} --unit=test.target --show-status=no \
    --log-target=null systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=1
"""
PREPARE = r"""
set -e
useradd -m dora
PYTHON=%(python)s
export PYTHONPATH=%(source)s
login() { su - dora -c "export PYTHONPATH=$PYTHONPATH PYTHON=$PYTHON; $*"; }
soon() { for i in $(seq 300); do "$@" > /dev/null 2>&1 && return; sleep 0.2; done; "$@"; }
"""


def in_a_systemd(script: str, folder: Path, logind: str = "") -> str:
    """What the script printed. `login COMMAND` is a session of the user dora that logs out after
    it; `soon COMMAND` repeats a command until it succeeds. `logind` are settings of its logind."""
    if os.geteuid() != 0:
        pytest.skip("a systemd of its own needs root")
    need("unshare", "mount", "su", "systemd-run", "loginctl", "dbus-daemon")
    for path in (SYSTEMD, PAM, HIERARCHY / "cgroup.procs"):
        if not path.exists():
            pytest.skip(f"a systemd of its own needs {path}")
    prepared = PREPARE % {"python": sys.executable, "source": REPOSITORY / "src"}
    (folder / "script").write_text(prepared + script)
    cgroup = HIERARCHY / f"andon-test-{os.getpid()}-{folder.name}"
    cgroup.mkdir()
    process = subprocess.Popen(
        ["bash", "-c", BEFORE],
        env={
            "PATH": os.environ["PATH"],
            "CGROUP": str(cgroup),
            "MACHINE": MACHINE,
            "SHARED": str(folder),
            "CLOSED": closed_folders(),
            "HIDDEN": hidden_folders(),
            "LOGIND": f"[Login]\n{logind}\n",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        wait_for(lambda: (folder / "done").exists() or process.poll() is not None, 170.0)
    finally:
        process.send_signal(signal.SIGKILL)  # its systemd goes with it
        output = process.communicate()[0].decode(errors="replace")
        wait_for(lambda: _is_removed(cgroup), 30.0)
    if process.returncode == NO_OVERLAY:
        pytest.skip("there is no overlay file system")
    assert (folder / "done").exists(), output
    return (folder / "said").read_text(errors="replace")


def _is_removed(cgroup: Path) -> bool:
    """Its processes end a moment after the namespace's first."""
    try:
        for path in sorted(cgroup.rglob("*/"), reverse=True):
            if path.is_dir():
                path.rmdir()
        cgroup.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
