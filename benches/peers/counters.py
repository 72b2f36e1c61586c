"""Sums up the counters of profiled benchmarks: one line per case, kernel and number of blocks.

    counters.py FILE...     raw pages of Nsight Compute as CSV, with a line `==CASE== NAME` in each

Values are medians over the profiled launches. If a file has no launches, a line says so and the
exit code is 1.
"""

import csv
import math
import pathlib
import re
import statistics
import sys

SECTOR_BYTES = 32

# Metric, title, digits, and factors from Nsight Compute's units to the one shown. A value of
# another unit is shown with its unit.
TIME = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3}
BYTES = {"byte": 1e-6, "Kbyte": 1e-3, "Mbyte": 1.0, "Gbyte": 1e3}
SECTORS = {f"{k}sector": SECTOR_BYTES * v for k, v in {"": 1e-6, "K": 1e-3, "M": 1.0}.items()}
INSTRUCTIONS = {"inst": 1e-6, "Kinst": 1e-3, "Minst": 1.0, "": 1e-6}
PERCENT, IPC, REGISTERS = {"%": 1.0}, {"inst/cycle": 1.0}, {"register/thread": 1.0}
COLUMNS = [
    ("gpu__time_duration.sum", "us", 2, TIME),
    ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "dram %", 1, PERCENT),
    ("dram__bytes_read.sum", "rd MB", 2, BYTES),
    ("dram__bytes_write.sum", "wr MB", 2, BYTES),
    ("lts__throughput.avg.pct_of_peak_sustained_elapsed", "L2 %", 1, PERCENT),
    ("lts__t_sectors.avg.pct_of_peak_sustained_elapsed", "sect %", 1, PERCENT),
    ("lts__t_sectors.sum", "L2 MB", 2, SECTORS),
    ("sm__warps_active.avg.pct_of_peak_sustained_active", "warps %", 1, PERCENT),
    ("sm__inst_executed.avg.per_cycle_elapsed", "ipc", 2, IPC),
    ("smsp__inst_executed.sum", "M inst", 3, INSTRUCTIONS),
    ("launch__registers_per_thread", "regs", 0, REGISTERS),
]
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")


def median(rows, at):
    """The median of a column; None if no launch has a number in it."""
    values = []
    for row in rows:
        try:
            values.append(float(row[at].replace(",", "")))
        except ValueError:
            continue
    return statistics.median(values) if values else None


def cell(value, unit, digits, factors):
    if value is None:
        return "-"
    if unit not in factors:
        return f"{value:g} {unit}"
    return f"{value * factors[unit]:.{digits}f}"


def stalls(head, rows):
    """The two reasons for which most warps wait, with the waiting warps per issued instruction."""
    found = []
    for at, name in enumerate(head):
        reason = STALL.fullmatch(name)
        value = median(rows, at) if reason else None
        if value is not None:
            found.append((value, reason[1]))
    found.sort(reverse=True)
    return ", ".join(f"{reason} {value:.2f}" for value, reason in found[:2]) or "-"


def lines(path):
    """The case of a file, and a table row for each kernel and grid."""
    text = pathlib.Path(path).read_text().splitlines()
    names = [line.removeprefix("==CASE== ") for line in text if line.startswith("==CASE== ")]
    name = names[-1] if names else pathlib.Path(path).stem
    rows = list(csv.reader(line for line in text if line.startswith('"')))
    if len(rows) < 3:
        return name, []
    head, units, launches = rows[0], rows[1], rows[2:]
    groups = {}
    for row in launches:
        # A truncated file may end anywhere.
        if len(row) == len(head):
            key = (row[head.index("Kernel Name")].split("(")[0], row[head.index("Grid Size")])
            groups.setdefault(key, []).append(row)
    table = []
    for (kernel, grid), group in groups.items():
        blocks = math.prod(int(number) for number in re.findall(r"\d+", grid))
        row = [name, kernel, str(blocks), str(len(group))]
        for metric, _, digits, factors in COLUMNS:
            at = head.index(metric) if metric in head else None
            row.append("-" if at is None else cell(median(group, at), units[at], digits, factors))
        table.append([*row, stalls(head, group)])
    return name, table


def main(paths):
    titles = [title for _, title, _, _ in COLUMNS]
    table = [["case", "kernel", "blocks", "n", *titles, "most stalls (warps per issue)"]]
    without = []
    for path in paths:
        name, rows = lines(path)
        table += rows
        if not rows:
            without.append(name)
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    texts = {0, 1, len(widths) - 1}
    for row in table:
        cells = zip(row, widths, strict=True)
        aligned = (
            text.ljust(width) if i in texts else text.rjust(width)
            for i, (text, width) in enumerate(cells)
        )
        print("  ".join(aligned).rstrip())
    for name in without:
        print(f"{name}: expected profiled launches, found none")
    return 1 if without else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
