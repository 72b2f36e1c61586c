"""What `make release-check` checks: one version, the licences of all components, the contents of the sdist."""

import json
import shutil
import sys

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "scripts"))

import sdist  # noqa: E402 (the path comes first)
import third_party  # noqa: E402
import version  # noqa: E402

FILES = [
    "Cargo.toml",
    "package.xml",
    "pyproject.toml",
    "python/robocache/__init__.py",
    "CHANGELOG.md",
    "Dockerfile",
]


@pytest.fixture
def release(tmp_path):
    """A copy of the files with a version, as they are in a commit of a release."""
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / file, tmp_path / file)
    number = version.found(tmp_path, *version.SOURCE)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {number} (2026-01-02)\n\nNew.\n")
    return tmp_path


def test_all_files_have_one_version():
    assert version.faults(REPOSITORY) == []


def test_a_release_has_the_version_of_its_tag_and_a_date(release):
    number = version.found(release, *version.SOURCE)
    assert version.faults(release, f"v{number}") == []
    assert version.faults(release, "v9.9.9") == [f"the tag: expected v{number}, found v9.9.9"]
    changes = release / "CHANGELOG.md"
    changes.write_text(changes.read_text().replace("## ", "## Unreleased\n\n## ", 1))
    (fault,) = version.faults(release, f"v{number}")
    assert fault.endswith("found 'Unreleased'") and version.faults(release) == []


@pytest.mark.parametrize("file", [file for file, _ in version.COPIES])
def test_another_version_is_an_error_that_names_the_file(release, file):
    number = version.found(release, *version.SOURCE)
    path = release / file
    path.write_text(path.read_text().replace(number, "9.9.9"))
    assert version.faults(release) == [
        f"{file}: expected version {number} as in Cargo.toml, found 9.9.9"
    ]


@pytest.fixture(scope="module", params=["WHEEL", "NODE"])
def product(request):
    return getattr(third_party, request.param)


@pytest.fixture(scope="module")
def components(product):
    return third_party.components(product)


def test_every_component_has_a_licence_and_its_text(product, components):
    number, _, found = components
    names = {component["name"] for component in found}
    assert {"sqlite", "zstd", "lz4", "mozjpeg", "rust-std", "nalgebra", "pyo3"} <= names
    assert not [name for name in names if name.startswith("robocache")]
    assert ("r2r_rcl" in names) == (product is third_party.NODE)
    assert all(c["licence"] and max(map(len, c["texts"])) > 200 for c in found)
    text = third_party.notices(number, found)
    assert "based in part on the work of the Independent JPEG Group" in text
    assert "Yann Collet" in text and "The author disclaims copyright" in text


def test_the_sbom_names_each_component_once_and_has_no_paths(product, components):
    number, uses, found = components
    bom = third_party.sbom(product, number, uses, found)
    references = [component["bom-ref"] for component in bom["components"]]
    assert len(set(references)) == len(references) == len(found)
    edges = {entry["ref"]: entry["dependsOn"] for entry in bom["dependencies"]}
    assert set(edges) == {"robocache", *references}
    assert {used for all_used in edges.values() for used in all_used} <= set(references)
    (sys_crate,) = [reference for reference in references if "/libsqlite3-sys@" in reference]
    assert any(used.startswith("pkg:generic/sqlite@") for used in edges[sys_crate])
    assert str(REPOSITORY) not in json.dumps(bom)


def test_a_crate_without_a_text_is_an_error(tmp_path):
    package = {
        "name": "a",
        "version": "1.0.0",
        "license": "MIT",
        "manifest_path": f"{tmp_path}/Cargo.toml",
    }
    with pytest.raises(
        third_party.Missing, match=r"crate a \(MIT\): expected a text of its licence"
    ):
        third_party.crate_component(package, {"without_text": {}}, {})
    with pytest.raises(third_party.Missing, match="crate a: expected a licence"):
        third_party.crate_component({**package, "license": None}, {"without_text": {}}, {})
    (tmp_path / "LICENSE-MIT").write_text("the text\n")
    package["license"] = "MIT/Apache-2.0"
    found = third_party.crate_component(package, {"without_text": {}}, {})
    assert found["texts"] == ["the text"] and found["licence"] == "MIT OR Apache-2.0"


def test_an_sdist_without_a_file_that_the_code_includes_is_refused(tmp_path):
    shutil.copy(REPOSITORY / "Cargo.toml", tmp_path)
    source = tmp_path / "crates/a/src/lib.rs"
    source.parent.mkdir(parents=True)
    source.write_text('const A: &str = include_str!("../../../msg/A.msg");\n')
    lacks = "crates/a/src/lib.rs: expected msg/A.msg, found none"
    assert lacks in sdist.faults(tmp_path) and "expected LICENSE, found none" in sdist.faults(
        tmp_path
    )
    (tmp_path / "msg").mkdir()
    (tmp_path / "msg/A.msg").write_text("")
    assert lacks not in sdist.faults(tmp_path)
