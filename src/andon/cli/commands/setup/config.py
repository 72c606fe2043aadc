"""`andon config`: every setting, its value and where the value comes from."""

from pathlib import Path

import click

from andon.app.settings import check_settings
from andon.cli.commands.command_group import SuggestingGroup
from andon.cli.options import chosen, shared, use_config
from andon.cli.show.render import paragraph
from andon.cli.show.table import TableColumn, draw
from andon.cli.show.table import TableRow as Line
from andon.cli.show.text import Text, styled
from andon.cli.sources import resolved_of
from andon.cli.terminal import Terminal, notice
from andon.errors import Unavailable
from andon.host.files import is_regular
from andon.host.state.user_folder import SYSTEM_FILE, config_path
from andon.settings.alerts import shown
from andon.settings.exports import shown as shown_export
from andon.settings.resolution import Resolved, SettingRow, describe

SCHEMA = "andon.settings/1"


@click.group(cls=SuggestingGroup, invoke_without_command=True)
@shared
@click.pass_context
def config(context: click.Context) -> int | None:
    """Check and show the settings; without a command, list every setting.

    A flag beats an ANDON_* variable, which beats the file, which beats the default. The file is
    the one that --config or ANDON_CONFIG names, else ~/.config/andon/andon.toml, else
    /etc/andon/andon.toml.

    To be notified in a Slack channel: andon alerts notify add slack URL. It adds the lines to the
    file and tries them; e-mail, webhooks, PagerDuty and commands are added in the same way.
    """
    if context.invoked_subcommand is None:
        _reference(Terminal.of(chosen()))
        return 0
    return None


@config.command(short_help="Report every mistake in the settings at once.")
@click.argument("file", required=False)
@shared
def check(file: str | None) -> int:
    """Report every mistake in the settings at once; exit code 2 if there is one."""
    choices = chosen()
    if file is not None:
        use_config(file)
    resolved = check_settings(choices.flags())
    choices.color = choices.color or resolved.settings.color
    changed = [n for n, o in resolved.origin.items() if o != "default"]
    path = config_path()
    total = len(describe())
    differ = f"{len(changed)} of {total} settings differ from their defaults"
    where = "no config file" if path is None else f"{path}: OK"
    if path is None and is_regular(SYSTEM_FILE):
        where = f"{SYSTEM_FILE} is not read: only its owner may"
    if path is not None and resolved.settings.alerts_notifiers and _open_to_others(path):
        notice(f"{path} contains notifier addresses; others can read it: chmod 600", choices)
    if not changed:
        differ = f"all {total} settings are at their defaults"
    Terminal.of(choices).remark(f"{where}; {differ}")
    return 0


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Print andon.settings/1.")
@shared
def show(as_json: bool) -> int:
    """Print each setting, its value and where the value comes from."""
    choices = chosen()
    resolved, terminal = resolved_of(choices), Terminal.of(choices)
    if as_json:
        terminal.show_json(settings_to_json(resolved))
    else:
        terminal.print(*render_settings(resolved, terminal.width))
    return 0


@config.command()
@shared
def path() -> int:
    """Print the path of the file in force; exit code 3 if there is none."""
    found = config_path()
    if found is None:
        raise Unavailable(
            "there is no configuration file; none is required",
            hint="to use one, create ~/.config/andon/andon.toml",
        )
    Terminal.of(chosen()).show(f"{found}\n")
    return 0


def _open_to_others(path: Path) -> bool:
    """Whether others can read the file: an address often contains a password."""
    try:
        return bool(path.stat().st_mode & 0o044)
    except OSError:
        return False


def _reference(terminal: Terminal) -> None:
    """Every setting in full: a reference must not be cut off."""
    lines: list[Text] = []
    for row in describe():
        lines.append(
            styled(row.place, "bold")
            + styled(f" = {row.default}")
            + styled(f"  {row.variable}", "dim")
        )
        text = f"    {row.help} ({row.allowed})"
        lines += paragraph(text, terminal.width, indent=4)
    terminal.print(*lines)


def render_settings(resolved: Resolved, width: int) -> list[Text]:
    """The table of settings; those at their defaults are dim."""
    columns: list[TableColumn[SettingRow]] = [
        TableColumn("SETTING", lambda row: styled(row.place, "bold")),
        TableColumn("VALUE", lambda row: styled(_shown(resolved, row)), rank=1, elastic=12),
        TableColumn("FROM", lambda row: styled(resolved.origin_of(row.name)), rank=2, elastic=12),
        TableColumn("MEANING", lambda row: styled(row.help, "dim"), rank=3, elastic=24),
    ]
    rows = [
        Line(row, style="dim" if resolved.origin_of(row.name) == "default" else None)
        for row in describe()
    ]
    return [*draw(columns, rows, width), *_tables(resolved, width)]


def _tables(resolved: Resolved, width: int) -> list[Text]:
    """The tables that only the file can contain: one paragraph each, addresses masked."""
    tables = _tables_to_json(resolved)
    lines: list[Text] = []
    for name, rows in tables.items():
        for row in rows:
            pairs = ", ".join(
                f"{key} = {_word(value)}" for key, value in row.items() if _given(value)
            )
            one = name.removesuffix("s")
            place = one if name in ("clusters", "exports") else f"alerts.{one}"
            lines += paragraph(f"{place}  {pairs}", width, indent=4)
    return lines


def _given(value: object) -> bool:
    """Whether a value says anything: 0 does."""
    return bool(value) or type(value) in (int, float)


def _word(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _tables_to_json(resolved: Resolved) -> dict[str, list[dict[str, object]]]:
    settings = resolved.settings
    clusters: list[dict[str, object]] = [
        {
            "name": one.name,
            "kind": one.kind,
            "timeout_seconds": one.timeout_seconds,
            "options": sorted(one.options),  # their values may be secrets
        }
        for one in settings.clusters
    ]
    overrides: list[dict[str, object]] = [
        {
            "device": one.device,
            "model": one.model,
            **one.figures,
            "disabled_rules": list(one.disabled_rules),
        }
        for one in settings.alerts_overrides
    ]
    return {
        "overrides": overrides,
        "notifiers": [shown(one) for one in settings.alerts_notifiers],
        "clusters": clusters,
        "exports": [shown_export(one) for one in settings.exports],
    }


def _shown(resolved: Resolved, row: SettingRow) -> str:
    value = resolved.shown(row.name)
    if value is None:
        return "off"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "true" if value else "false"  # as in the file
    return '""' if value == "" else f"{value:.15g}" if isinstance(value, float) else str(value)


def settings_to_json(resolved: Resolved) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        **_tables_to_json(resolved),
        "settings": {
            row.name: {
                "value": resolved.shown(row.name),
                "origin": resolved.origin_of(row.name),
                "key": row.place,
                "variable": row.variable,
            }
            for row in describe()
        },
    }
