"""`robocache replay --format rows --images jpeg:QUALITY`: rows of images with loss.

Rows are read by zarr-python with imagecodecs and by Pillow; what is lost is worked out here from the rows of a store
without loss.
"""

import io
import json
import shutil

import numpy as np
import pytest
import zarr
from bags import MS, T0, image, wrench, write_bag
from configs import WRENCH, camera, configuration
from PIL import Image as Picture
from replays import replay, run
from same_files import expect_same

pytest.importorskip("imagecodecs", reason="scripts/requirements-test.txt has it")
pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
import jpeg_codec

import robocache

SIZE = "width: 96, height: 72, fit: stretch, filter: pil_bilinear"


def images(name, layout, color, dtype="u8"):
    return f"""\
  {name}:
    type: sensor_msgs/Image
    topic: /camera
    max_age_ms: 100
    dtype: {dtype}
    image: {{resize: {{{SIZE}}}, layout: {layout}, color: {color}}}
"""


JPEG = ("camera", "planes", "blue", "gray")
#: Rows of bytes in every layout, one of them smaller than the rows that are chunks by their size, and rows of floats.
CONFIG = configuration(
    WRENCH,
    camera(96, 72, more="    history: {steps: 3, step_ms: 30}\n"),
    images("planes", "chw", "rgb"),
    images("blue", "chw", "bgr"),
    images("gray", "chw", "mono"),
    images("bright", "chw", "rgb", dtype="f32"),
    rate_hz=50,
)
ROWS = ["--format", "rows"]
LOSSY = [*ROWS, "--images", "jpeg:90"]


def bag(path, seed):
    """A second of images at 20 Hz: a scene that moves, with noise; some repeat the one before."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:72, 0:96] / 12
    messages = [
        ("/wrench", T0 + at * MS, wrench(T0 + at * MS, at, 0, 0)) for at in range(0, 1000, 10)
    ]
    for number in range(20):
        if number not in (7, 8):
            scene = np.stack([np.sin(x + number / 3), np.cos(y), np.sin(x + y)], axis=-1)
            noisy = 127 + 90 * scene + random.normal(scale=2, size=(72, 96, 3))
            pixels = np.clip(noisy, 0, 255).astype(np.uint8)
        ns = T0 + number * 50 * MS
        messages.append(("/camera", ns, image(ns, pixels)))
    return write_bag(path, sorted(messages, key=lambda message: message[1]))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The configuration, two bags, a store without loss, a lossy one and what the command said of its episodes."""
    folder = tmp_path_factory.mktemp("jpeg")
    bags = [bag(folder / f"bag{seed}", seed) for seed in (1, 2)]
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    replay(config, folder / "plain", *bags, options=ROWS)
    told = replay(config, folder / "lossy", *bags, options=LOSSY)
    return config, bags, folder / "plain" / "rows.zarr", folder / "lossy" / "rows.zarr", told


def rows_of(store, name):
    """The rows of all episodes, one after the other, and the codecs of a chunk; by zarr-python."""
    group = zarr.open_group(store / "streams" / name / "0", mode="r")
    spans = zip(group["episode_begins"][:], group["episode_ends"][:], strict=True)
    rows, codecs = jpeg_codec.rows(store, name)
    return np.concatenate([rows[begin:end] for begin, end in spans]), codecs


def test_zarr_python_and_pillow_read_the_rows(made):
    _, _, plain, lossy, _ = made
    for name in JPEG:
        before, (after, codecs) = rows_of(plain, name)[0], rows_of(lossy, name)
        assert codecs[-2:] == ["imagecodecs_jpeg", "crc32c"] and before.shape == after.shape
        last = name == "camera"
        assert codecs[:-2] == ([] if last else ["transpose"])
        for number in (0, 8, 39):
            expected = before[number] if last else before[number].transpose(1, 2, 0)
            expected = expected[:, :, ::-1] if name == "blue" else expected
            file = io.BytesIO()
            mode = {"quality": 90} if name == "gray" else {"quality": 90, "subsampling": "4:4:4"}
            Picture.fromarray(expected.squeeze()).save(file, "JPEG", **mode)
            pixels = np.asarray(Picture.open(file)).reshape(expected.shape)
            pixels = pixels[:, :, ::-1] if name == "blue" else pixels
            found = after[number] if last else after[number].transpose(1, 2, 0)
            np.testing.assert_array_equal(found, pixels, name)
    for name in ("bright", "wrench"):
        np.testing.assert_array_equal(rows_of(plain, name)[0], rows_of(lossy, name)[0])


def test_windows_have_the_rows_in_memory_compressed_and_saved(made, tmp_path):
    lossy = made[3]
    load = robocache.EpisodeCache.load
    memory, compressed = load(lossy), load(lossy, compressed=True)
    assert {compressed.memory[name] for name in JPEG} == {"compressed"}
    random = np.random.default_rng(5)
    asked = (random.integers(0, 2, 100), T0 + random.integers(-50, 1050, 100) * MS)
    compressed.save(tmp_path / "saved")
    expected = memory.windows(*asked)
    for other in (compressed, load(tmp_path / "saved")):
        found = other.windows(*asked, threads=2)
        for name in expected:
            assert expected[name].array.tobytes() == found[name].array.tobytes(), name
            assert (expected[name].valid == found[name].valid).all()
    # The newest row of an instant, as zarr-python reads it.
    step = memory.windows([1], [T0 + 999 * MS])["planes"].array[0, 0]
    np.testing.assert_array_equal(step, rows_of(lossy, "planes")[0][39])


def test_the_summary_has_size_and_psnr(made):
    _, _, plain, lossy, told = made
    for name in JPEG:
        before, after = (rows_of(store, name)[0].astype(float) for store in (plain, lossy))
        for episode, (outcome, summary) in enumerate(told):
            assert outcome == "done"
            said = summary["streams"][name]["jpeg"]
            # Rows 7 and 8 repeat row 6.
            mine = [20 * episode + row for row in range(20) if row not in (7, 8)]
            error = np.mean((before[mine] - after[mine]) ** 2)
            assert said["psnr_db"] == pytest.approx(10 * np.log10(255**2 / error), abs=1e-9)
            assert 28 < said["psnr_db"] < 50
            assert said["images"] == 18 and said["bytes_before"] == before[mine].size
        bytes_of = [summary["streams"][name]["jpeg"]["bytes"] for _, summary in told]
        # Each episode has a shard of its own: its chunks, an index with 16 bytes for each, and a checksum.
        folder = lossy / "streams" / name / "0" / "rows"
        about = json.loads((folder / "zarr.json").read_text())
        index = 16 * about["chunk_grid"]["configuration"]["chunk_shape"][0] + 4
        sizes = [shard.stat().st_size - index for shard in sorted(folder.glob("c.*"))]
        assert sizes == bytes_of
    assert all("jpeg" not in summary["streams"]["bright"] for _, summary in told)


def test_the_contract_says_it_and_serving_without_loss_is_no_difference(made):
    config, _, plain, lossy, _ = made
    load = robocache.contract.load
    trained, whole, node = load(lossy), load(plain), robocache.contract.of(config)
    streams = trained.value["streams"]
    assert {name: streams[name].get("stored") for name in streams} == {
        **dict.fromkeys(JPEG, "jpeg:90"),
        "bright": None,
        "wrench": None,
    }
    assert "stored" not in json.dumps(whole.value)
    assert trained.differences(node) == [] and whole.differences(trained) == []
    of_windows = robocache.EpisodeCache.load(lossy).contract({"planes": {}})
    assert of_windows.value["streams"]["planes"]["stored"] == "jpeg:90"
    assert of_windows.differences(node) == []


def test_bytes_do_not_depend_on_jobs_and_other_options_are_refused(made, tmp_path):
    config, bags, plain, lossy, _ = made
    replay(config, tmp_path / "out", bags[0], options=[*LOSSY, "--jobs", 1])
    # The second bag is added to what is there.
    outcomes = replay(config, tmp_path / "out", *bags, options=[*LOSSY, "--jobs", 3])
    assert [outcome for outcome, _ in outcomes] == ["kept", "done"]
    assert outcomes[0][1]["streams"]["gray"]["jpeg"]["images"] == 18
    expect_same(tmp_path / "out" / "rows.zarr", lossy)
    for options in (ROWS, [*ROWS, "--images", "jpeg:91"]):
        said = replay(config, tmp_path / "out", *bags, options=options, expect=1)
        assert "found one of others" in said and "--replace" in said
    replay(config, tmp_path / "out", *bags, options=[*ROWS, "--replace"])
    expect_same(tmp_path / "out" / "rows.zarr", plain)


def test_what_stays_without_loss_is_said_and_nothing_to_compress_is_an_error(made, tmp_path):
    _, bags, *_ = made
    config = tmp_path / "floats.yaml"
    config.write_text(
        configuration(WRENCH, images("bright", "chw", "rgb", dtype="f32"), rate_hz=50)
    )
    said = replay(config, tmp_path / "out", *bags, options=LOSSY, expect=1)
    assert "--images jpeg:90: expected a stream of images with `dtype: u8`, found wrench (" in said
    assert "bright (images of f32)" in said
    assert not (tmp_path / "out" / "rows.zarr").exists()
    config.write_text(CONFIG)
    broken = tmp_path / "broken.mcap"
    broken.write_bytes(b"no bag")
    _, said = run(config, tmp_path / "out", *bags, broken, options=LOSSY)
    assert "the rows of bright stay zstd" in said and "found images of f32" in said
    assert "camera" not in said.split("stay zstd")[0].splitlines()[-1]


def crc32c(data):
    """The checksum of a chunk, bit by bit: its reversed polynomial is 0x82F63B78."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ 0x82F63B78 * (value & 1)
    return value ^ 0xFFFFFFFF


@pytest.mark.parametrize("how", ["checksum", "file", "size"])
def test_damage_is_an_error(made, tmp_path, how):
    copy = tmp_path / "rows.zarr"
    shutil.copytree(made[3], copy)
    shard = copy / "streams" / "planes" / "0" / "rows" / "c.0.0.0.0"
    data = bytearray(shard.read_bytes())
    end = data.index(b"\xff\xd9") + 2  # of the first row's file
    if how == "size":
        at = data.index(b"\xff\xc0")
        data[at + 6] += 8
    else:
        data[end // 2 : end // 2 + 2] = b"\xff\xc4"
    if how != "checksum":
        data[end : end + 4] = crc32c(data[:end]).to_bytes(4, "little")
    shard.write_bytes(data)
    expected = {
        "checksum": "the checksum of a chunk is wrong",
        "file": "damaged: JPEG: ",
        "size": "expected a JPEG file of 96x72 pixels, found 96x80",
    }[how]
    load = robocache.EpisodeCache.load
    with pytest.raises(ValueError, match=expected):
        load(copy)
    cache = load(copy, compressed=True)
    cache.windows([1], [T0 + 500 * MS])
    with pytest.raises(ValueError, match=f"row 0 of 'planes'.*{expected}"):
        cache.windows([0], [T0 + 40 * MS], {"planes": {}})
