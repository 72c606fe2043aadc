"""A machine of three users, for tests of a server that root runs: their homes, jobs and runs.

`SHARED` is the beginning of a script for `on_a_machine`. alice has a job that ended, one that waits
in the queue, and a run; bob holds every GPU and has a run; carol has nothing.
"""

SHARED = r"""
for one in alice:1234 bob:1235 carol:1236; do
    name=${one%:*} uid=${one#*:}
    echo "$name:x:$uid:$uid::/home/$name:/bin/sh" >> /etc/passwd
    mkdir -p /home/$name
    chown $uid:$uid /home/$name
    chmod 700 /home/$name
done
unset XDG_STATE_HOME XDG_CONFIG_HOME
export HOME=/root
mkdir -p /root && rm -rf /root/.local/state/andon /root/.config/andon  # of the copy, not of here
andon setup > /dev/null
said() { echo "@@$1"; cat; echo; echo "@@"; }
as() {  # a user, by name, with their own home
    name=$1; shift
    uid=$(id -u $name)
    setpriv --reuid $uid --regid $uid --init-groups env HOME=/home/$name USER=$name \
        PYTHONPATH=$PYTHONPATH:$TESTS "$@"
}
andon_as() { name=$1; shift; as $name "$PYTHON" -P -m andon.cli "$@"; }
serving() {  # as root; waits until it answers
    "$PYTHON" -P -m andon.cli serve --simulate 4 > /tmp/served 2>&1 &
    for i in $(seq 1600); do grep -q http:// /tmp/served && return; sleep 0.05; done
    cat /tmp/served; false
}
until_true() { for i in $(seq 1600); do "$@" && return; sleep 0.05; done; false; }
three_users() {
    for name in alice bob; do as $name "$PYTHON" -P -m tests.support.shared_machine $name; done
    andon_as bob run --simulate 4 --gpus 4 -- sleep 600 > /dev/null 2>&1 &
    until_true sh -c 'ls /run/andon/leases 2>/dev/null | grep -q lease'
    andon_as alice submit --simulate 4 --gpus 1 --name secret-sweep -- python hidden.py > /dev/null
    until_true sh -c 'ls /run/andon/tickets 2>/dev/null | grep -q ticket'
}
"""


def main(user: str) -> None:
    """As this user: a job that was cancelled, and the record of a run."""
    import os

    from andon.host.state.user_folder import runs_folder
    from andon.jobs.acts import cancel
    from andon.jobs.folder import open_jobs_folder
    from andon.jobs.queue import Queue
    from andon.model.job.device_request import DeviceRequest
    from andon.model.job.spec import JobSpec
    from tests.support.run_records import begin, end, sample, write_record

    folder = open_jobs_folder()
    folder.submit(
        [JobSpec(0, f"{user}-job", ("true",), "/", DeviceRequest(), 1_790_000_000.0, user=user)]
    )
    queue = Queue(folder)
    cancel(folder, queue.jobs[1], queue.statuses[1])
    runs_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{user}run{'x' * 5}"[:8]
    write_record(
        runs_folder() / f"{name}.jsonl",
        begin(id=name, name=f"{user}-run", user="root", command=f"{user}-secret", pid=os.getpid()),
        sample(1),
        end(),
    )


if __name__ == "__main__":
    import sys

    main(sys.argv[1])
