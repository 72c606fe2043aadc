"""`andon audit`: who changed what through the server."""

import click

from andon.access.audit_trail import AuditRow, audit_rows
from andon.cli.moments import moment
from andon.cli.options import chosen, shared
from andon.cli.show.render import local_time
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import UNKNOWN, styled
from andon.cli.terminal import Terminal
from andon.errors import Gone
from andon.host.state.node_folder import node_folder
from andon.model.shapes import to_json
from andon.node.audit_file import audit_lines

SCHEMA = "andon.audit/1"


@click.command()
@click.option(
    "--since", default="7d", type=moment, show_default=True, metavar="WHEN",
    help="Start: 7d, yesterday, 'Fri 18:00'.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print andon.audit/1: UTC seconds.")
@shared
def audit(since: float, as_json: bool) -> int:
    """Print who took, extended or released leases, handled alerts or cordoned GPUs.

    It lists only what was done through the server. The log is in the state folder of the user who
    runs the server, in this machine's part, and no one else can read it.
    """
    folder, terminal = node_folder(), Terminal.of(chosen())
    lines = list(audit_lines(folder))
    if not lines:
        raise Gone(
            f"there is no audit log in {folder}",
            hint="a server writes it: ask the user who runs it, or root",
        )
    rows = audit_rows(lines, since)
    if as_json:
        terminal.show_json({"schema": SCHEMA, "items": to_json(rows)})
    elif not rows:
        terminal.print(styled("nothing was changed through the server in this time", "dim"))
    else:
        terminal.print(*draw(COLUMNS, [TableRow(row) for row in rows], terminal.width))
    return 0


def _result(row: AuditRow) -> str:
    times = f" ({row.count} times)" if row.count > 1 else ""
    failed = f" {row.status}" if row.result == "failed" and row.status else ""
    return f"{row.result}{failed}{times}"


COLUMNS: tuple[TableColumn[AuditRow], ...] = (
    TableColumn("TIME", lambda row: styled(local_time(row.at)), lead=True),
    TableColumn("USER", lambda row: styled(row.user or UNKNOWN, "bold")),
    TableColumn("ACTION", lambda row: styled(row.action.replace("_", " "))),
    TableColumn("WHAT", lambda row: styled(row.subject or ""), elastic=12),
    TableColumn("RESULT", lambda row: styled(_result(row))),
    TableColumn("FROM", lambda row: styled(row.peer or "", "dim"), rank=1),
    TableColumn("KEY", lambda row: styled(row.key or "", "dim"), rank=2),
)
