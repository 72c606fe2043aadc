"""Every command with its group and its line of help: only what the overview needs."""

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import click


class CommandEntry(NamedTuple):
    """Where a command is implemented, and its line in the overview."""

    job: str
    target: str
    help: str


def load(target: str, package: str = "andon.cli.commands") -> "click.Command":
    """Imports a command: `.watch.ps:ps` of the package, or `andon.tui.command:top`."""
    module, _, attribute = target.partition(":")
    found: click.Command = getattr(import_module(module, package), attribute)
    return found


JOBS = {
    "watch": "what the GPUs are doing",
    "explain": "why, and what needs attention",
    "share": "which GPU may I use, and when",
    "record": "what a run used",
    "fleet": "the same over many machines",
    "setup": "andon itself",
}

COMMANDS = {
    "status": CommandEntry("watch", ".watch.status:status", "One line per GPU, now."),
    "watch": CommandEntry("watch", ".watch.watch:watch", "The same, live."),
    "top": CommandEntry(
        "watch", "andon.tui.command:top", "Devices, graphs and processes, interactive."
    ),
    "ps": CommandEntry("watch", ".watch.ps:ps", "Processes on the GPUs, and who owns them."),
    "kill": CommandEntry("watch", ".watch.kill:kill", "End a process, after showing what it is."),
    "devices": CommandEntry(
        "watch", ".watch.devices:devices", "Static info: model, UUID, PCI, memory, limits."
    ),
    "prompt": CommandEntry(
        "watch", "andon.cli.prompt.command:prompt", "One short line for a shell's prompt."
    ),
    "exporter": CommandEntry("watch", ".watch.exporter:exporter", "Serve metrics for Prometheus."),
    "serve": CommandEntry("watch", ".watch.serve:serve", "Run the web board, REST and /metrics."),
    "demo": CommandEntry("watch", ".watch.demo:demo", "The board with a simulated lab."),
    "open": CommandEntry("watch", ".watch.open:open_", "Sign a browser in to the server."),
    "history": CommandEntry(
        "watch", ".watch.history:history", "Past readings, and who used the GPUs."
    ),
    "why": CommandEntry(
        "explain", ".explain.why:why", "Why a GPU is hot, slow, full, loud or idle."
    ),
    "alerts": CommandEntry("explain", ".explain.alerts:alerts", "Active alerts and what to do."),
    "check": CommandEntry(
        "explain", ".explain.check:check", "Measure: healthy, and as fast as it should be?"
    ),
    "checks": CommandEntry("explain", ".explain.checks:checks", "Earlier checks of each GPU."),
    "free": CommandEntry("share", ".share.free:free", "Available GPUs, and why others are not."),
    "run": CommandEntry("share", ".share.run:run", "Run a command on leased GPUs."),
    "map": CommandEntry(
        "share", ".share.map:map_", "Run a command for many items, one worker per GPU."
    ),
    "lease": CommandEntry("share", ".share.lease:lease", "Lease GPUs for a shell or a command."),
    "leases": CommandEntry(
        "share", ".share.leases:leases", "Who holds which GPUs, and until when."
    ),
    "release": CommandEntry("share", ".share.leases:release", "Release a lease."),
    "reserve": CommandEntry("share", ".share.reserve:reserve_", "Reserve GPUs for a time to come."),
    "reservations": CommandEntry(
        "share", ".share.reserve:reservations", "What is reserved, and by whom."
    ),
    "wait": CommandEntry("share", ".share.free:wait", "Wait for GPUs (does not lease them)."),
    "env": CommandEntry("share", ".share.free:env", "Print variables that select GPUs, for eval."),
    "who": CommandEntry("share", ".share.who:who", "Who uses and holds the GPUs."),
    "submit": CommandEntry(
        "share", ".jobs.submit:submit", "Queue a command for when GPUs are free."
    ),
    "jobs": CommandEntry("share", ".jobs.group:jobs", "Waiting, running and ended jobs."),
    "cancel": CommandEntry("share", ".jobs.cancel:cancel", "Cancel waiting or running jobs."),
    "logs": CommandEntry("share", ".jobs.logs:logs", "The output of a job."),
    "estimate": CommandEntry(
        "share", ".share.estimate:estimate", "How much memory a model needs, and where it fits."
    ),
    "cordon": CommandEntry("share", ".share.cordon:cordon", "Take a GPU out of service."),
    "uncordon": CommandEntry("share", ".share.cordon:uncordon", "Return a GPU to service."),
    "runs": CommandEntry("record", ".runs.group:runs", "Recorded runs, and what they used."),
    "benchmark": CommandEntry(
        "record", ".benchmark.command:benchmark", "Drive a load at a server of a model."
    ),
    "probe": CommandEntry(
        "record", ".probing.probe:probe", "Find by trial the largest size that fits."
    ),
    "probes": CommandEntry("record", ".probing.probes:probes", "Results of earlier probes."),
    "nodes": CommandEntry("fleet", ".fleet.nodes:nodes", "The machines of a hub or a cluster."),
    "token": CommandEntry("fleet", ".fleet.token:token", "The named tokens of a hub."),
    "agent": CommandEntry("fleet", ".fleet.agent:agent", "Report this machine to a hub."),
    "hub": CommandEntry("fleet", ".watch.serve:hub", "Serve many machines in one place."),
    "setup": CommandEntry(
        "setup",
        ".setup.setup:setup",
        "Create the machine's lease book (root).",
    ),
    "config": CommandEntry("setup", ".setup.config:config", "Check and show the settings."),
    "cost": CommandEntry("setup", ".setup.cost:cost", "Measure what sampling costs."),
    "doctor": CommandEntry("setup", ".setup.doctor:doctor", "Diagnose problems and suggest fixes."),
    "selftest": CommandEntry(
        "setup", ".setup.selftest:selftest", "Check that readings are plausible."
    ),
    "audit": CommandEntry("setup", ".setup.audit:audit", "Who changed what through the server."),
    "gc": CommandEntry("setup", ".setup.gc:gc", "Compact the history, delete what is too old."),
    "seed": CommandEntry("setup", ".setup.seed:seed", "Generate sample history."),
    "mcp": CommandEntry("setup", "andon.cli.mcp.command:mcp", "Answer an assistant (MCP, stdio)."),
    "completion": CommandEntry(
        "setup", ".setup.completion:completion", "Print the shell completion script."
    ),
    "version": CommandEntry("setup", ".setup.version:version", "Print the version."),
}

ALIASES = {"bench": "cost"}
"""Other names of commands, which the overview leaves out."""

SHORT_FORMS = {"retry": ("jobs", "retry"), "requeue": ("jobs", "requeue")}
"""Commands of a group that can be typed without it."""
LISTED = frozenset({"alerts", "jobs", "leases", "nodes", "runs"})
LISTING = frozenset({"list", "ls"})
"""What these commands do without a further word, for those who type one."""

SYNONYMS = {
    **dict.fromkeys(("take", "claim", "lock", "alloc"), "lease --for 2h"),
    **dict.fromkeys(("give-back", "giveback", "return", "unlease", "unlock", "stop"), "release"),
    **dict.fromkeys(("extend", "renew"), "lease extend ID --for 1h"),
    **dict.fromkeys(("live", "monitor", "nvtop", "nvitop", "htop"), "top"),
    **dict.fromkeys(("nvidia-smi", "smi", "gpustat", "ls", "list", "gpus"), "status"),
    **dict.fromkeys(("processes", "procs", "pids"), "ps"),
    **dict.fromkeys(("users", "top-users", "usage"), "who"),
    **dict.fromkeys(("info", "inventory", "topology"), "devices"),
    **dict.fromkeys(("explain", "hot", "temp", "slow", "throttle"), "why"),
    **dict.fromkeys(("idle", "available"), "free"),
    **dict.fromkeys(("queue", "squeue", "qstat", "tsp"), "jobs"),
    **dict.fromkeys(("sinfo", "machines", "hosts", "cluster"), "nodes"),
    **dict.fromkeys(("sbatch", "qsub", "enqueue", "add", "later"), "submit"),
    **dict.fromkeys(("scancel", "qdel", "abort", "dequeue"), "cancel"),
    **dict.fromkeys(("tail", "output", "follow"), "logs"),
    **dict.fromkeys(("srun", "exec", "start"), "run"),
    **dict.fromkeys(("parallel", "xargs", "foreach", "batch"), "map"),
    **dict.fromkeys(("drain", "disable", "maintenance"), "cordon"),
    **dict.fromkeys(("undrain", "enable"), "uncordon"),
    **dict.fromkeys(("fit", "fits", "memory", "vram"), "estimate"),
    **dict.fromkeys(("batch-size", "oom"), "probe"),
    **dict.fromkeys(("compare", "diff"), "runs compare"),
    "baseline": "runs baseline",
    "export": "runs export",
    "diagnose": "doctor",
    **dict.fromkeys(("burn", "gpu-burn", "dcgmi", "health"), "check"),
    **dict.fromkeys(("metrics", "prometheus"), "exporter"),
    **dict.fromkeys(("silence", "unsilence", "ack", "rules"), "alerts --help"),
    **dict.fromkeys(
        ("notify", "notifier", "notifiers", "slack", "mail", "settings"), "config --help"
    ),
    **dict.fromkeys(("bug", "bugreport", "bug-report", "report"), "status --json > bug.json"),
    **dict.fromkeys(("web", "board", "dashboard", "login"), "open"),
}
"""Words that people try, and the command that does it."""

EXAMPLES = (
    ("andon", "what is going on here"),
    ("andon lease -d 3 --for 2h", "GPU 3 for two hours; exit returns it"),
    ("andon history 3 --who", "who used it in the last day"),
    ("andon status --json | jq .devices", "the same as JSON"),
    ("andon watch -i 500ms --out gpu.jsonl", "record to a file during a job"),
    ("andon ps --user alice --sort gpu", "who is using them"),
    ("andon --simulate 8", "try it without a GPU"),
    ("andon status --json > bug.json", "what to send with a bug report"),
)

EXIT_CODES = (
    (0, "fine"),
    (1, "failed"),
    (2, "usage or settings error"),
    (3, "unavailable: no device, no driver"),
    (4, "denied"),
    (5, "not found"),
    (6, "conflict"),
    (75, "timed out"),
)
