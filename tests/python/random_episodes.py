"""Random episodes of every kind of stream, and random batches of their windows."""

import json

import numpy as np

import robocache
from robocache import _native

MS = 1_000_000
NEVER = np.iinfo(np.int64).max
NO_CLOUD = np.iinfo(np.int64).min
FLOATS = ("f32", "f16", "bf16")
VIEWS = (None, "as_served", "strict", "all")


def bits(values, dtype):
    """Floats as rows of a type; bf16 as its bits."""
    if dtype == "f16":
        return values.astype(np.float16)
    return (values.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bf16" else values


def times(random, spans, capacity):
    """The columns of rows that come late and out of order into a ring of `capacity` rows, by span."""
    columns, ends = [], []
    for count in spans:
        stamps = (np.arange(count) - random.integers(0, 3, count)) * 10 * MS
        received = (np.arange(count) * 10 + random.integers(0, 60, count)) * MS
        ring, done = [], []
        for at in np.argsort(received, kind="stable"):
            stamp, came = int(stamps[at]), int(received[at])
            if len(ring) == capacity and ring[0][0] > stamp:
                continue
            same = [row for row in ring if row[0] == stamp]
            for row in same:
                ring.remove(row)
                done.append([*row, came, 1])
            ring = sorted([*ring, [stamp, came]])
            if len(ring) > capacity:
                done.append([*ring.pop(0), came, 0])
        done += [[*row, NEVER, 0] for row in ring]
        columns += sorted(done)
        ends.append(len(columns))
    table = np.array(columns, np.int64).reshape(-1, 4).T
    return [np.ascontiguousarray(column) for column in table], ends


def vector(random, name):
    """What the channels of a random vector are, and which strategies it can have."""
    lanes, groups = [], []
    for _ in range(random.integers(1, 4)):
        group = []
        for _ in range(random.integers(1, 5)):
            lane = random.choice(["linear", "angular", "quaternion"], p=[0.6, 0.2, 0.2])
            own = 4 if lane == "quaternion" else int(random.integers(1, 12))
            group += range(len(lanes), len(lanes) + own)
            lanes += [str(lane)] * own
        groups.append(group)
    channels = [{"name": f"{name}{at}", "lane": lane} for at, lane in enumerate(lanes)]
    spec = {"channels": channels, "groups": [{"channels": group} for group in groups]}
    if random.random() < 0.5:
        spec["outputs"] = outputs(random, lanes)
    return spec


def outputs(random, lanes):
    found, at = [], 0
    while at < len(lanes):
        if lanes[at] == "quaternion":
            entries = random.choice(9, int(random.integers(1, 9)), replace=False)
            for entry in entries:
                row, column = divmod(int(entry), 3)
                source = {"rotation": {"quaternion": at, "row": row, "column": column}}
                found.append({"source": source, "operators": operators(random, False)})
            at += 4
        else:
            unwraps = lanes[at] == "angular" and random.random() < 0.6
            found.append({"source": {"channel": at}, "operators": operators(random, unwraps)})
            at += 1
    random.shuffle(found)
    return [{"name": f"out{at}", **each} for at, each in enumerate(found)]


def operators(random, unwraps):
    low, high = sorted(random.normal(size=2).tolist())
    shift, scale, offset = random.normal(size=3).tolist()
    some = [
        {"clamp": {"low": low, "high": high}},
        {"affine": {"shift": shift, "scale": scale, "offset": offset}},
    ]
    random.shuffle(some)
    return ["unwrap"] * unwraps + some[: random.integers(0, 3)]


def stream(random, name, episodes, epochs):
    """What a random stream means, and the columns of its rings."""
    kind = random.choice(
        ["vector", "image", "merged", "sparse", "plan"], p=[0.5, 0.2, 0.1, 0.1, 0.1]
    )
    spec = vector(random, name) if kind in ("vector", "plan") else None
    shape = [int(n) for n in random.integers(1, 6, 3)]
    if kind == "image" and random.random() < 0.3:
        shape = [int(random.integers(20, 90)), int(random.integers(20, 60)), 3]
    if spec:
        shape = [len(spec.get("outputs") or spec["channels"])]
    dtype = str(random.choice(FLOATS if kind != "image" else [*FLOATS, "u8", "i32"]))
    rings = len(spec["groups"]) if spec else 1
    stored = [dtype if dtype in ("u8", "i32") else str(random.choice(FLOATS)) for _ in range(rings)]
    inputs = int(random.integers(1, 5)) if kind == "merged" else None
    places = [int(random.integers(1, 9)), 3] if kind == "sparse" else None
    strategies = ["hold", "nearest", "linear", "slerp"][: 4 if spec else 2]
    steps = int(random.choice([1, 2, 7, 33, 67]))
    start, step = int(random.integers(-150, 50)), int(random.integers(0, 30))
    listed = random.random() < 0.4
    means = {
        "name": name,
        "row_shape": shape,
        "coordinates_shape": places,
        "dtype": dtype,
        "row_dtypes": stored,
        "vector": spec,
        "channels": [],
        "target_offsets_ns": [(start + at * step) * MS for at in range(steps)],
        "present": int(random.integers(0, steps)),
        "strategy": str(random.choice(strategies)),
        "max_age_ns": int(random.integers(0, 60)) * MS,
        "max_gap_ns": int(random.integers(5, 60)) * MS,
        "fill": str(random.choice(["zero", "last", "first"])),
        "plans": kind == "plan",
        "max_age_ns_of_inputs": None if inputs is None else [50 * MS] * inputs,
        "valid_when": [int(random.integers(0, inputs))]
        if inputs and listed
        else str(random.choice(["all", "any"])),
    }
    capacity = int(random.integers(2, 30))
    return means, [ring(random, means, at, episodes, epochs, capacity) for at in range(rings)]


def ring(random, means, at, episodes, epochs, capacity):
    lacks = random.random(episodes) < 0.2
    counts = [
        0 if lacks[e] else int(random.integers(0, 50))
        for e in range(episodes)
        for _ in range(epochs)
    ]
    (stamp, received, left, replaced), ends = times(random, counts, capacity)
    rows = len(stamp)
    spec = means["vector"]
    width = len(spec["groups"][at]["channels"]) if spec else int(np.prod(means["row_shape"]))
    dtype = means["row_dtypes"][at]
    if dtype in ("u8", "i32"):
        low, end, kind = (0, 256, np.uint8) if dtype == "u8" else (-128, 127, np.int32)
        values = random.integers(low, end, (rows, width)).astype(kind)
    else:
        values = bits((random.normal(size=(rows, width)) * 2).astype(np.float32), dtype)
    columns = {
        "rows": values,
        "stamp_ns": stamp,
        "received_ns": received,
        "left_ns": left,
        "replaced": replaced.astype(np.bool_),
        "epoch": np.repeat(np.tile(np.arange(epochs), episodes), np.diff([0, *ends])).astype(
            np.int64
        ),
        "episode_ends": np.array(ends[epochs - 1 :: epochs], np.int64),
    }
    if means["plans"]:
        columns["until_next"] = random.integers(0, 3, rows).astype(np.uint8)
    if means["max_age_ns_of_inputs"]:
        until = (
            stamp[:, None]
            + random.integers(-20, 90, (rows, len(means["max_age_ns_of_inputs"]))) * MS
        )
        columns["until_ns"] = np.where(random.random(until.shape) < 0.2, NO_CLOUD, until)
    if means["coordinates_shape"]:
        places = means["coordinates_shape"]
        columns["count"] = random.integers(0, places[0] + 1, rows).astype(np.uint32)
        columns["coordinates"] = random.integers(0, 99, (rows, *places)).astype(np.int32)
    return columns


def episodes(seed):
    """A cache of one to three random streams, and the number of epochs of each episode."""
    random = np.random.default_rng(seed)
    count, epochs = int(random.integers(1, 5)), int(random.integers(1, 3))
    streams = [stream(random, name, count, epochs) for name in "abc"[: random.integers(1, 4)]]
    about = [{"name": str(at)} for at in range(count)]
    text = {"episodes": about, "streams": [means for means, _ in streams]}
    native = _native.Episodes.of_columns(json.dumps(text), [rings for _, rings in streams])
    return robocache.EpisodeCache(native)


def batch(seed, cache):
    """The arguments of random windows of a cache."""
    random = np.random.default_rng([seed, 1])
    count = int(random.choice([0, 1, 3, 30, 64, 300]))
    numbers = random.integers(0, len(cache.episodes), count)
    rows = VIEWS[random.integers(0, 4)]
    arguments = {"rows": rows, "seed": int(seed)}
    config = {
        name: held(cache, name, choice(random, cache.streams[name]), rows)
        for name in cache.streams
        if random.random() < 0.8
    }
    arguments["config"] = config or None
    if random.random() < 0.3:
        arguments["jitter_ns"] = 7 * MS
    if random.random() < 0.4:
        names = list(config or cache.streams)
        arguments["latency_ns"] = {names[0]: (0, 40 * MS)}
    if random.random() < 0.3:
        spans = [cache.episodes[number]["spans"] for number in numbers]
        arguments["epochs"] = np.array(
            [own[random.integers(0, len(own))][0] for own in spans], np.int64
        )
    return numbers, random.integers(-50, 600, count) * MS + random.integers(0, 2, count), arguments


def choice(random, means):
    found = {}
    if means["dtype"] not in ("u8", "i32") and random.random() < 0.5:
        found["dtype"] = str(random.choice(FLOATS))
    if means["dtype"] == "u8" and random.random() < 0.6:
        found |= {"scale": True, "dtype": str(random.choice(FLOATS))}
    if random.random() < 0.3:
        found["fill"] = str(random.choice(["last", "first"]))
    if random.random() < 0.3:
        found["offsets_ns"] = (random.integers(-200, 200, random.integers(1, 40)) * MS).tolist()
        found["present"] = int(random.integers(0, len(found["offsets_ns"])))
    if random.random() < 0.3 and not means["plans"]:
        found["label"] = True
    return found


def held(cache, name, config, rows):
    """What is chosen of a stream. Steps that its ring does not hold are of all rows."""
    try:
        cache.plan({name: config}, rows=rows)
    except ValueError as error:
        assert "rows: all" in str(error) and "offsets_ns" in config, error
        config = {**config, "rows": "all"}
        cache.plan({name: config}, rows=rows)
    return config


def parts(windows):
    """All that windows hold, as bytes of the host by stream and part."""
    found = {}
    for name in windows:
        segment = windows[name]
        for part in ("array", "valid", "age_ns", "count", "coordinates"):
            array = getattr(segment, part)
            if array is None:
                continue
            if not isinstance(array, np.ndarray):
                import torch

                array = array.contiguous().cpu()
                array = array.reshape(-1).view(torch.uint8).numpy()
            found[name, part] = np.ascontiguousarray(array).tobytes()
    return found
