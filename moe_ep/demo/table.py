"""How the demo's report looks on a terminal: one table of phases, the experts' load, the verdict.

rich decides about colour, width and characters by what it writes to; 80 columns are enough.
"""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from moe_ep.demo.report import LEDGERS


def human_bytes(count: int) -> str:
    """``count`` in the largest binary unit that leaves at least 1, with one decimal."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def human_ms(time_us: float) -> str:
    """Microseconds as milliseconds, to the microsecond or to four digits."""
    ms = time_us / 1000
    return f"{ms:.{3 if ms < 10 else 2 if ms < 100 else 1 if ms < 1000 else 0}f}"


def render(report: dict[str, Any], console: Console) -> None:
    """Prints the report; nothing in it is parsed as markup."""
    shape = report["shape"]
    console.print(
        Text(
            f"{report['tokens']} tokens of {report['source']} on {report['pes']} PEs: "
            f"{shape['experts']} experts, top {shape['topk']}, hidden {shape['hidden']}, seed {shape['seed']}"
        )
    )
    console.print(_phases(report))
    load = report["tokens_per_expert"]
    console.print(Text(f"tokens per expert: min {load['min']}, mean {load['mean']:.1f}, max {load['max']}"))
    console.print(_verdict(report))


def _phases(report: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("phase", no_wrap=True)
    for heading in ("p50 ms", "p99 ms", "logical", "physical", "wire", "DeepEP's"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in report["phases"]:
        counted = row["bytes"]
        sizes = [human_bytes(counted[name]) for name in LEDGERS] if counted else ["-"] * len(LEDGERS)
        table.add_row(row["phase"], human_ms(row["p50"]), human_ms(row["p99"]), *sizes)
    return table


def _verdict(report: dict[str, Any]) -> Text:
    if report["equal"]:
        return Text("result: equals the oracle bit for bit", style="bold green")
    return Text(f"result: DIFFERS from the oracle: {report['difference']}", style="bold red")
