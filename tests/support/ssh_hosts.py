"""Hosts for `--ssh` on loopback: an sshd for each, with its own key, home and PATH, and an `ssh`
that knows only them."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.nvidia_smi import H200

SSHD = "/usr/sbin/sshd"
SSH = shutil.which("ssh") or "ssh"
ANDON = f"#!{sys.executable}\nimport sys\nfrom andon.cli.entry import main\nsys.exit(main())\n"
"""As it is installed."""
SMI = "#!/bin/sh\ncat <<'END'\n%s\nEND\n"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


class SshHosts:
    """Makes hosts in a folder; each listens on a port of its own."""

    def __init__(self, folder: Path, first_port: int) -> None:
        self.folder, self._port = folder, first_port
        self._configuration = [f"UserKnownHostsFile {folder}/known", "StrictHostKeyChecking yes",
                               f"IdentityFile {folder}/me", "IdentitiesOnly yes",
                               "GlobalKnownHostsFile none"]  # fmt: skip
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        self.variables: dict[str, dict[str, str]] = {}
        self.inside: Sequence[str] = ()  # what sshd is started by, such as nsenter
        folder.mkdir(parents=True, exist_ok=True)
        Path("/run/sshd").mkdir(parents=True, exist_ok=True)  # without it sshd does not start
        for name in ("me", "host", "other"):
            self._key(name)
        (folder / "authorized").write_text((folder / "me.pub").read_text())
        (folder / "authorized").chmod(0o600)
        (folder / "known").touch()
        self.bin = folder / "bin"
        self.bin.mkdir(exist_ok=True)
        self.script(self.bin / "ssh", f'#!/bin/sh\nexec {SSH} -F "{folder}/config" "$@"\n')
        self._write()

    def environment(self) -> dict[str, str]:
        """What a command needs in order to reach them."""
        return {"PATH": f"{self.bin}:{os.environ['PATH']}"}

    def surroundings(self) -> dict[str, str]:
        """The environment of a command here, with folders of its own."""
        folder = self.folder / "here"
        return {
            **os.environ, **self.environment(), "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"), "ANDON_LEASE_DIR": str(folder / "book"),
            "ANDON_PORT": "28999", "COLUMNS": "110",
        }  # fmt: skip

    @contextmanager
    def begun(
        self, *words: str, inside: Sequence[str] = (), on: str | None = None
    ) -> "Iterator[subprocess.Popen[str]]":
        """A command here while it runs, or as if it were typed on a host."""
        with subprocess.Popen(
            [*inside, sys.executable, "-m", "andon.cli", *words], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
            env=self.surroundings() | (self.variables[on] if on else {}),
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()

    def cut(self, name: str) -> None:
        """Ends the sessions of a host's sshd, which itself goes on."""
        server = self._servers[name].pid
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        for child in children:
            for one in (*Path(f"/proc/{child}/task/{child}/children").read_text().split(), child):
                if b"sshd" in Path(f"/proc/{one}/cmdline").read_bytes():
                    os.kill(int(one), signal.SIGKILL)

    def script(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def home(self, name: str) -> Path:
        return self.folder / f"home-{name}"

    def add(
        self, name: str, *options: str, andon: str = "path", key: str = "host",
        environment: Mapping[str, str] | None = None, port: int | None = None, listens: bool = True,
    ) -> int:  # fmt: skip
        """Adds a host; `andon`: where it is there, or `smi`, or `nothing`."""
        home = self.home(name)
        own = home / "bin"
        own.mkdir(parents=True)
        if andon == "path":
            self.script(own / "andon", ANDON)
        elif andon == "local":
            self.script(home / ".local/bin/andon", ANDON)
        elif andon == "smi":
            self.script(own / "nvidia-smi", SMI % H200)
        found = port or self._free_port()
        self.alias(name, found, "host" if key == "host" else "other")
        variables = self.variables[name] = {
            "HOME": str(home), "PATH": f"{own}:{SYSTEM_PATH}", "ANDON_SIMULATE": "4",
            "XDG_STATE_HOME": str(home / "state"), "ANDON_LEASE_DIR": f"{self.folder}/book-{name}",
            "ANDON_PORT": "28998", "ANDON_NODE": name, **(environment or {}),
        }  # fmt: skip
        setting = " ".join(f'{key}="{value}"' for key, value in variables.items())
        written = self.folder / f"sshd-{name}"
        written.write_text(
            f"Port {found}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host\n"
            f"AuthorizedKeysFile {self.folder}/authorized\nPidFile none\nStrictModes no\n"
            "UsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nMaxStartups 500\n"
            f"SetEnv {setting}\n" + "".join(f"{option}\n" for option in options)
        )
        if listens:
            self.start(name, found)
        return found

    def start(self, name: str, port: int) -> None:
        with (self.folder / f"log-{name}").open("wb") as log:
            self._servers[name] = subprocess.Popen(
                [*self.inside, SSHD, "-D", "-e", "-f", str(self.folder / f"sshd-{name}")],
                stderr=log,
            )
        if not self.inside:
            _wait_for(port)

    def port(self, name: str) -> int:
        text = (self.folder / f"sshd-{name}").read_text()
        return int(text.partition("Port ")[2].partition("\n")[0])

    def pid(self, name: str) -> int:
        return self._servers[name].pid

    def stop(self, name: str) -> None:
        server = self._servers.pop(name)
        server.terminate()
        server.wait()

    def cpu_seconds(self) -> float:
        """CPU time of every sshd and of the sessions that have ended."""
        lines = [Path(f"/proc/{one.pid}/stat").read_text() for one in self._servers.values()]
        ticks = sum(int(tick) for line in lines for tick in line.rpartition(")")[2].split()[11:15])
        return ticks / os.sysconf("SC_CLK_TCK")

    def alias(self, name: str, port: int, key: str = "host", *options: str) -> None:
        """Adds a name for a port, which the configuration of ssh then knows."""
        self._configuration += [f"Host {name}", "  HostName 127.0.0.1", f"  Port {port}",
                                f"  HostKeyAlias {name}", "  User root", *options]  # fmt: skip
        public = (self.folder / f"{key}.pub").read_text()
        with (self.folder / "known").open("a") as known:
            known.write(f"{name} {public}")
        self._write()

    def close(self) -> None:
        for name in list(self._servers):
            with suppress(ProcessLookupError):
                self.stop(name)

    def _write(self) -> None:
        (self.folder / "config").write_text("\n".join(self._configuration) + "\n")

    def _key(self, name: str) -> None:
        if not (self.folder / name).exists():
            words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name))
            subprocess.run(words, check=True)

    def _free_port(self) -> int:
        import socket

        while True:
            self._port += 1
            with socket.socket() as one, suppress(OSError):
                one.bind(("127.0.0.1", self._port))
                return self._port


def _wait_for(port: int) -> None:
    import socket

    until = time.monotonic() + 10
    while time.monotonic() < until:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise TimeoutError(f"no sshd on port {port}")


def andon(
    hosts: SshHosts, *words: str, inside: Sequence[str] = (), **more: str
) -> "subprocess.CompletedProcess[str]":
    """Runs a command here, whose ssh knows only these hosts."""
    return subprocess.run(
        [*inside, sys.executable, "-m", "andon.cli", *words], capture_output=True, text=True,
        timeout=90, env={**hosts.surroundings(), **more}, check=False,
    )  # fmt: skip


@contextmanager
def silent_port() -> Iterator[int]:
    """A port that takes connections and never answers, as a host that is switched off does."""
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen(512)
        yield one.getsockname()[1]


def running_ssh(hosts: SshHosts) -> list[int]:
    """The processes of ssh that were started with the configuration of these hosts."""
    mine, found = str(hosts.folder / "config").encode(), list[int]()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and mine in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def command_line(word: str) -> list[int]:
    """The processes that have this word on their command line."""
    found = list[int]()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdecimal() else ()
            if word.encode() in words:
                found.append(int(entry.name))
    return found
