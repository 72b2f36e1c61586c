"""`same_files.expect_same`: what differs is named in a few lines, however much it is."""

import pytest

pytest.importorskip("av", exc_type=ImportError)
import lerobot_files  # noqa: E402 (what is missing is said first)
from same_files import expect_same  # noqa: E402


def differences(found, expected, **options):
    with pytest.raises(AssertionError) as failed:
        expect_same(found, expected, **options)
    said = str(failed.value).splitlines()
    assert len(said) < 10 and max(map(len, said)) < 400
    return "\n".join(said)


def test_the_first_difference_is_named(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "a.bin").write_bytes(bytes(300_000))
        (tmp_path / name / "deep/b.bin").write_bytes(bytes(300_000))
    one, two = tmp_path / "one", tmp_path / "two"
    assert expect_same(one, two) == ["a.bin", "deep/b.bin"]
    (two / "deep/b.bin").write_bytes(bytes(200_000) + b"\1" * 50_000)
    (two / "more.json").write_bytes(b"{}")
    (two / "a.bin").unlink()
    said = differences(two, one)
    assert "1 missing: a.bin\n" in said and "1 not expected: more.json\n" in said
    assert "deep/b.bin: expected 300000 bytes" in said and "found 250000" in said
    assert "offset 200000: expected 00 00" in said and "found 01 01" in said
    # A snapshot of before, and a file of which nothing is promised.
    before = {"deep/b.bin": bytes(250_000)}
    assert "first at offset 200000" in differences(two, before, apart_from=["more.json"])
    (two / "deep/b.bin").write_bytes(bytes(250_000))
    expect_same(two, before, apart_from=["more.json"])
    assert "first at offset 250000: expected 00" in differences(two / "deep/b.bin", one / "a.bin")
    with pytest.raises(AssertionError, match="expected at least one file"):
        expect_same(tmp_path / "none", {})


def test_the_first_packet_of_a_video_is_named(tmp_path):
    pictures = [lerobot_files.picture(at) for at in range(6)]
    one = lerobot_files.encode(tmp_path / "one.mp4", pictures, 30)
    pictures[3:] = pictures[:3]
    two = lerobot_files.encode(tmp_path / "two.mp4", pictures, 30)
    assert "packet 3: expected " in differences(two, one)
    two.write_bytes(one.read_bytes()[:5])
    assert "no packets: " in differences(two, one)
    longer = lerobot_files.encode(two, [lerobot_files.picture(at) for at in range(8)], 30)
    assert "packet 6: expected none, found " in differences(longer, one)
