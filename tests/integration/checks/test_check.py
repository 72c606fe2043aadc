"""`andon check` as people use it, over stand-ins for both of NVIDIA's libraries."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.app import check_prolog
from andon.app.leases import open_availability
from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.checks import checking, session
from andon.checks.checking import CardToCheck, Checker
from andon.checks.load import loaded
from andon.checks.rules.plan import CheckMode, CheckPlan
from andon.checks.store import stored_checks
from andon.errors import Unavailable
from andon.jobs.folder import LOCK, jobs_path
from andon.model.check import CardResult, CheckVerdict
from andon.units import MIB
from tests.integration.conftest import PCI, andon, is_alive
from tests.integration.leasing import ENVIRONMENT, entries, held
from tests.standin import StandIn, StandInMig, StandInProcess, lost
from tests.standin.cuda import CudaFault, StandInCuda
from tests.support.replaced import constants
from tests.support.ssh_hosts import SSHD, SshHosts
from tests.support.ssh_hosts import andon as over_ssh
from tests.support.waiting import wait_for

pytestmark = pytest.mark.usefixtures("cuda", "own_places")

SHORT = CheckPlan(CheckMode.QUICK, 0.02, 0.02, 0.01, 0.01, 1)


def checked(*devices: int, plan: CheckPlan = SHORT) -> list[CardResult]:
    """Checks these cards in this process, without a lease."""
    with open_sampler(load_settings({}).settings) as sampler:
        checker = Checker(sampler, plan)
        snapshot = sampler.once(with_host=False)
        cards = [CardToCheck(checker.begin(snapshot, snapshot.devices[n])) for n in devices]
        return checker.run(cards)


def test_free_cards_are_checked_under_leases_and_the_table_says_so(
    cuda: StandInCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = andon("check", "--quick", "--json")
    assert (done.code, entries()) == (0, [])
    found = done.json()
    assert found["schema"] == "andon.checks/1"
    assert [one["verdict"] for one in found["checks"]] == ["ok"] * 4
    assert {part["name"] for part in found["checks"][0]["parts"]} == {
        "fp32", "tensor", "memory", "patterns", "to_device", "from_device",
    }  # fmt: skip
    monkeypatch.setenv("COLUMNS", "140")
    again = andon("checks")
    assert again.code == 0
    assert again.out.count("as fast as 3 others of its model here") == 4


def test_a_slow_card_and_wrong_results_are_named_and_the_command_fails(cuda: StandInCuda) -> None:
    cuda.set_faults(CudaFault(1, "slow", "tensor", 21), CudaFault(2, "wrong", "fp32", 1))
    done = andon("check", "--quick")
    assert done.code == 1
    assert "slow: tensor cores 21 % below the others · 1,980 MHz · andon why 1" in done.out
    assert "WRONG RESULTS on SM 1: " in done.out
    assert "andon cordon 2" in done.out
    assert done.out.count("as fast as") == 2
    assert done.err.startswith("andon: checking GPU 0, 1, 2, 3: about")


def test_wrong_words_of_memory_have_their_addresses_and_bits(cuda: StandInCuda) -> None:
    cuda.set_faults(CudaFault(0, "wrong", "patterns", 3))
    [one] = checked(0)
    assert one.verdict is CheckVerdict.WRONG
    assert "in memory, bits 0x00010000" in one.text
    assert all(word.address and word.got ^ word.expected == 0x10000 for word in one.wrong)


def test_a_copy_that_arrives_wrong_is_found(cuda: StandInCuda) -> None:
    cuda.set_faults(CudaFault(0, "wrong", "memory", 7))
    [one] = checked(0)
    assert one.verdict is CheckVerdict.WRONG
    assert [(word.part, word.at) for word in one.wrong] == [("memory", 7)]


def test_a_low_clock_is_seen_by_the_card_itself(cuda: StandInCuda) -> None:
    cuda.set_faults(CudaFault(0, "slow", "clock", 30))
    slow = checked(0, 1, 2)[0]
    assert slow.verdict is CheckVerdict.SLOW
    part = slow.part("fp32")
    assert part is not None
    assert part.clock_mhz == pytest.approx(0.7 * 1980)


@pytest.mark.parametrize(
    ("code", "verdict", "words"),
    [
        (719, CheckVerdict.LOST, "stopped working during the check"),
        (214, CheckVerdict.MEMORY, "could not be corrected"),
        (2, CheckVerdict.UNJUDGED, ""),
    ],
)
def test_how_an_error_of_the_driver_is_judged(
    cuda: StandInCuda, code: int, verdict: CheckVerdict, words: str
) -> None:
    cuda.set_faults(CudaFault(0, "error", "tensor", code))
    [one] = checked(0)
    if code == 2:  # the part is left out, and the others count
        part = one.part("tensor")
        assert part is not None
        assert "no memory left" in (part.reason or "")
        assert one.value("fp32")
        return
    assert one.verdict is verdict
    assert words in one.text


def test_a_card_without_free_memory_has_reasons_in_place_of_numbers(cuda: StandInCuda) -> None:
    cuda.set_faults(CudaFault(0, "error", "patterns", 2), CudaFault(0, "error", "link", 2))
    [one] = checked(0)
    assert one.verdict is CheckVerdict.OK
    reasons = [part.reason for part in one.parts if part.name in ("patterns", "to_device")]
    assert all("no memory left" in (reason or "") for reason in reasons)


def test_a_silent_card_is_hung_and_named(
    cuda: StandInCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, session, SILENT_SECONDS=2.0)
    cuda.set_faults(CudaFault(1, "hang", "tensor"))
    fine, hung = checked(0, 1)
    assert fine.verdict is CheckVerdict.OK, "the others go on"
    assert (hung.verdict, hung.text) == (CheckVerdict.HUNG, "no answer for 2 s in tensor")
    assert hung.value("fp32"), "what was measured before is known"
    assert children_of(os.getpid()) == []


def test_a_process_that_cannot_be_ended_keeps_its_lease(
    cuda: StandInCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, session, SILENT_SECONDS=2.0)
    kept: list[subprocess.Popen[bytes]] = []

    real_end = session.end

    def stuck(process: "subprocess.Popen[bytes]") -> bool:
        try:
            process.wait(2.0)
        except subprocess.TimeoutExpired:
            kept.append(process)  # as one in the kernel, which no signal reaches
            return False
        return real_end(process)

    monkeypatch.setattr(session, "end", stuck)
    cuda.set_faults(CudaFault(0, "hang", "fp32"))
    with open_sampler(load_settings({}).settings) as sampler:
        availability = open_availability(
            load_settings({}).settings, lambda: sampler.once(with_host=False), simulated=False
        )
        checker = Checker(sampler, SHORT)
        snapshot = sampler.once(with_host=False)
        cards, refused = checker.lease(availability, snapshot, snapshot.devices[:2])
        assert (len(cards), refused) == (2, [])
        one, other = checker.run(cards)
    try:
        assert one.verdict is CheckVerdict.HUNG
        assert "its lease is withheld" in one.text
        assert other.verdict.is_measured
        assert len(held()) == 1, "the process has its lock; the other lease is released"
    finally:
        for process in kept:
            real_end(process)


def test_a_card_that_falls_off_the_bus_meanwhile_is_lost(
    cuda: StandInCuda, node: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, session, SILENT_SECONDS=4.0)
    cuda.set_faults(CudaFault(1, "hang", "tensor"))
    with node.broken(lost(1)):
        [one] = checked(1)
    assert one.verdict is CheckVerdict.LOST
    assert one.text.startswith("lost during the check")


def test_what_a_driver_refuses_is_said(cuda: StandInCuda) -> None:
    cuda.set_faults(driver=9000)
    assert "too old" in checked(0)[0].text
    for changes, words in (
        ({"mode": 3}, "exclusive"),
        ({"mode": 2}, "prohibited"),
        ({"mps": 1}, "MPS"),
    ):
        StandInCuda(cuda.node, **changes)
        [one] = checked(0)
        assert (one.verdict, words in one.text) == (CheckVerdict.NOT_CHECKED, True)


def test_cards_that_cannot_be_checked_have_their_rows_and_a_run_says_it(
    cuda: StandInCuda, node: StandIn
) -> None:
    cuda.set_faults(CudaFault(1, "oom", "memory"))
    done = andon("check", "--quick")
    assert (done.code, done.out.count("as fast as 2 others")) == (0, 3)
    assert "not checked: it has no memory left for a check" in done.out
    server = subprocess.Popen(["nvidia-cuda-mps-server", "600"], executable="/bin/sleep")
    try:
        node.change(2, processes=(StandInProcess(server.pid),))
        shared = andon("check", "--quick", "-d", "2", "--even-if-used")
        assert (shared.code, "MPS shares it between programs" in shared.out) == (3, True)
    finally:
        server.kill()
        server.wait()
    StandInCuda(cuda.node, mode=3)
    refused = andon("check", "--quick", "-d", "0")
    assert (refused.code, "not checked: its compute mode is exclusive" in refused.out) == (3, True)
    used = andon("run", "--check", "-d", "0", "--", "true")
    assert used.code == 0
    assert "GPU 0 was not checked: its compute mode is exclusive" in used.err


def test_a_sleeping_card_is_checked_if_it_is_named(cuda: StandInCuda, kernel: Path) -> None:
    """Until then its address alone is known."""
    cards = kernel / "sys/bus/pci/drivers/nvidia"
    for pci in PCI[4:]:
        shutil.rmtree(cards / pci)
    power = cards / PCI[1] / "power"
    (power / "control").write_text("auto\n")
    (power / "runtime_status").write_text("suspended\n")
    every = andon("check", "--quick", "--all")
    assert every.code == 0
    assert "not checked: asleep: a check would wake it; name it with -d" in every.out
    done = andon("check", "--quick", "-d", "1", "--json")
    [one] = done.json()["checks"]
    assert (done.code, one["uuid"], one["model"]) == (0, cuda.node.node[1].uuid, "NVIDIA H200")
    assert one["text"] == "as fast as 3 others of its model here"


def test_a_card_that_is_lost_already_fails_the_check_and_the_prolog(
    cuda: StandInCuda, node: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    with node.broken(lost(1)):
        done = andon("check", "--quick")
        assert (done.code, "lost: it has fallen off the bus" in done.out) == (1, True)
        monkeypatch.setenv("SLURM_JOB_GPUS", "0,1")
        assert andon("check", "--prolog").code == 1
        monkeypatch.setenv("SLURM_JOB_GPUS", "0,2")
        assert andon("check", "--prolog").code == 0, "it is not the job's"


def test_a_driver_that_does_not_start_drains_no_node(cuda: StandInCuda) -> None:
    cuda.set_faults(CudaFault(0, "error", "init", 999))
    done = andon("check", "--prolog")
    assert (done.code, "GPU 0: failed: cuInit" in done.err) == (0, True)
    assert andon("check", "--prolog", "--full").code == 2, "it is always quick"
    assert andon("check", "--drain-if", "slow").code == 2


def test_what_others_have_reserved_for_later_is_checked_until_then(cuda: StandInCuda) -> None:
    with open_sampler(load_settings({}).settings) as sampler:
        settings = load_settings({}).settings
        availability = open_availability(
            settings, lambda: sampler.once(with_host=False), simulated=False
        )
        checker, snapshot = Checker(sampler, SHORT), sampler.once(with_host=False)
        [card], _ = checker.lease(availability, snapshot, snapshot.devices[:1])
        assert card.grant is not None
        lease = card.grant.held.lease
        assert lease.until is not None
        assert 60 < lease.until - lease.since < 600, "it ends, so it can come before a reservation"
        card.done(stuck=False)


def test_a_card_that_waits_for_the_link_of_one_that_hangs_is_not_hung(
    cuda: StandInCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, session, SILENT_SECONDS=3.0)
    cuda.set_faults(*(CudaFault(n, "hang", "link") for n in (0, 1)))
    found = checked(0, 1, 2)
    assert [one.verdict for one in found] == [CheckVerdict.HUNG, CheckVerdict.HUNG, CheckVerdict.OK]


def test_wrong_results_of_a_check_that_is_cut_short_count(
    cuda: StandInCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, check_prolog, LONGEST_SECONDS=6.0)
    cuda.set_faults(CudaFault(0, "wrong", "fp32", 1), CudaFault(0, "hang", "tensor"))
    assert check_prolog.prolog() == 1
    assert CheckVerdict.WRONG in [one.verdict for one in stored_checks()]


def test_without_the_library_the_card_is_not_blamed(
    cuda: StandInCuda, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    done = andon("check", "--quick", "-d", "0")
    assert done.code == 3
    assert "CUDA driver library is not here" in done.out


def test_a_card_in_use_is_left_alone_unless_it_is_asked_for(
    cuda: StandInCuda, node: StandIn
) -> None:
    node.change(0, processes=(StandInProcess(1),))
    done = andon("check", "--quick", "-d", "0")
    assert done.code == 3
    assert "not checked: in use by" in done.out
    forced = andon("check", "--quick", "-d", "0", "--even-if-used", "--json")
    assert forced.code == 0
    assert forced.json()["checks"][0]["even_if_used"] is True
    every = andon("check", "--quick", "--all")
    assert every.code == 0
    assert every.out.count("as fast as") == 3
    assert "not checked: in use by" in every.out


def test_a_held_card_is_not_checked(cuda: StandInCuda) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-m", "andon.cli", "run", "-d", "0", "--", "sleep", "600"]
    )
    try:
        wait_for(held)
        done = andon("check", "--quick", "-d", "0")
        assert done.code == 3
        assert "not checked" in done.out
    finally:
        holder.send_signal(signal.SIGTERM)
        holder.wait()


def test_an_interrupted_check_leaves_neither_leases_nor_processes(cuda: StandInCuda) -> None:
    cuda.set_faults(CudaFault(0, "hang", "fp32"))
    process = subprocess.Popen(
        [sys.executable, "-m", "andon.cli", "check", "-d", "0"], start_new_session=True
    )
    wait_for(lambda: children_of(process.pid))
    [child] = children_of(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert (is_alive(child), held(), stored_checks()) == (False, [], [])


def test_cards_are_compared_with_each_other_in_a_full_check(cuda: StandInCuda) -> None:
    StandInCuda(cuda.node, memory=256 * MIB)
    found, why, stuck = session.measure_peers(
        [one.uuid for one in cuda.node.node[:3]], [str(number) for number in range(3)]
    )
    assert (len(found), why, stuck) == (6, "", False)
    direct = {(one.source, one.target) for one in found if one.direct}
    assert direct == {("0", "1"), ("1", "0")}
    assert all(one.right and one.bytes_per_second > 1e9 for one in found)


def test_simulated_cards_are_not_checked() -> None:
    done = andon("--simulate", "2", "check")
    assert done.code == 3
    assert done.out.count("not checked: simulated: there is no card to measure") == 2


def children_of(parent: int) -> list[int]:
    """The processes of cards that this one started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
            above = int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if b"gpu-check" in words and above == parent:
            found.append(int(path.parent.name))
    return found


def test_a_run_gives_a_bad_card_back_and_takes_another(cuda: StandInCuda) -> None:
    """All four are free and alike, so the first is taken first."""
    cuda.set_faults(CudaFault(0, "wrong", "fp32", 1))
    done = andon("run", "--check", "--", sys.executable, "-c", ENVIRONMENT)
    assert done.code == 0
    assert done.out.strip() != cuda.node.node[0].uuid
    assert "GPU 0 failed its check: WRONG RESULTS on SM 1" in done.err
    assert "taking another" in done.err
    assert held() == []


def test_a_run_with_broken_cards_alone_does_not_start(cuda: StandInCuda) -> None:
    cuda.set_faults(*(CudaFault(n, "wrong", "fp32", 1) for n in range(4)))
    done = andon("run", "--check", "--", sys.executable, "-c", ENVIRONMENT)
    assert (done.code, done.out) == (125, "")
    assert done.err.count("failed its check") == 3, "the first, and both together"
    assert held() == []


def test_a_run_uses_a_slow_card_where_there_is_no_other(cuda: StandInCuda) -> None:
    cuda.set_faults(CudaFault(0, "slow", "memory", 50))
    done = andon("run", "--check", "-d", "0", "--", sys.executable, "-c", ENVIRONMENT)
    assert done.code == 0
    assert done.out.strip() == cuda.node.node[0].uuid
    assert "the slow one is used" in done.err


def test_what_a_check_found_is_in_the_status_the_reasons_and_the_metrics(
    cuda: StandInCuda,
) -> None:
    cuda.set_faults(CudaFault(2, "wrong", "patterns", 1))
    assert andon("check", "--quick", "-d", "2").code == 1
    status = andon("status", "--json").json()["devices"][2]
    assert status["check"]["verdict"] == "wrong_results"
    why = andon("why", "2", "--seconds", "0.5")
    assert "GPU 2 failed its check: WRONG RESULTS in memory" in why.out
    doctor = andon("doctor").out
    assert "failed its last check" in " ".join(doctor.split())


def test_a_program_gets_results(cuda: StandInCuda) -> None:
    code = "import andon; [one] = andon.check(0); print(one.verdict, one.value('fp32') > 1e12)"
    done = subprocess.run(
        [sys.executable, "-c", code.replace("(0)", "('0')")], capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("ok True\n", 0), done.stderr


def test_a_load_keeps_a_card_busy_and_ends_with_the_block(cuda: StandInCuda) -> None:
    card = cuda.node.node[1].uuid
    with loaded(card, 5.0) as pid:
        assert is_alive(pid)
    assert not is_alive(pid)
    cuda.set_faults(CudaFault(1, "error", "init", 999))
    with pytest.raises(Unavailable, match="stopped working"), loaded(card, 1.0):
        pass


def test_the_selftest_runs_the_same_load(cuda: StandInCuda) -> None:
    done = andon("selftest", "--load", "--seconds", "1", "--json")
    [load] = [one for one in done.json()["findings"] if one["id"] == "load"]
    assert load["grade"] == "ok"
    assert "kept GPU" in load["message"]


def test_inside_a_lease_its_cards_are_checked_and_stay_held(cuda: StandInCuda) -> None:
    inside = "andon check --quick --json; andon leases --json"
    command = inside.replace("andon ", f"{sys.executable} -m andon.cli ")
    done = andon("run", "-q", "--gpus", "2", "-d", "1,3", "--", "sh", "-c", command)
    checks, leases = (json.loads(line) for line in done.out.splitlines())
    assert [one["label"] for one in checks["checks"]] == ["1", "3"]
    assert all(one["verdict"] == "ok" for one in checks["checks"])
    assert len(leases["leases"]) == 1


def submitted(*words: str) -> tuple[str, str]:
    """Submits a job and waits for its end; returns its state and output."""
    assert andon("submit", "--check", *words).code == 0
    andon("jobs", "wait", "1")
    [job] = andon("jobs", "--all", "--json").json()["jobs"]
    return f"{job['state']}: {job['reason']}", andon("logs", "1").out


def test_a_job_gives_a_bad_card_back_and_takes_another(cuda: StandInCuda) -> None:
    cuda.set_faults(CudaFault(0, "wrong", "fp32", 1))
    state, log = submitted("--", sys.executable, "-c", ENVIRONMENT)
    assert state == "succeeded: None"
    first, taking, second, uuid = log.splitlines()
    assert first.startswith("andon: GPU 0: wrong_results: WRONG RESULTS on SM 1")
    assert taking == "andon: taking another"
    assert second.startswith("andon: GPU 1: ok: as fast as")
    assert uuid == cuda.node.node[1].uuid
    assert held() == []


def test_a_program_submits_with_a_check(cuda: StandInCuda) -> None:
    program = "import andon, os; print(andon.submit(os.getuid, check=True).result(60))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == f"{os.getuid()}\n", done.stderr
    assert "andon: GPU 0: ok: as fast as" in andon("logs", "1").out


def test_a_job_with_broken_cards_alone_fails_and_says_which(cuda: StandInCuda) -> None:
    cuda.set_faults(*(CudaFault(n, "wrong", "fp32", 1) for n in range(4)))
    state, _ = submitted("--", "touch", "started")
    assert state.startswith("failed: GPU 0 failed its check: WRONG RESULTS on SM 1")
    assert "GPU 1 failed its check" in state
    assert held() == []


def test_a_job_uses_a_slow_card_where_there_is_no_other(cuda: StandInCuda) -> None:
    cuda.set_faults(CudaFault(0, "slow", "memory", 50))
    state, log = submitted("-d", "0", "--", sys.executable, "-c", ENVIRONMENT)
    assert state == "succeeded: None"
    assert log.count("andon: GPU 0: slow: ") == 2, "before and after it was given back"
    assert log.splitlines()[-1] == cuda.node.node[0].uuid


def test_a_job_that_is_cancelled_during_its_check_gives_the_card_back(cuda: StandInCuda) -> None:
    cuda.set_faults(CudaFault(0, "hang", "fp32"))
    assert andon("submit", "--check", "--", "true").code == 0
    wait_for(lambda: "checks GPU 0 first" in andon("jobs", "--json").out)
    assert len(held()) == 1
    assert andon("cancel", "1").code == 0
    wait_for(lambda: not held())
    assert stored_checks() == []


def test_in_a_pod_all_its_cards_are_checked_without_a_lease(
    cuda: StandInCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container has no numbers of Slurm, and sees its own cards alone."""
    cuda.set_faults(CudaFault(1, "slow", "memory", 60))
    done = andon("check", "--prolog")
    assert (done.code, held()) == (0, []), "a slow card does not end the pod"
    assert [done.err.count(f"GPU {n}: ") for n in range(4)] == [1, 1, 1, 1]
    cuda.set_faults(CudaFault(2, "wrong", "fp32", 1))
    broken = andon("check", "--prolog")
    assert broken.code == 1
    assert "GPU 2: wrong_results: WRONG RESULTS on SM 1" in broken.err
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    nothing = andon("check", "--prolog")
    assert (nothing.code, nothing.err) == (0, ""), "a job of Slurm without a GPU"


def test_an_error_of_memory_during_the_check_and_remapped_rows_are_said(
    cuda: StandInCuda, node: StandIn
) -> None:
    node.change(0, remapped_correctable=1, remapped_uncorrectable=2, remap_pending=1)
    node.change(1, remap_failed=1)
    done = andon("check", "--quick", "--json")
    assert done.code == 1
    first, second, third, _ = done.json()["checks"]
    assert first["verdict"] == "ok", "what failed earlier has been replaced"
    assert first["rows"] == {
        "correctable": 1, "uncorrectable": 2, "pending": True, "failed": False,
    }  # fmt: skip
    assert first["rows_before"] == first["rows"]
    assert (second["verdict"], "no spare row is left" in second["text"]) == ("memory_errors", True)
    assert third["new_ecc"] == 0
    text = " ".join(andon("check", "--quick", "-d", "0,2").out.split())
    assert "GPU 0: memory: 3 rows remapped, 2 after uncorrectable errors; a reset is due" in text
    assert "GPU 2: memory: no row remapped, 0 new uncorrected errors" in text


@pytest.mark.long
def test_each_fault_is_a_line_of_the_table(cuda: StandInCuda) -> None:
    """Wrong words, a card that falls off the bus, one that hangs, and one without free memory."""
    cuda.set_faults(
        CudaFault(0, "wrong", "patterns", 3),
        CudaFault(1, "error", "tensor", 719),
        CudaFault(2, "hang", "tensor"),
        CudaFault(3, "error", "patterns", 2),
    )
    done = andon("check", "--quick", "--json", timeout_seconds=240)
    assert (done.code, held()) == (1, [])
    found = done.json()["checks"]
    assert [one["verdict"] for one in found] == ["wrong_results", "lost", "hung", "ok"]
    assert "WRONG RESULTS in memory, bits 0x00010000: " in found[0]["text"]
    assert "the card stopped working during the check" in found[1]["text"]
    assert "no answer for 30 s in tensor" in found[2]["text"]
    assert found[3]["text"] == "as fast as its clock and bus allow"


def test_memory_that_is_shared_with_the_host_is_tested_to_a_quarter(cuda: StandInCuda) -> None:
    StandInCuda(cuda.node, integrated=1, memory=256 * MIB)
    [one] = checked(0)
    assert one.verdict is CheckVerdict.OK
    assert 0 < one.tested_bytes <= 256 * MIB // 4


def test_an_instance_is_checked_as_itself(cuda: StandInCuda) -> None:
    """Its board is not; instances are compared with those of their profile."""
    mig = StandInMig("MIG-11111111-2222-3333-4444-555555555555")
    cuda.node.change(0, mig_mode=1, migs=(mig,))
    cuda.show(mig.uuid)
    done = andon("check", "--quick", "--all", "--json")
    found = {one["label"]: one for one in done.json()["checks"]}
    assert "each is checked as itself" in found["0"]["text"]
    assert (found["0:0"]["verdict"], found["0:0"]["instance"]) == ("ok", True)
    assert "others of its model" not in found["0:0"]["text"]
    assert found["1"]["text"] == "as fast as 2 others of its model here"


def test_a_host_over_ssh_checks_its_own_cards(cuda: StandInCuda, tmp_path: Path) -> None:
    assert Path(SSHD).exists(), "install openssh-server: dev/parts does"
    hosts = SshHosts(tmp_path / "ssh", 22500)
    names = ("LD_LIBRARY_PATH", *(name for name in os.environ if name.startswith("STANDIN")))
    there = {name: os.environ[name] for name in names} | {"ANDON_SIMULATE": "0"}
    hosts.add("lab1", environment=there)
    try:
        cuda.set_faults(CudaFault(1, "wrong", "fp32", 1))
        done = over_ssh(hosts, "check", "--quick", "--all", "--ssh", "lab1")
        assert done.returncode == 1, done.stderr
        assert "WRONG RESULTS on SM 1" in done.stdout
        assert done.stdout.count("as fast as 2 others of its model here") == 3
        listed = over_ssh(hosts, "checks", "--ssh", "lab1")
        assert listed.stdout.count("as fast as 2 others") == 3
        assert over_ssh(hosts, "checks").stdout.startswith("nothing was checked yet"), "not here"
    finally:
        hosts.close()


def test_a_job_is_checked_again_when_its_dispatcher_was_killed_meanwhile(cuda: StandInCuda) -> None:
    cuda.set_faults(CudaFault(0, "hang", "fp32"))
    assert andon("submit", "--check", "-d", "0", "--", "true").code == 0
    wait_for(lambda: "checks GPU 0 first" in andon("jobs", "--json").out)
    dispatcher = json.loads((jobs_path() / LOCK).read_text())["pid"]
    [child] = children_of(dispatcher)
    os.kill(dispatcher, signal.SIGKILL)
    assert len(held()) == 1, "a process that hangs keeps the card"
    os.kill(child, signal.SIGKILL)
    wait_for(lambda: not held())
    cuda.set_faults()
    andon("jobs", "wait", "1")
    [job] = andon("jobs", "--all", "--json").json()["jobs"]
    assert (job["state"], job["attempt"]) == ("succeeded", 1)
    assert andon("logs", "1").out.count("andon: GPU 0: ok: ") == 1, "the first one ended unheard"


def test_cards_stay_held_until_the_copies_between_them_were_measured(
    cuda: StandInCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    StandInCuda(cuda.node, memory=256 * MIB).set_faults(CudaFault(3, "wrong", "fp32", 1))
    seen = list[tuple[int, int]]()
    real = session.measure_peers

    def measured(uuids: list[str], *more: Any) -> Any:
        seen.append((len(uuids), len(held())))
        return real(uuids, *more)

    monkeypatch.setattr(checking, "measure_peers", measured)
    with open_sampler(load_settings({}).settings) as sampler:
        settings = load_settings({}).settings
        availability = open_availability(
            settings, lambda: sampler.once(with_host=False), simulated=False
        )
        checker = Checker(sampler, replace(SHORT, mode=CheckMode.FULL))
        snapshot = sampler.once(with_host=False)
        cards, _ = checker.lease(availability, snapshot, snapshot.devices[1:])
        checker.run(cards)
    assert seen == [(2, 3)], "not with the one that computes wrongly"
    assert (len(checker.peers), checker.troubles, held()) == (2, [], [])
