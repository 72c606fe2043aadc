"""What another user of the machine says: the kernel quotes it, and his processes carry it."""

import os
import subprocess
from pathlib import Path

import pytest

from andon.host.kernel_log import KernelLog
from tests.conftest import need

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
FORGED = "NVRM: Xid (PCI:0000:f0:00): 79"


def quoted_by_the_kernel(words: str) -> None:
    """As nobody: a mount that fails, in namespaces of its own, leaves these words in the log."""
    mount = ["mount", "-t", "tmpfs", "-o", words, "x", "/tmp"]
    subprocess.run([*NOBODY, "unshare", "-Urm", *mount], capture_output=True, check=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="reading the kernel's log as root, forging as nobody")
def test_nobody_forges_an_xid_in_this_machines_own_log() -> None:
    need("setpriv", "unshare", "mount")
    log, seen = KernelLog(Path("/")), KernelLog(Path("/"))
    assert log.reason is None
    for words in (FORGED, f"a\n{FORGED}", f"\n3,1,1,-;{FORGED}"):
        quoted_by_the_kernel(words)
    records = "\n".join(seen._records())
    seen.close()
    if FORGED not in records:
        pytest.skip("no user namespaces here: the kernel quotes nobody")
    assert log.read() == []
    log.close()
