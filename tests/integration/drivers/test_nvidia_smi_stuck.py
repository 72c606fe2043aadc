"""An nvidia-smi that not even SIGKILL ends: a real one, writing to a frozen file system."""

import json
import os
import select
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from andon.drivers.nvidia_smi.command import NoAnswer, SmiCommand
from tests.conftest import REPOSITORY, need


def test_a_command_that_cannot_be_killed_is_left_behind_and_not_joined(tmp_path: Path) -> None:
    need("unshare", "mount", "mkfs.ext4", "fsfreeze", "truncate")
    if os.geteuid() != 0:
        pytest.skip("mounting and freezing a file system needs root")
    command = ["unshare", "--mount", sys.executable, "-m", __name__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=120)
    assert done.returncode == 0, done.stderr
    first, second, state, third = json.loads(done.stdout)
    assert state == "D", "the command was not uninterruptible: this proves nothing"
    assert "has not responded for" in first
    assert "stuck in the kernel" in second
    assert third == "answered"


def main(scratch: Path) -> None:
    image, mount = scratch / "image", scratch / "mount"
    mount.mkdir()
    subprocess.run(["truncate", "-s", "16M", image], check=True)
    subprocess.run(["/usr/sbin/mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, mount], check=True)
    try:
        print(json.dumps(freeze_and_ask(scratch, mount)))
    finally:
        subprocess.run(["umount", mount], check=True)


def freeze_and_ask(scratch: Path, mount: Path) -> list[str]:
    script = scratch / "nvidia-smi"
    script.write_text(f"#!/bin/sh\necho $$ > {scratch}/pid\necho x > {mount}/stuck\n")
    script.chmod(0o755)
    command = SmiCommand(str(script))
    subprocess.run(["/usr/sbin/fsfreeze", "-f", mount], check=True)
    thaw = ["/usr/sbin/fsfreeze", "-u", str(mount)]
    rescue = threading.Timer(30.0, subprocess.run, (thaw,))
    rescue.start()
    try:
        answers = [ask(command), ask(command)]
        pid = int((scratch / "pid").read_text())
        answers.append(state_of(pid))
        ending = os.pidfd_open(pid)
    finally:
        rescue.cancel()
        subprocess.run(thaw, check=True)
    select.select([ending], [], [], 30.0)  # the killed one ends once it is let go
    return [*answers, ask(command)]


def ask(command: SmiCommand) -> str:
    command.allow(3.0)
    try:
        command.run()
    except NoAnswer as silent:
        return silent.reason
    return "answered"


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
