"""Summarises the counters of a profiled benchmark: one line per kernel and number of blocks."""

import csv
import statistics
import sys

SHORT = {
    "gpu__time_duration.sum": "us",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram %",
    "lts__t_sectors.avg.pct_of_peak_sustained_elapsed": "L2 %",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps %",
    "sm__inst_executed.avg.per_cycle_elapsed": "ipc",
    "launch__registers_per_thread": "regs",
}
STALL = "smsp__average_warps_issue_stalled_"


def title(metric):
    if metric.startswith(STALL):
        return metric.removeprefix(STALL).split("_per_issue")[0][:12]
    return SHORT.get(metric)


def number(text):
    return float(text.replace(",", ""))


def main(path):
    with open(path, newline="") as file:
        rows = list(csv.reader(line for line in file if line.startswith('"')))
    if len(rows) < 3:
        raise SystemExit(f"{path}: expected profiled launches, found none")
    head, units, launches = rows[0], rows[1], rows[2:]
    columns = [(at, title(name)) for at, name in enumerate(head) if title(name)]
    groups = {}
    for row in launches:
        key = (row[head.index("Kernel Name")], row[head.index("Grid Size")])
        groups.setdefault(key, []).append(row)
    print(f"{'kernel':24} {'blocks':>16} {'n':>5}", *(f"{name:>13}" for _, name in columns))
    for (kernel, grid), group in groups.items():
        values = []
        for at, _ in columns:
            value = statistics.median(number(row[at]) for row in group)
            values.append(value / 1e3 if units[at] in ("ns", "nsecond") else value)
        print(f"{kernel:24} {grid:>16} {len(group):5}", *(f"{value:13.2f}" for value in values))


if __name__ == "__main__":
    main(sys.argv[1])
