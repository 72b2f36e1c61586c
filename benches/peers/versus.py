"""Compares the benchmarks of two commits that ran in turns: benches/gpu.sh versus.

    python3 benches/peers/versus.py FOLDER

Reads versus_old_*.json and versus_new_*.json of the folder. Of each case it prints the median of
the rounds' medians, old and new, overlapping and alone, and their ratio. If every
new round of a case is slower than every old one, and by more than 3 %, it marks the case, and the
exit code is 1.
"""

import json
import statistics
import sys
from pathlib import Path

#: A ratio that is worth a look, if the rounds agree.
LIMIT = 1.03


def rounds(folder, name):
    """The times of all rounds of a commit: {case: {key: [us]}}."""
    times = {}
    for path in sorted(folder.glob(f"versus_{name}_*.json")):
        for case in json.loads(path.read_text())["cases"]:
            for key in ("median_us", "alone_us"):
                if case.get(key) is not None:
                    of_case = times.setdefault(case["name"], {})
                    of_case.setdefault(key, []).append(case[key])
    return times


def is_slower(old, new):
    """Whether every new round is slower than every old one, and by more than the limit."""
    return min(new) > max(old) and statistics.median(new) > LIMIT * statistics.median(old)


def row(name, cells):
    """A line of the table."""
    widths = (9, 9, 6, 9, 9, 6)
    columns = (f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"{name:52} {' '.join(columns)}"


def main():
    folder = Path(sys.argv[1])
    old, new = rounds(folder, "old"), rounds(folder, "new")
    print(row("case", ["old us", "new us", "ratio", "old alone", "new", "ratio"]))
    slower = False
    for name in old:
        if name not in new:
            print(f"{name:52} is not in the new one")
            continue
        cells, marks = [], []
        for key in ("median_us", "alone_us"):
            if key not in old[name] or key not in new[name]:
                cells += ["-", "-", "-"]
                continue
            before, after = (statistics.median(of[name][key]) for of in (old, new))
            cells += [f"{before:.2f}", f"{after:.2f}", f"{after / before:.3f}"]
            marks.append(is_slower(old[name][key], new[name][key]))
        print(row(name, cells) + ("  slower" if any(marks) else ""))
        slower |= any(marks)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
