"""Jobs of several users of one machine, each with a dispatcher of its own on one lease book."""

import pytest

from tests.integration.machine import on_a_machine

pytestmark = pytest.mark.timeout(180)
FIRST, SECOND = 30001, 30002
USERS = f"""
export ANDON_JOBS_IDLE=1s ANDON_LEASE_DIR=/tmp/book
book /tmp/book
for uid in {FIRST} {SECOND}; do mkdir /tmp/state$uid; chown $uid /tmp/state$uid; done
in_line() {{ test $(ls /tmp/book/tickets | grep -c ticket) = $1; }}
submit() {{ uid=$1; shift; user $uid "$PYTHON" -P -c "$SUBMITS" "$@"; }}
until_so() {{
    for i in $(seq 1200); do eval "$1" && return; sleep 0.05; done
    echo "never: $1"; false
}}
"""
SUBMITS = """
import os, sys, time
from andon.jobs.queue import Queue, submit
from andon.jobs.submitting import local_spec
from andon.model.job.device_request import DeviceRequest
for word in sys.argv[1:]:  # NAME:GPUS[:DEVICE]
    name, count, *device = word.split(":")
    gate = "while ! test -e /tmp/gate; do sleep 0.05; done; " if name == "gate" else ""
    command = ("sh", "-c", f"{gate}echo {os.getuid()} >> /tmp/order")
    request = DeviceRequest(int(count), int(count), devices=tuple(device))
    submit([local_spec(command, request, name=name, simulate=2, git=False)])
limited = False
queue, end = Queue(), time.monotonic() + 120
while not all(one.state.is_settled for one in queue.statuses.values()):
    assert time.monotonic() < end, queue.statuses
    for one in queue.views():
        if "policy.toml" in (one.reason or "") and not limited:
            print(one.name, "waits:", one.reason, flush=True)
            limited = True
    time.sleep(0.1)
    queue.refresh()
print(os.getuid(), *(f"{one.name}:{one.state}" for one in queue.views()))
"""


def test_two_users_take_turns_on_the_same_devices() -> None:
    """The first has submitted all of its jobs, and has a ticket for each, before the second comes:
    they do not go one after the other all the same."""
    said = on_a_machine(
        f"""{USERS}
        umask 0; touch /tmp/order; umask 022
        submit {FIRST} gate:2 a:2 b:1:0 c:1:1 & first=$!
        until_so 'in_line 3'
        submit {SECOND} x:2 y:2 & second=$!
        until_so 'in_line 4'
        touch /tmp/gate
        wait $first; wait $second
        echo order: $(cat /tmp/order)
        """,
        SUBMITS=SUBMITS,
    )
    turns = f"{FIRST} {FIRST} {SECOND} {FIRST} {SECOND} {FIRST}"
    assert f"order: {turns}\n" in said, said
    assert f"{SECOND} x:succeeded y:succeeded\n" in said, said


def test_requests_are_granted_in_the_order_that_was_shown() -> None:
    """All of the first user's requests were there before the second came, who is shown after the
    first of them, also in the list of jobs: that is where it is, although the others are older."""
    said = on_a_machine(
        f"""{USERS}
        umask 0; touch /tmp/order; umask 022
        take() {{
            uid=$1; shift
            user $uid "$PYTHON" -P -m andon.cli run -q --simulate 1 -t 100s -- sh -c "$*" &
        }}
        took() {{ take $1 "echo $1 >> /tmp/order"; until_so "in_line $2"; }}
        in_line() {{ test $(ls /tmp/book/tickets | grep -c awake) = $1; }}
        take {FIRST} 'while ! test -e /tmp/gate; do sleep 0.05; done'
        until_so 'ls /tmp/book/leases | grep -q lease$'
        took {FIRST} 1; took {FIRST} 2; took {FIRST} 3
        user {SECOND} "$PYTHON" -P -m andon.cli submit -q --simulate 1 -- \\
            sh -c 'echo {SECOND} >> /tmp/order'
        until_so 'in_line 4'
        until_so 'user {SECOND} "$PYTHON" -P -m andon.cli jobs | grep -q "no. 2: "'
        took {SECOND} 5
        andon leases | grep -o 'queue .: [0-9]*' | cut -d ' ' -f 3 > /tmp/shown
        user {SECOND} "$PYTHON" -P -m andon.cli wait --simulate 1 -t 100s 2> /tmp/waited & last=$!
        until_so 'grep -q ahead /tmp/waited'
        touch /tmp/gate
        until_so 'test $(wc -l < /tmp/order) = 5'
        wait $last
        echo shown: $(cat /tmp/shown)
        echo order: $(cat /tmp/order)
        cat /tmp/waited
        """,
    )
    turns = f"{FIRST} {SECOND} {FIRST} {SECOND} {FIRST}"
    assert f"shown: {turns}\n" in said, said
    assert f"order: {turns}\n" in said, said
    assert "in queue" not in said, said
    assert f"5 ahead in the queue, the last {FIRST} (1 GPU)" in said, said


def test_roots_policy_limits_what_another_user_gets() -> None:
    """At most one GPU for the first, none waiting for the second."""
    said = on_a_machine(
        f"""{USERS}
        umask 0; touch /tmp/order; umask 022
        mkdir -p /etc/andon; POLICY=/etc/andon/policy.toml
        printf 'max_gpus_per_user = 1\\n[users."{SECOND}"]\\nmax_queued = 0\\n' > $POLICY
        submit {FIRST} gate:1 a:1 > /tmp/first & first=$!
        until_so 'grep -q policy.toml /tmp/first'
        cli() {{ user $1 "$PYTHON" -P -m andon.cli "${{@:2}}" || echo "code $?"; }}
        cli {FIRST} run -q --simulate 2 --gpus 2 -- true
        cli {SECOND} submit --simulate 2 -- true
        touch /tmp/gate
        wait $first
        cat /tmp/first
        """,
        SUBMITS=SUBMITS,
    )
    limit = "/etc/andon/policy.toml allows"
    assert f"a waits: you hold 1 GPU, and {limit} you 1 GPU at a time\n" in said, said
    assert f"{limit} {FIRST} 1 GPU at a time; 2 GPUs requested" in said, said
    assert f"{limit} {SECOND}" in said, said
    assert "code 125\ncode 4\n" in said, said  # of `andon run`, which leaves 4 to its command
    assert f"{FIRST} gate:succeeded a:succeeded\n" in said, said


def test_root_starts_no_job_of_another_user_whose_home_it_has() -> None:
    """As with `sudo -E`: the queue is that user's, and a job in it must not run as root."""
    said = on_a_machine(
        f"""{USERS}
        cli() {{ user {FIRST} "$PYTHON" -P -m andon.cli "$@"; }}
        cli jobs pause
        cli submit --simulate 1 -- sh -c 'id -u > /tmp/ran'
        cd /tmp/state{FIRST}/andon/nodes/*/jobs
        until_so 'flock -n lock true'
        rm paused
        export XDG_STATE_HOME=/tmp/state{FIRST}
        for words in jobs "jobs show 1" "jobs hold 1" "cancel 1" "logs 1" "jobs start" gc; do
            code=0; andon $words > /tmp/said 2>&1 || code=$?
            echo "$words: $code" $(grep -c "another user's files are not used" /tmp/said)
        done
        sleep 2
        test ! -e /tmp/ran || echo started as $(cat /tmp/ran)
        cd /
        writers() {{
            andon run --simulate 1 -- true 2>&1
            echo a | andon map --simulate 1 --items - -- true 2>&1
            "$PYTHON" -P -c 'import andon
with andon.run(): pass' 2>&1
            andon seed --days 1 2>&1 || echo "seed: $?"
        }}
        writers > /tmp/wrote
        echo not recorded: $(grep -c "is not recorded: .*belongs to another user" /tmp/wrote)
        grep "seed: " /tmp/wrote
        mkdir /tmp/roots /tmp/links; chown {FIRST} /tmp/links
        user {FIRST} ln -s /tmp/roots /tmp/links/andon
        export XDG_STATE_HOME=/tmp/links
        writers > /tmp/wrote
        echo through a link: $(grep -c "is not recorded: .*belongs to another user" /tmp/wrote)
        echo of root: $(find /tmp/state{FIRST} /tmp/roots -mindepth 1 -uid 0)
        """,
    )
    assert "started" not in said, said
    assert "not recorded: 3\nseed: 4\n" in said, said
    assert "through a link: 3\nof root:\n" in said, said
    for words in ("jobs", "jobs show 1", "jobs hold 1", "cancel 1", "logs 1", "jobs start", "gc"):
        assert f"{words}: 4 1\n" in said or f"{words}: 4 2\n" in said, said
