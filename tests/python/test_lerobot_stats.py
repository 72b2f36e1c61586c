"""`meta/stats.json`: quantiles are those of all values of the dataset."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("robocache._native", reason="there is no compiled part")
for needed in ("av", "mcap", "rosbags", "zarr"):
    pytest.importorskip(needed, exc_type=ImportError)
import av  # noqa: E402 (what is missing is said first)
import robots  # noqa: E402
from bags import MS, T0, image, joints, write_bag  # noqa: E402
from configs import camera, configuration  # noqa: E402

from robocache.lerobot import join, to_lerobot  # noqa: E402
from robocache.lerobot.quantiles import of_counts, of_table, quantiles  # noqa: E402
from robocache.lerobot.stats import QUANTILES, _sampled  # noqa: E402

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:.*are left out:RuntimeWarning"),
]
SHARES = list(QUANTILES.values())
IMAGE = "observation.images.camera"
CONFIG = configuration(
    robots.JOINTS.replace("    history: {steps: 3, step_ms: 10}\n", ""),
    robots.ACTION,
    camera(32, 16),
    rate_hz=20,
    top="lag_ms: 20\n",
)


@pytest.fixture(scope="module", name="dataset")
def dataset_fixture(tmp_path_factory):
    """A dataset of episodes with different goals: a joint is near its goal in each of them."""
    folder, random = tmp_path_factory.mktemp("goals"), np.random.default_rng(7)
    for number, goal in enumerate(random.uniform(-1, 1, 8)):
        messages = []
        for k in range(200):
            ns = T0 + number * 10**11 + k * 10 * MS
            near = goal + random.uniform(-0.05, 0.05)
            messages.append(("/joints", ns + MS, joints(ns, a=near, b=k)))
            if k % 5 == 0:
                messages.append(("/command", ns + MS, joints(ns, a=near, b=goal, g=float(k > 9))))
                level = int(40 + 80 * (goal + 1)) + k // 20
                picture = np.full((32, 64, 3), [level, 255 - level, k], np.uint8)
                messages.append(("/camera", ns + MS, image(ns, picture)))
        write_bag(folder / "bags" / f"goal{number}", messages)
    (folder / "robot.yaml").write_text(CONFIG)
    to_lerobot([folder / "bags"], folder / "robot.yaml", folder / "dataset", images=True)
    return folder


def rows_of(out):
    return pa.concat_tables(map(pq.read_table, sorted(out.glob("data/*/*.parquet"))))


def stats_of(out):
    return json.loads((out / "meta/stats.json").read_text())


def expect_quantiles(stats, values):
    for name, share in QUANTILES.items():
        np.testing.assert_allclose(
            np.ravel(stats[name]), np.ravel(np.quantile(values, share, axis=0)), rtol=1e-12
        )


def test_quantiles_are_those_of_the_table(dataset):
    rows, stats = rows_of(dataset / "dataset"), stats_of(dataset / "dataset")
    for key in rows.column_names:
        if key != IMAGE:
            expect_quantiles(stats[key], np.array(rows[key].to_pylist(), np.float64))
    state = np.array(rows["observation.state"].to_pylist(), np.float64)[:, 0]
    q01, q99 = (stats["observation.state"][name][0] for name in ("q01", "q99"))
    scaled = 2 * (state - q01) / (q99 - q01) - 1
    assert np.mean(np.abs(scaled) > 1.0001) < 0.03


def test_quantiles_of_images_are_those_of_their_pixels(dataset):
    out = dataset / "dataset"
    rows, stats = rows_of(out), stats_of(out)[IMAGE]
    episodes, taken = np.array(rows["episode_index"]), []
    for episode in sorted(set(episodes.tolist())):
        frames = np.flatnonzero(episodes == episode)
        taken += frames[_sampled(len(frames))].tolist()
    pixels = []
    for at in taken:
        codec = av.CodecContext.create("png", "r")
        packet = av.Packet(rows[IMAGE][at].as_py()["bytes"])
        pixels.append(codec.decode(packet)[0].to_ndarray(format="rgb24").reshape(-1, 3))
    expect_quantiles(stats, np.concatenate(pixels) / 255)
    assert stats["count"] == [len(taken)]


def test_episodes_keep_their_own(dataset):
    out = dataset / "dataset"
    rows = rows_of(out)
    episodes = pa.concat_tables(map(pq.read_table, sorted(out.glob("meta/episodes/*/*.parquet"))))
    for episode in episodes.to_pylist():
        use = np.array(rows["episode_index"]) == episode["episode_index"]
        of = np.array(rows["observation.state"].to_pylist(), np.float64)[use]
        got = [episode[f"stats/observation.state/{name}"][0] for name in ("q01", "q50", "q99")]
        np.testing.assert_allclose(got, np.quantile(of[:, 0], [0.01, 0.5, 0.99]), atol=0.02)


def test_a_dataset_of_shares_has_the_quantiles_of_all(dataset, tmp_path):
    shares = [tmp_path / str(number) for number in (1, 2)]
    for number, out in enumerate(shares, start=1):
        options = [f"--share={number}/2"]
        config = dataset / "robot.yaml"
        to_lerobot([dataset / "bags"], config, out, images=True, replay_options=options)
    join(shares, tmp_path / "joined")
    assert stats_of(tmp_path / "joined") == stats_of(dataset / "dataset")
    names = ("action", IMAGE)
    assert all(stats_of(shares[0])[name] != stats_of(tmp_path / "joined")[name] for name in names)


@pytest.mark.parametrize("rows", [1, 2, 3, 101, 4_000])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i4", "u1", "?"])
def test_quantiles_are_those_of_numpy(rows, dtype):
    random = np.random.default_rng(rows)
    values = random.normal(size=(rows, 3)) * 10.0 ** random.integers(-20, 20, (rows, 3))
    if np.dtype(dtype).kind in "iu?":
        info = np.iinfo(dtype) if dtype != "?" else None
        low, high = (info.min, info.max) if info else (0, 1)
        values = random.integers(
            low, high, (rows, 3), endpoint=True, dtype=info and info.dtype or "u1"
        )
    values = values.astype(dtype)
    got = quantiles(lambda _: ({"x": part} for part in np.array_split(values, 3)), SHARES)["x"]
    assert np.array_equal(got, np.quantile(values.astype(np.float64), SHARES, axis=0))


def test_quantiles_of_a_table_are_of_its_valid_rows(tmp_path):
    random = np.random.default_rng(0)
    paths, parts = [tmp_path / name for name in ("a.parquet", "b.parquet")], []
    for path in paths:
        values, valid = random.normal(size=(500, 4)).astype("f4"), random.random(500) < 0.5
        lists = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 4)
        never = pa.array(np.zeros(500, bool))
        pq.write_table(pa.table({"x": lists, "valid": pa.array(valid), "never": never}), path)
        parts.append((values, valid))
    features = {"x": {"shape": (4,)}}
    of_valid = np.concatenate([values[valid] for values, valid in parts]).astype(np.float64)
    got = of_table(paths, features, {"x": ["valid"]}, SHARES)["x"]
    assert np.array_equal(got, np.quantile(of_valid, SHARES, axis=0))
    every = np.concatenate([values for values, _ in parts]).astype(np.float64)
    got = of_table(paths, features, {"x": ["valid", "never"]}, SHARES)["x"]
    assert np.array_equal(got, np.quantile(every, SHARES, axis=0))


def test_quantiles_of_counts_are_those_of_what_they_count():
    counts = np.random.default_rng(3).integers(0, 4, 256)
    values = np.repeat(np.arange(256), counts)
    assert np.array_equal(of_counts(counts, SHARES), np.quantile(values.astype(float), SHARES))
