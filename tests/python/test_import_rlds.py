"""RLDS datasets as recordings and as rows. The files are of `dataset_files`; tests/python/tfds has those of tfds."""

import copy
import json
import struct
import zlib

import numpy as np
import pytest
import yaml
from dataset_files import (
    RLDS_MAPPING,
    RLDS_STEPS,
    encoded,
    group,
    image,
    masked,
    picture,
    rlds_steps,
    tensor,
    tfrecord,
    write_rlds,
)
from read_recordings import messages, pixels, positions, read

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
pytest.importorskip("google_crc32c")
pytest.importorskip("google.protobuf")
import robocache
from robocache.datasets import importing, mapping_file
from robocache.datasets import tfrecord as records_file

PERIOD_NS = 200_000_000


@pytest.fixture(name="mapping")
def mapping_fixture(tmp_path):
    path = tmp_path / "mapping.yaml"
    path.write_text(RLDS_MAPPING)
    return path


def recordings(root, mapping, **options):
    return importing.recordings(importing.opened(root, mapping), **options)


def shard(root, split="train"):
    return next(root.glob(f"demo-{split}.tfrecord-00000-*"))


def test_values_are_those_of_the_steps(tmp_path, mapping):
    root = write_rlds(tmp_path / "dataset")
    found = recordings(root, mapping)
    assert [recording.name for recording in found] == ["train_000000", "train_000001", "val_000002"]
    for number, (recording, length) in enumerate(zip(found, (5, 3, 4), strict=True)):
        steps = rlds_steps(number, length)
        assert recording.task == f"do {number}" and recording.path == f"{root}#{recording.name}"
        assert recording.span_ns == (PERIOD_NS, length * PERIOD_NS)
        for stream, field in {
            "state": "observation/state",
            "action": "action",
            "reward": "reward",
            "first": "is_first",
        }.items():
            expected = steps[field].reshape(length, -1)
            assert np.array_equal(positions(recording, f"/{stream}"), expected)
        assert messages(recording, "/state")[0].name == ["a", "b", "c"]
        assert messages(recording, "/action")[0].name == ["0", "1"]
        images = messages(recording, "/top")
        assert images == steps["observation/image_0"]
        stamps = [stamp for stamp, _ in read(recording, ["/top"])["/top"]]
        assert stamps == [k * PERIOD_NS for k in range(1, length + 1)]


def test_rows_are_those_of_the_steps(tmp_path, mapping, capsys):
    root, out = write_rlds(tmp_path / "dataset"), tmp_path / "out"
    arguments = [str(root), "--mapping", str(mapping), "--out", str(out)]
    assert importing.main(arguments) == 0
    assert "stamps: nominal; frame k is at tick k + 1 of 5 Hz" in capsys.readouterr().err
    cache = robocache.EpisodeCache.load(out / "rows.zarr")
    assert [episode["task"] for episode in cache.episodes] == ["do 0", "do 1", "do 2"]
    assert json.loads((out / "splits.json").read_text()) == {
        "train": ["train_000000", "train_000001"],
        "val": ["val_000002"],
    }
    windows = cache.windows([0, 1, 2], [5 * PERIOD_NS, PERIOD_NS, 4 * PERIOD_NS])
    assert all(windows[name].valid.all() for name in windows)
    for at, (number, step) in enumerate([(0, 4), (1, 0), (2, 3)]):
        steps = rlds_steps(number, (5, 3, 4)[number])
        assert np.array_equal(windows["state"].array[at, 0], steps["observation/state"][step])
        shown = windows["top"].array[at, 0].transpose(1, 2, 0)
        assert np.array_equal(shown, picture(step + 10 * number))
    assert importing.main([*arguments, "--json"]) == 0
    outcomes = json.loads(capsys.readouterr().out)
    assert [list(outcome) for outcome in outcomes] == [["kept"]] * 3


def test_the_task_of_each_step_is_known(tmp_path):
    def change(number, steps):
        steps["language_instruction"] = [b"pick", b"pick", b"", b"place", b"place"][
            : len(steps["reward"])
        ]
        return steps

    root, path = write_rlds(tmp_path / "dataset", change=change), tmp_path / "mapping.yaml"
    path.write_text(RLDS_MAPPING)
    dataset = importing.opened(root, path)
    assert dataset.tasks(dataset.episodes[0]) == [(0, "pick"), (2, None), (3, "place")]
    assert dataset.tasks(dataset.episodes[1]) == [(0, "pick"), (2, None)]
    # In place of an empty text, that of the episode.
    both = "task: [language_instruction, episode_metadata/file_path]"
    path.write_text(RLDS_MAPPING.replace("task: language_instruction", both))
    dataset = importing.opened(root, path)
    assert dataset.tasks(dataset.episodes[0]) == [(0, "pick"), (2, "somewhere"), (3, "place")]
    path.write_text(RLDS_MAPPING.replace("task: language_instruction\n", ""))
    dataset = importing.opened(root, path)
    assert dataset.tasks(dataset.episodes[0]) == [(0, None)]


def test_a_run_goes_on_with_what_is_missing(tmp_path, mapping, capsys):
    root, out = write_rlds(tmp_path / "dataset"), tmp_path / "out"
    data = shard(root, "val").read_bytes()
    shard(root, "val").write_bytes(data[:-7])
    arguments = [str(root), "--mapping", str(mapping), "--out", str(out), "--json"]
    assert importing.main(arguments) == 1
    told = capsys.readouterr()
    assert "val_000002: failed: " in told.err and "it may be truncated" in told.err
    assert [list(outcome) for outcome in json.loads(told.out)] == [["done"]] * 2 + [["failed"]]
    shard(root, "val").write_bytes(data)
    assert importing.main(arguments) == 0
    outcomes = json.loads(capsys.readouterr().out)
    assert [list(outcome) for outcome in outcomes] == [["kept"]] * 2 + [["done"]]


def test_a_cache_of_a_split(tmp_path, mapping):
    root = write_rlds(tmp_path / "dataset")
    cache = robocache.EpisodeCache.from_dataset(
        root, tmp_path / "out", mapping=mapping, split="val", resize=(24, 32)
    )
    assert [episode["name"] for episode in cache.episodes] == ["val_000002"]
    assert cache.streams["top"]["row_shape"] == [3, 24, 32]
    with pytest.raises(ValueError, match="expected one of train, val, found the split 'test'"):
        importing.chosen(importing.opened(root, mapping), split="test")
    with pytest.raises(ValueError, match="expected numbers of episodes, 2 to 2, found 0"):
        importing.chosen(importing.opened(root, mapping), [0], "val")


def test_several_shards_and_an_empty_one(tmp_path, mapping):
    splits = {"train": [[0, 2], [], [1]]}
    root = write_rlds(tmp_path / "dataset", splits=splits)
    assert [r.task for r in recordings(root, mapping)] == ["do 0", "do 2", "do 1"]


def damages():
    def cut_in_the_first(data, records):
        return data[: len(records[0])], "expected .* bytes, found .* it may be truncated"

    def cut_in_a_head(data, records):
        return data + b"\0" * 5, "expected 12 bytes of a length, found 5"

    def length(data, records):
        return bytes([data[0] ^ 1]) + data[1:], "record 0 at byte 0: expected the checksum"

    def length_checksum(data, records):
        return data[:8] + bytes([data[8] ^ 1]) + data[9:], "expected the checksum .* of its length"

    def huge(data, records):
        head = struct.pack("<Q", 1 << 62)
        return head + struct.pack("<I", masked(head)) + data[12:], f"expected {1 << 62} bytes"

    def data_checksum(data, records):
        return data[:200] + bytes([data[200] ^ 1]) + data[201:], "expected data with the checksum"

    def none(data, records):
        return b"", "expected 2 records as in dataset_info.json, found 0"

    def more(data, records):
        return data + tfrecord(records[:1]), "expected 2 records .* found 3"

    def no_example(data, records):
        return tfrecord([b"\x0a\xff\xff\xff\x7f", records[1]]), "expected a tf.train.Example"

    def noise(data, records):
        return tfrecord([b"\x07" * 40, records[1]]), "expected a tf.train.Example"

    return [
        cut_in_the_first,
        cut_in_a_head,
        length,
        length_checksum,
        huge,
        data_checksum,
        none,
        more,
        no_example,
        noise,
    ]


@pytest.mark.parametrize("damage", damages())
def test_a_damaged_shard_is_an_error(tmp_path, mapping, damage):
    root = write_rlds(tmp_path / "dataset")
    path = shard(root)
    data = path.read_bytes()
    records = [
        bytes(records_file.record(path, *span)) for span in records_file.Offsets(path, 2).spans
    ]
    broken, said = damage(data, records)
    path.write_bytes(broken)
    found = recordings(root, mapping)
    with pytest.raises(ValueError, match=said):
        read(found[0])
    assert len(read(found[2])["/top"]) == 4


@pytest.mark.parametrize("cut", [3, 20, 600, "records"])
def test_a_truncated_shard_keeps_its_whole_records(tmp_path, mapping, cut):
    splits = {"train": [[0, 1, 2]]}
    root = write_rlds(tmp_path / "dataset", splits=splits)
    path = shard(root)
    data, offsets = path.read_bytes(), records_file.Offsets(path, 3)
    end = offsets.spans[2][0] - 12 if cut == "records" else len(data) - cut
    path.write_bytes(data[:end])
    found = recordings(root, mapping)
    assert [len(read(recording)["/top"]) for recording in found[:2]] == [5, 3]
    assert [recording.task for recording in found] == ["do 0", "do 1", None]
    with pytest.raises(ValueError, match="may be truncated|expected 3 records .* found 2"):
        read(found[2])
    outcomes = importing.import_dataset(root, tmp_path / "out", mapping=mapping)
    assert [list(outcome) for outcome in outcomes] == [["done"], ["done"], ["failed"]]


def test_a_missing_shard_is_an_error(tmp_path, mapping):
    root = write_rlds(tmp_path / "dataset")
    shard(root).unlink()
    with pytest.raises(FileNotFoundError, match="expected a TFRecord file, found no such file"):
        read(recordings(root, mapping)[0])


def wrong_steps():
    def without_a_camera(steps):
        del steps["observation/image_0"]

    def ragged(steps):
        steps["action"] = steps["action"][:-1]

    def short(steps):
        steps["observation/state"] = steps["observation/state"].reshape(-1)[:-1]

    def another_size(steps):
        steps["observation/image_0"][2] = encoded(picture(0, 8, 8))

    def no_picture(steps):
        steps["observation/image_0"][2] = b"GIF89a"

    def numbers_for_bytes(steps):
        steps["observation/image_0"] = np.zeros(5, np.float32)

    def bytes_for_numbers(steps):
        steps["action"] = [b"1"] * 5

    def fewer_flags(steps):
        steps["is_first"] = steps["is_first"][:2]

    def empty(steps):
        for name, values in steps.items():
            steps[name] = values[:0]

    return {
        without_a_camera: "steps/observation/image_0: expected this feature, found none",
        ragged: r"action: expected 5 steps as in observation/image_0, found 4",
        short: "steps/observation/state: expected 3 numbers in each step, found 14 in all",
        another_size: "expected pictures of 48 x 64 in 'top' as in features.json, found 8 x 8",
        no_picture: "found neither PNG nor JPEG",
        numbers_for_bytes: "steps/observation/image_0: expected bytes, found numbers",
        bytes_for_numbers: "steps/action: expected numbers, found bytes",
        fewer_flags: "is_first: expected 5 steps as in observation/image_0, found 2",
        empty: "expected a frame or more, found none",
    }


@pytest.mark.parametrize(("wrong", "said"), wrong_steps().items())
def test_a_wrong_episode_is_an_error(tmp_path, mapping, wrong, said):
    def change(number, steps):
        if number == 0:
            wrong(steps)
        return steps

    root = write_rlds(tmp_path / "dataset", change=change)
    found = recordings(root, mapping)
    with pytest.raises(ValueError, match=said):
        read(found[0])
    assert len(read(found[1])["/top"]) == 3
    (failed, *others) = importing.import_dataset(root, tmp_path / "out", mapping=mapping)
    assert "failed" in failed or failed["done"]["problems"]
    assert all("done" in other for other in others)


def test_a_camera_that_nobody_wants_is_not_read(tmp_path, mapping):
    def change(number, steps):
        del steps["observation/image_0"]
        return steps

    root = write_rlds(tmp_path / "dataset", change=change)
    assert len(positions(recordings(root, mapping)[0], "/state")) == 5


def test_a_configuration_of_other_topics_is_told(tmp_path, mapping):
    root, config = write_rlds(tmp_path / "dataset"), tmp_path / "robot.yaml"
    assert list(recordings(root, mapping)[0].arrays([False] * 5)) == []
    config.write_text(
        "rate_hz: 5\nstreams:\n  state: {type: sensor_msgs/JointState, topic: /joints, joints: [a], "
        "max_age_ms: 50, strategy: hold}\n"
    )
    outcomes = importing.import_dataset(root, tmp_path / "out", config, mapping=mapping)
    assert all("/joints" in each["failed"]["error"] for each in outcomes)
    assert all("/state" in each["failed"]["error"] for each in outcomes)


def test_not_a_number_is_dropped_and_counted(tmp_path, mapping):
    def change(number, steps):
        steps["observation/state"][1, 2] = np.nan
        return steps

    root = write_rlds(tmp_path / "dataset", change=change)
    (outcome, *_) = importing.import_dataset(root, tmp_path / "out", mapping=mapping)
    counts = {name: each for name, each in outcome["done"]["inputs"].items() if "state" in name}
    ((_, state),) = counts.items()
    assert (state["received"], state["accepted"]) == (5, 4)


def test_fields_of_all_types(tmp_path):
    steps = group(
        raw=tensor((4, 5, 3), "uint8"),
        zipped=tensor((2, 2), "float32", "zlib"),
        packed=tensor((2,), "int16", "bytes"),
        label={"classLabel": {"numClasses": "3"}, "pythonClassName": "ClassLabel"},
        free=image((-1, -1, 3)),
        depth=image((48, 64, 1), "uint16"),
        grey=image((48, 64, 1), encoding="jpeg"),
        ragged={"sequence": {"feature": {}}, "pythonClassName": "tfds.Sequence"},
        open=tensor((-1, 3), "float32"),
        large=tensor((100_000, 100_000, 3), "float32"),
        vast=image((1 << 30, 1 << 30, 3)),
        empty=tensor((0,), "float32"),
        half=tensor((2,), "bfloat16"),
    )
    random = np.random.default_rng(1)
    values = {
        "raw": random.integers(0, 256, (4, 4, 5, 3)),
        "zipped": random.normal(size=(4, 2, 2)).astype(np.float32),
        "packed": random.integers(-9, 9, (4, 2), np.int16),
        "label": np.array([0, 2, 1, 0]),
        "free": [encoded(picture(at, 9, 8), "jpeg") for at in range(4)],
        "grey": [encoded(picture(at)[..., 0], "jpeg") for at in range(4)],
    }
    stored = {
        **values,
        "zipped": [zlib.compress(each.tobytes()) for each in values["zipped"]],
        "packed": [each.tobytes() for each in values["packed"]],
    }
    root = write_rlds(tmp_path / "dataset", (4,), steps, lambda *_: stored, {"train": [[0]]})
    text = tmp_path / "mapping.yaml"
    assert importing.main([str(root), "--write-mapping", str(text)]) == 0
    for field, why in {
        "depth": "an image of uint16",
        "ragged": "a feature of Sequence",
        "open": "an array of an unknown size",
        "large": "30000000000 numbers, at most 4096",
        "vast": "an image of ",
        "empty": "an array of ",
        "half": "elements of bfloat16",
    }.items():
        assert f"  # {field}: left out, {why}" in text.read_text()
    with pytest.raises(ValueError, match="rate_hz: expected frames per second, found nothing"):
        importing.opened(root, text)
    text.write_text(text.read_text().replace("rate_hz:", "rate_hz: 10"))
    (recording,) = recordings(root, text)
    for field in ("zipped", "packed", "label"):
        assert np.array_equal(positions(recording, f"/{field}"), values[field].reshape(4, -1))
    assert np.array_equal(pixels(recording, "/raw"), values["raw"])
    kinds = {each.name: each.shape for each in importing.opened(root, text).features.values()}
    assert kinds["free"] == (9, 8) and kinds["grey"] == (48, 64)
    assert messages(recording, "/grey")[3] == values["grey"][3]
    bad = {**stored, "zipped": [b"not packed"] * 4}
    root = write_rlds(tmp_path / "bad", (4,), steps, lambda *_: bad, {"train": [[0]]})
    with pytest.raises(ValueError, match="steps/zipped: expected zlib, found damage"):
        read(recordings(root, text)[0])


def test_a_first_mapping_fits_its_dataset(tmp_path):
    root, text = write_rlds(tmp_path / "dataset"), tmp_path / "mapping.yaml"
    assert importing.main([str(root), "--write-mapping", str(text)]) == 0
    content = yaml.safe_load(text.read_text())
    assert content["rate_hz"] is None and content["task"] == "language_instruction"
    assert content["streams"] == {
        "image_0": "observation/image_0",
        "state": "observation/state",
        "action": "action",
    }
    assert "  # reward: reward\n  # is_first: is_first\n" in text.read_text()
    assert importing.main([str(root), "--write-mapping", str(text)]) == 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rate_hz: 5", "rate_hz: 0", "rate_hz: expected frames per second, found 0"),
        ("rate_hz: 5", "rate_hz: .nan", "rate_hz: expected frames per second, found nan"),
        ("rate_hz: 5", "rate_hz: yes", "rate_hz: expected frames per second, found True"),
        ("rate_hz: 5", "fps: 5", "fps: expected one of rate_hz, streams, task, found this key"),
        ("rate_hz: 5\n", "", "rate_hz: expected this key, found none"),
        ("rate_hz: 5", "rate_hz: 5\nrate_hz: 6", "rate_hz: expected this key once, found it twice"),
        (
            "task: language_instruction",
            "task: 3",
            "task: expected where the task is, as text or a list of texts, found 3",
        ),
        (
            "task: language_instruction",
            "task: reward",
            "task: expected one of episode_metadata/file_path, language",
        ),
        ("  top: ", "  Top: ", "streams.Top: expected a name of small letters"),
        (
            "reward: reward",
            "reward: [1]",
            "streams.reward.field: expected the path of a field, found",
        ),
        (
            "reward: reward",
            "reward: rewards",
            "streams.reward.field: expected one of .*, found 'rewards'",
        ),
        (
            "reward: reward",
            "reward: language_instruction",
            "expected numbers or an image, found text",
        ),
        ("reward: reward", "reward: {names: [a]}", "streams.reward.field: expected this key"),
        (
            "reward: reward",
            "reward: {field: reward, name: a}",
            "streams.reward.name: expected one of",
        ),
        (
            "[a, b, c]",
            "[a, b]",
            "expected 3 names, because observation/state has the shape .3., found 2",
        ),
        ("[a, b, c]", "[a, b, no]", "streams.state.names: expected a list of texts"),
        ("[a, b, c]", "[a, b, a]", "streams.state.names: expected names that differ"),
        ("observation/image_0", "{field: observation/image_0, names: [a]}", "is an image"),
        ("streams:", "streams: {}\nmore:", "more: expected one of"),
        ("rate_hz: 5", "rate_hz: [", "expected YAML, found"),
        (RLDS_MAPPING, "- 1", "the file: expected a mapping of keys, found"),
        (RLDS_MAPPING, "rate_hz: 5\nstreams: []", "streams: expected a stream or more, found"),
    ],
)
def test_a_wrong_mapping_is_an_error(tmp_path, mapping, old, new, said):
    root = write_rlds(tmp_path / "dataset")
    assert old in RLDS_MAPPING
    mapping.write_text(RLDS_MAPPING.replace(old, new))
    with pytest.raises(ValueError, match=said) as raised:
        importing.opened(root, mapping)
    assert str(mapping) in str(raised.value)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("dataset_info.json", None, "dataset_info.json: expected a file of an RLDS dataset"),
        ("dataset_info.json", "{", "dataset_info.json: expected JSON"),
        ("dataset_info.json", "[]", "dataset_info.json: expected an object of JSON, found list"),
        ("dataset_info.json", '{"name": "demo"}', "expected name, and splits with name"),
        (
            "dataset_info.json",
            '{"fileFormat": "array_record"}',
            "fileFormat: expected tfrecord, found 'array_record'",
        ),
        ("features.json", "{}", "expected the features of an RLDS dataset with 'steps'"),
        ("features.json", None, "expected a dataset of a known kind"),
    ],
)
def test_a_wrong_dataset_is_an_error(tmp_path, mapping, file, text, said):
    root = write_rlds(tmp_path / "dataset")
    (root / file).unlink() if text is None else (root / file).write_text(text)
    with pytest.raises(ValueError, match=said):
        importing.opened(root, mapping)


def test_files_without_a_rate_need_a_mapping(tmp_path):
    root = write_rlds(tmp_path / "dataset")
    with pytest.raises(ValueError, match="expected --mapping, .*: one of bridge, .*libero"):
        importing.opened(root)
    with pytest.raises(
        ValueError, match="expected the file of a mapping or one of .*, found 'brigde'"
    ):
        importing.opened(root, "brigde")
    with pytest.raises(ValueError, match="expected a dataset, found nothing there"):
        importing.opened(tmp_path / "nothing")


def test_what_an_episode_is_made_of(tmp_path, mapping):
    root = write_rlds(tmp_path / "dataset")
    before = [recording.made_of for recording in recordings(root, mapping)]
    assert before == [recording.made_of for recording in recordings(root, mapping)]
    assert len(set(before)) == 3
    mapping.write_text(RLDS_MAPPING.replace("rate_hz: 5", "rate_hz: 6"))
    assert not set(before) & {recording.made_of for recording in recordings(root, mapping)}


def test_known_mappings_are_mappings():
    names = mapping_file.known()
    assert {"bridge", "droid", "rt1", "robomimic", "libero", "calvin"} <= set(names)
    for name in names:
        path = mapping_file.KNOWN / f"{name}.yaml"
        assert mapping_file.read(name) == mapping_file.read(path)
        (rate,) = [line for line in path.read_text().splitlines() if line.startswith("rate_hz")]
        assert "# nominal: " in rate, "the source of the rate"


def test_more_frames_than_the_length_are_an_error_at_the_edge_of_a_block(tmp_path):
    def change(number, values):
        return {**values, "observation/state": np.zeros((128, 3), np.float32)}

    root = write_rlds(tmp_path / "demo", (64, 64), change=change)
    mapping = tmp_path / "state.yaml"
    mapping.write_text("rate_hz: 5\nstreams:\n  state: observation/state\n")
    with pytest.raises(ValueError, match="expected 64 frames, found more"):
        read(importing.recordings(importing.opened(root, mapping))[0])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shardLengths": ["-1"]}, "-1 records"),
        ({"shardLengths": ["99999999999"]}, "99999999999 records"),
        ({"filepathTemplate": "../{DATASET}"}, "expected in this folder"),
    ],
)
def test_wrong_shards_are_an_error(tmp_path, change, said):
    root = write_rlds(tmp_path / "demo")
    info = json.loads((root / "dataset_info.json").read_text())
    info["splits"][0].update(change)
    (root / "dataset_info.json").write_text(json.dumps(info))
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(RLDS_MAPPING)
    with pytest.raises(ValueError, match=said):
        importing.opened(root, mapping)


def test_numbers_of_another_kind_are_an_error(tmp_path):
    def change(number, values):
        return {**values, "is_first": np.full(len(values["is_first"]), 0.7)}

    root = write_rlds(tmp_path / "demo", change=change)
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(RLDS_MAPPING)
    with pytest.raises(ValueError, match="is_first: expected bool as in features.json"):
        read(importing.recordings(importing.opened(root, mapping))[0])


def test_an_episode_without_its_task_is_an_error(tmp_path):
    def change(number, values):
        return {key: each for key, each in values.items() if key != "language_instruction"}

    root = write_rlds(tmp_path / "demo", change=change)
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(RLDS_MAPPING)
    with pytest.raises(ValueError, match="language_instruction: expected the text of the task"):
        read(importing.recordings(importing.opened(root, mapping))[0])


def test_an_episode_with_too_few_texts_is_an_error(tmp_path):
    """The text of another place would fill the rest: another instruction."""
    steps = copy.deepcopy(RLDS_STEPS)
    steps["featuresDict"]["features"]["instruction_2"] = {"text": {}}

    def change(number, values):
        values["instruction_2"] = [b"other"] * len(values["reward"])
        if number == 0:
            values["language_instruction"] = values["language_instruction"][:2]
        return values

    root = write_rlds(tmp_path / "demo", steps=steps, change=change)
    both = "task: [language_instruction, instruction_2]"
    for task in (both, "task: language_instruction"):
        path = tmp_path / "mapping.yaml"
        path.write_text(RLDS_MAPPING.replace("task: language_instruction", task))
        dataset = importing.opened(root, path)
        said = "language_instruction: expected one text or one for each of 5 steps, found 2"
        with pytest.raises(ValueError, match=said):
            dataset.tasks(dataset.episodes[0])
        with pytest.raises(ValueError, match=said):
            read(importing.recordings(dataset)[0])
        assert dataset.tasks(dataset.episodes[1]) == [(0, "do 1")]
