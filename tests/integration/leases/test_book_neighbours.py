"""A user who wants to harm the others, as another uid, on a machine of its own.

Everything runs in mount and pid namespaces over a copy of the file system that is thrown away:
nothing of this machine is written to, and nothing runs on when a script ends.
"""

import pytest

from andon.host.users import user_name
from tests.integration.machine import on_a_machine

# Findings 3 and 4: one small file.

POISON = """
import fcntl, json, os, time
from pathlib import Path
from andon.host.processes.kin import myself
from andon.model import lease_wire
from andon.model.codec import document
from andon.model.lease import Lease, LeaseKind, Share, Work
leases, tickets = Path("/run/andon/leases"), Path("/run/andon/tickets")
[victim] = leases.glob("*.lease")
share, kept = Share("SIM-0", 0), []
for number, group in enumerate((2**62, 2**31, -1, 0, 1)):
    made = Lease("evil", (share,), myself(), LeaseKind.COMMAND, 1.0, 1, work=Work(9, 9, group))
    text = json.dumps(document(made)) + "\\n"
    (leases / f"evil-{number}.lease").write_text(text)
for name in (victim.name, victim.name.replace(".lease", ".ticket")):
    kept.append((tickets / name).open("wb"))
    kept[-1].write(b"x" * victim.stat().st_size)
    kept[-1].flush()
    (tickets / name).with_suffix(".awake").touch()
    fcntl.flock(kept[-1], fcntl.LOCK_EX)
print("ready", flush=True)
time.sleep(600)
"""


def test_no_command_of_another_user_ends_in_a_traceback() -> None:
    simulated = ("leases", "free", "status", "ps", "who", "run --no-wait -- true", "wait --no-wait")
    named = [command.partition(" ") for command in simulated]
    commands = [f"{name} --simulate 8 {options}" for name, _, options in named]
    lines = [f"{uid} {command}" for uid in (1001, 0) for command in (*commands, "release evil")]
    said = on_a_machine(
        """
andon setup >/dev/null
hold 1000 /run/andon
user 65534 "$PYTHON" -P -c "$POISON" >/tmp/said &
for i in $(seq 1600); do grep -q ready /tmp/said && break; sleep 0.05; done
grep ready /tmp/said
forked <<X
$COMMANDS
X
""",
        POISON=POISON,
        COMMANDS="\n".join((*lines, "1000 leases --simulate 8")),
    )
    assert said.splitlines().count("exited 0") == 15, said
    assert "Traceback" not in said, said
    assert said.count("there is no lease 'evil'") == 2
    assert "sleep 60" in said, "the honest lease is listed"


# A book in /tmp/andon that another user made.

FORGE_BOOK = """
import os
from andon.leases.book.lease_book import Book
from andon.model.lease import Cordon, Need, Owner, Ticket
os.environ["ANDON_LEASE_DIR"] = "/tmp/andon"
book = Book()
for index in range(8):
    book.cordon(Cordon(f"SIM-{index}", 1.0, "root", "hardware fault, do not use"))
held = book.write_ticket(Ticket("evil", Owner(0, "root", 5, 1, 1), Need(frozenset()), 999, 0.0))
print("ready", flush=True)
import time; time.sleep(600)
"""


def test_where_root_has_set_up_a_book_another_users_decides_nothing() -> None:
    said = on_a_machine(
        """
andon setup >/dev/null
user 65534 mkdir /tmp/andon
take 0; take 1000; echo without-parts
user 65534 chmod 700 /tmp/andon
take 0; take 1000; echo unreadable
user 65534 chmod 755 /tmp/andon
user 65534 "$PYTHON" -P -c "$FORGE_BOOK" >/tmp/said &
for i in $(seq 1600); do grep -q ready /tmp/said && break; sleep 0.05; done
grep ready /tmp/said
take 0; take 1000; echo forged
user 1000 "$PYTHON" -P -m andon.cli free --simulate 8
""",
        FORGE_BOOK=FORGE_BOOK,
    )
    assert all(word in said for word in ("without-parts", "unreadable", "ready", "forged"))
    assert "cordoned" not in said
    assert "is ignored" not in said


def test_the_book_of_another_user_is_left_out_once_root_has_set_one_up() -> None:
    code = "from andon.leases.book import places as p; print(p.books({}))"
    said = on_a_machine(
        """
user 65534 mkdir /tmp/andon
"$PYTHON" -P -c "$LIST"
andon setup >/dev/null
"$PYTHON" -P -c "$LIST"
rmdir /tmp/andon; mkdir /tmp/andon
"$PYTHON" -P -c "$LIST"
""",
        LIST=code,
    ).splitlines()
    assert said[0] == "(PosixPath('/tmp/andon'),)"
    assert said[1] == "(PosixPath('/run/andon'),)"
    assert said[2] == "(PosixPath('/run/andon'), PosixPath('/tmp/andon'))"


def test_without_roots_book_the_first_users_is_that_of_the_machine() -> None:
    said = on_a_machine("""
hold 1000 /tmp/andon
stat -c 'owner %u' /tmp/andon
user 1001 "$PYTHON" -P -m andon.cli run --simulate 2 --gpus 2 --no-wait -- true || echo refused $?
""")
    assert "owner 1000" in said
    assert "held by lease" in said
    assert "refused" in said


def test_a_book_of_ones_own_from_before_the_setup_is_still_read() -> None:
    said = on_a_machine("""
hold 1000 /tmp/andon
andon setup
user 1000 "$PYTHON" -P -m andon.cli leases --simulate 2
""")
    assert f"/tmp/andon of {user_name(1000)} is no longer used; it still has 1 lease" in said
    assert "sleep 60" in said


def test_root_changes_nothing_in_a_book_of_another_users() -> None:
    """Its owner could put a link to anything where root is about to change a mode."""
    said = on_a_machine("""
book /tmp/andon; chown -R 65534:65534 /tmp/andon; chmod 755 /tmp/andon/leases
take 0 || echo refused
stat -c '%a %u' /tmp/andon/leases
rmdir /tmp/andon/leases
take 0 || echo refused
ls /tmp/andon | tr '\\n' ' '
""")
    assert said.count("refused") == 2
    assert "755 65534" in said
    assert "cordons tickets" in said


# Findings 13 and 14: many files.

FILL = """
import json
from andon.host.processes.kin import myself
from andon.model import lease_wire
from andon.model.codec import document
from andon.model.lease import Lease, LeaseKind, Share, Work
for number in range(9000):
    for part in ("leases", "tickets"):
        open(f"/tmp/andon/{part}/.hidden{number}", "w").close()
    made = Lease("evil", (Share("SIM-0", 0),), myself(), LeaseKind.COMMAND, 1.0, 1,
                 work=Work(5, 1, 2 + number))
    with open(f"/tmp/andon/leases/evil-{number}.lease", "w") as file:
        file.write(json.dumps(document(made)) + "\\n")
"""


def test_thousands_of_files_of_one_user_keep_nobody_from_a_lease_and_setup_removes_them() -> None:
    said = on_a_machine(
        """
book /tmp/andon
user 65534 "$PYTHON" -P -c "$FILL"
take 1000; echo taken
user 1000 "$PYTHON" -P -m andon.cli leases --simulate 8
andon setup
ls -A /tmp/andon/leases /tmp/andon/tickets | grep -c -e hidden -e evil || true
""",
        FILL=FILL,
    )
    assert "taken" in said
    assert "7976 files of nobody ignored: too many from one user" in said
    assert "/tmp/andon: removed 27000 unused files" in said
    assert said.splitlines()[-1] == "0"


LEAVE = """
import os, subprocess
from msgspec.structs import replace
from andon.host.processes.kin import myself, started_ticks
from andon.leases.book.lease_book import Book
from andon.model.lease import Lease, LeaseKind, Share, Work
work = subprocess.Popen(["sleep", "60"], process_group=0)
kept = Lease("kept", (Share("SIM-9", 9),), myself(), LeaseKind.COMMAND, 1.0, 1,
             work=Work(work.pid, started_ticks(work.pid), work.pid))
for one in (kept, replace(kept, id="dead", work=None)):
    Book().write_lease(one).hold.close()
os.mkfifo("/run/andon/leases/pipe.lease")
os.symlink("/etc/passwd", "/run/andon/leases/link.lease")
"""


def test_setup_leaves_what_is_held_and_what_still_works() -> None:
    said = on_a_machine(
        """
andon setup >/dev/null
hold 1000 /run/andon
user 1000 "$PYTHON" -P -c "$LEAVE"
andon setup | grep removed
ls /run/andon/leases | cut -d- -f1 | grep -v -e kept | wc -l
ls /run/andon/leases | cut -d- -f1 | tr '\\n' ' '
test -e /etc/passwd
""",
        LEAVE=LEAVE,
    )
    assert "/run/andon: removed 3 unused files" in said
    assert "kept " in said
    assert "dead " not in said
    assert "1" in said.splitlines(), "the lease that is held"


def test_setup_follows_no_link_out_of_a_book() -> None:
    said = on_a_machine("""
mkdir -p /tmp/precious/leases /tmp/precious/tickets; echo 1 >/tmp/precious/leases/thesis
chown -R 1000:1000 /tmp/precious
user 65534 ln -s /tmp/precious /tmp/andon
andon setup
for words in leases free who; do user 1000 "$PYTHON" -m andon.cli $words --simulate 1 || true; done
user 65534 rm /tmp/andon; user 65534 mkdir /tmp/andon
user 65534 ln -s /tmp/precious/leases /tmp/andon/leases
andon setup
ls /tmp/precious/leases
""")
    assert said.splitlines()[-1] == "thesis"


# Leases that name another user's process, and folders that are no book.

FORGE_WORK = """
import sys
from andon.host.processes.kin import myself
from andon.leases.book.lease_book import Book
from andon.model.lease import Lease, LeaseKind, Share, Work
shares = tuple(Share(f"GPU-{n}", n) for n in range(8))
made = Lease("evil", shares, myself(), LeaseKind.COMMAND, 1.0, 1, work=Work(9, 9, int(sys.argv[1])))
Book().write_lease(made).hold.close()
print([entry.user for entry in Book().entries() if entry.left])
"""


def test_another_users_work_named_in_a_file_withholds_nothing() -> None:
    said = on_a_machine(
        """
andon setup >/dev/null
user 1000 setsid sleep 60 &
for i in $(seq 1600); do victim=$(pgrep -u 1000 -x sleep) && break; sleep 0.05; done
user 65534 "$PYTHON" -P -c "$FORGE_WORK" $victim
user 1000 "$PYTHON" -P -c "$FORGE_WORK" $victim
""",
        FORGE_WORK=FORGE_WORK,
    ).splitlines()
    assert said[:2] == ["[]", f"['{user_name(1000)}']"]


@pytest.mark.parametrize("folder", ["/", "/tmp", "/etc"])
def test_a_folder_that_is_no_book_is_refused_and_left_as_it_is(folder: str) -> None:
    said = on_a_machine(f"""
mkdir /tmp/state /tmp/state1000; chown 1000 /tmp/state1000
before=$(ls -A {folder}; stat -c %a {folder})
export ANDON_LEASE_DIR={folder}
take 0 || echo refused $?
take 1000 || echo refused $?
after=$(ls -A {folder} | grep -v '^state0'; stat -c %a {folder})
test "$before" = "$after" && echo unchanged
""")
    assert said.count("refused 125") == 2
    assert "chmod" not in said
    assert "unchanged" in said


# A place in the queue that is never used.

IDLE = """
import json, sys, time
from andon.host.processes.kin import myself
from andon.leases.book.lease_book import Book
from andon.model.lease import Need, Ticket
book, every = Book(), [device["uuid"] for device in json.load(sys.stdin)["devices"]]
need = Need(frozenset(every), 8, 8, balanced=False)
held = []
for number in range(600):
    held.append(book.write_ticket(Ticket(f"t{number}", myself(), need, 0, time.time(), True)))
    held[-1].stamp(time.time())
    if number > 4:  # who lists them and then waits for a processor must still find one of them
        held.pop(0).release()
    time.sleep(0.5)
"""
LATER = """
import json, sys
from pathlib import Path
path = Path(sys.argv[1])
found = json.loads(path.read_text())
found["users"] = {uid: since - 30.0 for uid, since in found["users"].items()}
path.write_text(json.dumps(found))
"""


def test_a_ticket_that_takes_nothing_does_not_keep_who_does_not_wait_from_a_gpu() -> None:
    said = on_a_machine(
        """
        book /run/andon
        free() { user 1002 "$PYTHON" -P -m andon.cli free --simulate 8; }
        andon devices --simulate 8 --json > /tmp/devices
        user 1001 "$PYTHON" -P -c "$IDLE" < /tmp/devices &
        for i in $(seq 1600); do ls /run/andon/tickets | grep -q ticket && break; sleep 0.05; done
        sleep 0.3
        free | tail -1
        take 1002 2>&1 || echo "refused $?"
        user 1002 "$PYTHON" -P -c "$LATER" /tmp/state1002/andon/nodes/*/turns.json
        free > /dev/null && echo "free"
        take 1002 && echo taken
        """,
        IDLE=IDLE,
        LATER=LATER,
    ).splitlines()
    assert "refused 125" in said, said
    assert any("promised to " in line for line in said), said
    assert said[-2:] == ["free", "taken"], said


# A user namespace shows root's files as nobody's, and its own user as root.


def test_a_user_namespace_neither_hides_roots_book_nor_passes_roots_limits() -> None:
    said = on_a_machine(
        r"""
andon setup >/dev/null
mkdir -p /etc/andon
printf 'max_gpus_per_user = 1\n[users.root]\nmax_gpus_per_user = 8\n' > /etc/andon/policy.toml
hold 0 /run/andon
inside() { echo "$1"; shift; user 1000 "$@" 2>&1 || echo "code $?"; }
run() { echo "$PYTHON -P -m andon.cli run -q --simulate 3 --no-wait $1 -- true"; }
inside "held by root:" unshare -Ur $(run "--devices 0")
inside "over the limit:" unshare -Ur $(run "--gpus 2")
inside "as another user:" unshare -U --map-user=1001 $(run "--gpus 2")
inside "in one within another:" unshare -Ur unshare -U --map-user=0 $(run "--gpus 2")
inside "priority:" unshare -Ur $(run "--priority 5")
inside "one is free:" unshare -Ur $(run "")
chmod 700 /run/andon
inside "unreadable:" unshare -Ur env ANDON_LEASE_DIR=/tmp/own $(run "")
"""
    )
    if "unshare failed" in said:
        pytest.skip("this system lets no user make a user namespace")
    after = {title: said.partition(f"{title}:\n")[2] for title in ("held by root", "one is free")}
    assert "held by lease" in after["held by root"].partition("over the limit:")[0], said
    limit = "/etc/andon/policy.toml allows {} 1 GPU at a time; 2 GPUs requested"
    assert said.count(limit.format(user_name(1000))) == 2, said
    assert said.count(limit.format(user_name(65534))) == 1, said
    assert "only root and the owner of the lease book may use a priority above 0" in said, said
    assert after["one is free"].startswith("unreadable:\n"), said
    assert "no device is leased while the machine's book cannot be read" in said, said
