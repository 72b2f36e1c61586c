"""Prints the results of benches/gpu.sh as one table, with the floor and the peers of each case."""

import json
import pathlib
import sys


def load(path):
    return json.loads(path.read_text()) if path.is_file() else None


def number(value):
    return "-" if value is None else f"{value:.2f}"


def least(peer, prefix):
    found = [peer.get(f"{prefix}{kind}_us") for kind in ("eager", "compiled")]
    return min((us for us in found if us is not None), default=None)


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
    head = ["case [us]", "overlapping", "p99", "alone", "warm", "floor", "x floor", "eager"]
    head += ["eager, warm", "compiled", "compiled, warm", "x faster"]
    rows = [[*head, "fast peer", "fast, warm", "to reach", ""]]
    for name, case in own.items():
        peer = others.get(name, {})
        time, floor, target = case["median_us"], case["floor_us"], case["target_us"]
        alone = case.get("alone_us")
        # Calls of peers do not overlap, and their inputs and outputs are cold.
        best = least(peer, "")
        values = [time, case["p99_us"], alone, case.get("warm_us"), floor, floor and time / floor]
        values += [peer.get("eager_us"), peer.get("warm_eager_us")]
        values += [peer.get("compiled_us"), peer.get("warm_compiled_us")]
        values += [best and alone and best / alone]
        values += [least(peer, "fast_"), least(peer, "fast_warm_"), target]
        rows.append([name, *map(number, values), verdict(target, time, alone)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        print(" ".join([first, *rest]).rstrip())
    print(
        "alone: each call starts after the last one has ended. The peers and 'warm' are alone, too."
    )
    print(
        "warm: one input and one output stay in the cache; else both rotate through more than it holds"
    )
    print(
        "fast peer: the faster of eager and compiled torch without bounds, drops and rows of bf16"
    )


if __name__ == "__main__":
    main()
