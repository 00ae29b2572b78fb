"""The table of a restore on a terminal; must not know how records are written."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gapless_api.base.quantities import quantity
from gapless_spark.archiving.restore.report import partition_report
from gapless_spark.output.tables import MAX_ROWS, new_table, open_console, print_omitted

if TYPE_CHECKING:
    from gapless_spark.archiving.restore.account import Account


def show(account: Account) -> None:
    """Print a table of the partitions, the topics that would be created, and the findings."""
    from rich.text import Text  # noqa: PLC0415 -- slow to import

    console = open_console(sys.stdout)
    table = new_table(
        ["source", "target"], ["offsets", "records", "bytes", "deleted before archived", "lost", "refused"]
    )
    rows = 0
    for restore in account.restores:
        for plan in restore.plans:
            partition = partition_report(account, restore, plan)
            if not (plan.ranges or partition.records or partition.explained or partition.lost or partition.refused):
                continue
            rows += 1
            if rows <= MAX_ROWS:
                table.add_row(
                    Text(f"{restore.source}/{plan.partition}"),
                    Text(f"{restore.target}/{plan.target_partition}"),
                    "-" if partition.first is None else f"{partition.first}-{partition.last}",
                    f"{partition.records:,}",
                    f"{partition.bytes:,}",
                    f"{sum(each.last - each.first + 1 for each in partition.explained):,}",
                    f"{sum(each.last - each.first + 1 for each in partition.lost):,}",
                    f"{account.refused(restore, plan.partition).count:,}",
                )
    if rows:
        console.print(table)
    print_omitted(console, rows - MAX_ROWS)
    for new in account.new_topics if account.is_plan else ():
        settings = (
            ", ".join(f"{name}={value}" for name, value in sorted(new.configuration.items())) or "no own settings"
        )
        console.print(
            f"Would create {new.topic} with {quantity(new.partitions, 'partition')}, {settings}.", markup=False
        )
    for finding in account.findings if account.is_plan else ():
        if not finding.refuses:
            console.print(f"Note: {finding.sentence}", markup=False)
