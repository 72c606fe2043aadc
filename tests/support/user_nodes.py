"""The contract of nodes for root's server as one of its users asks it: `python -m
tests.support.user_nodes ROLE` as root of a machine of its own, which prints what fails."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from andon.app.node import NodeChoice, find_node
from andon.app.settings import load_settings
from andon.node.port import Node
from tests.support.node_contract import NodeContract, failures
from tests.support.role_servers import as_user, server_of_root


class OfUser(NodeContract):
    """What it changes is signed in for: the kernel says who asks."""

    def lease(self, node: Node) -> str:
        return os.environ["LEASE"]


def main(role: str) -> None:
    user = "root" if role == "token" else role
    with server_of_root(Path(tempfile.mkdtemp())) as server:
        given = {"SERVER": server.served.url, "LEASE": server.lease(role)[0]}
        done = subprocess.run(
            as_user(user, None, "-m", __spec__.name),
            capture_output=True, text=True, env={**os.environ, **given}, check=False,
        )  # fmt: skip
    print(f"@@failures\n{done.stdout or json.dumps(done.stderr)}\n@@")


def as_one_user() -> None:
    node = find_node(NodeChoice(url=os.environ["SERVER"]), load_settings({}).settings)
    print(json.dumps(failures(OfUser, node)))


if __name__ == "__main__":
    main(sys.argv[1]) if sys.argv[1:] else as_one_user()
