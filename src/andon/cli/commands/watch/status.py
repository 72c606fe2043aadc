"""`andon status`: one line per device, now."""

import click

from andon.cli.options import chosen, elsewhere, fresh_option, shared, with_devices
from andon.cli.status_json import print_json
from andon.cli.status_table import print_status


@click.command()
@with_devices()
@click.option("--json", "as_json", is_flag=True, help="Print andon.snapshot/1: UTC, bytes.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, one row per device.")
@click.option("--only-visible", is_flag=True, help="Leave out devices hidden by a mask.")
@click.option("--verbose", "-v", is_flag=True, help="Say why each missing value is missing.")
@click.option("--judged", is_flag=True, hidden=True)  # for an andon elsewhere, not for people
@fresh_option
@elsewhere
@shared
def status(
    devices: list[str],
    as_json: bool,
    as_csv: bool,
    only_visible: bool,
    verbose: bool,
    judged: bool,
) -> int:
    """Print one line per device: utilisation, memory, temperature, power, and who uses it.

    The last line says which GPUs are free to use. A dash is a value that the device does not
    report; 0 % is a reading. Wider terminals show more columns; from 160 on also values that need a
    second reading: SM activity, and the traffic over PCIe and NVLink. The exit code is 0 if a
    device responds or is asleep, else 3.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv cannot be combined")
    if as_json:
        return print_json(chosen(), devices, only_visible, judged)
    return print_status(chosen(), devices, as_csv, only_visible, verbose)
