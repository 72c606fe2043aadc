"""The doctor on root's policy, recent use, and what a log-out does to jobs."""

from collections.abc import Iterator

from msgspec.structs import replace

from andon.jobs.rules.log_out import LogOutFacts, Place
from tests.support.doctor.case import FAIL, WARN, C, Case, case
from tests.support.doctor.machines import POLICY, server


def shared_rules() -> Iterator[Case]:
    yield case("no policy", server(), says="no limits per user: there is no /etc/andon/policy.toml")
    limits = replace(POLICY, exists=True, everyone="at most 2 GPUs", own="at most 2 GPUs")
    yield case(
        "a policy", replace(server(), policy=limits), says="(/etc/andon/policy.toml): at most"
    )
    many = replace(limits, users=("a", "b", "c", "d"), own="")
    yield case(
        "users of their own",
        replace(server(), policy=many),
        says="others for a, b, c and 1 more|yours: none",
    )
    wrong = replace(POLICY, exists=True, mistake=f"{POLICY.path}:2: not valid TOML")
    yield case(
        "a mistake in the policy",
        replace(server(), policy=wrong),
        (C.POLICY_WRONG, FAIL),
        says="not valid TOML|sudoedit /etc/andon/policy.toml",
    )
    open_to_all = replace(wrong, fix="sudo chown root: /etc/andon/policy.toml")
    yield case(
        "a policy of others",
        replace(server(), policy=open_to_all),
        (C.POLICY_WRONG, FAIL),
        says="sudo chown root:",
    )
    used = replace(POLICY, usage=(("alice", 12.5), ("bob", 3.0), ("c", 2.0), ("d", 1.0)))
    yield case(
        "recent use",
        replace(server(), policy=used),
        says="alice 12.5, bob 3, c 2 and 1 more users",
    )


def log_outs() -> Iterator[Case]:
    lives = LogOutFacts(True, False, True, False, 1000, Place.SESSION)
    yield case(
        "jobs outlive a session", replace(server(), log_out=lives), says="jobs keep running when"
    )
    for name, facts, says in (
        ("kills", replace(lives, kills=True), "KillUserProcesses=yes|loginctl enable-linger"),
        ("a user manager", replace(lives, place=Place.USER_MANAGER), "lingering is off"),
        ("a service", replace(lives, place=Place.SERVICE), "/dev/shm|loginctl enable-linger"),
        (
            "no manager",
            replace(lives, kills=True, lingering=True),
            "cannot be reached|systemctl --user status",
        ),
    ):
        yield case(name, replace(server(), log_out=facts), (C.LOG_OUT_ENDS_JOBS, WARN), says=says)
