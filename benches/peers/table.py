"""Prints the results of benches/gpu.sh as one table, with the floor and the peers of each case."""

import json
import pathlib
import sys


def load(path):
    return json.loads(path.read_text()) if path.is_file() else None


def number(value):
    return "-" if value is None else f"{value:.2f}"


def verdict(target, time, alone):
    if target is None:
        return ""
    if time > target:
        return "missed"
    return "reached, but not alone" if alone is not None and alone > target else "reached"


def main():
    folder = pathlib.Path(sys.argv[1])
    bench, peers = load(folder / "bench.json"), load(folder / "peers.json")
    if bench is None:
        return
    others = (peers or {}).get("cases", {})
    own = {case["name"]: case for case in bench["cases"]}
    print(
        f"{bench['device']}, commit {bench['commit']}, {(folder / 'gpu.txt').read_text().strip()}"
    )
    print(f"copy {bench['copy_gb_per_s']:.0f} GB/s, empty kernel {bench['empty_us']:.2f} us")
    head = ["case [us]", "robocache", "p99", "alone", "floor", "x floor", "plain", "eager"]
    rows = [[*head, "compiled", "x faster", "to reach", ""]]
    for name, case in own.items():
        if name.startswith("  plain"):
            continue
        peer = others.get(name, {})
        plain = own.get(f"  plain: {name}", {}).get("median_us")
        best = min(
            (us for us in (plain, *peer.values()) if us is not None),
            default=None,
        )
        time, floor, target = case["median_us"], case["floor_us"], case["target_us"]
        rows.append(
            [
                name,
                number(time),
                number(case["p99_us"]),
                number(case["alone_us"]),
                number(floor),
                number(floor and time / floor),
                number(plain),
                number(peer.get("eager_us")),
                number(peer.get("compiled_us")),
                number(best and best / time),
                number(target),
                verdict(target, time, case["alone_us"]),
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        print(" ".join([first, *rest]).rstrip())
    print("alone: the median if each call starts after the last one has ended; else calls overlap")


if __name__ == "__main__":
    main()
