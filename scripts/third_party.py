#!/usr/bin/env python3
"""Writes what the wheel contains that others wrote: `scripts/third_party.py [--zig FOLDER]`.

- THIRD_PARTY.txt: every crate and C library, and the texts of their licences. The wheel and the sdist have it.
- robocache.cyclonedx.json: the same components as an SBOM (CycloneDX 1.6), with checksums and dependencies.

The components are the crates that the compiled part of the Python package links on any of TARGETS, the C libraries in
scripts/native_libraries.json, and Rust's standard library. With --zig also what zig links: FOLDER is its package. The
texts are read from the sources of the crates, which cargo downloads. A component without a text is an error.

With --node FOLDER both files go there, and name what the ROS package contains: the image of the node has them.
"""

import argparse
import html
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
NATIVE = REPOSITORY / "scripts" / "native_libraries.json"
NOTICES, SBOM = "THIRD_PARTY.txt", "robocache.cyclonedx.json"
#: The platforms of the wheels.
TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]
#: All features that a build may have.
FEATURES = "cuda,nasm"
#: The names of files with licences and notices, in the folder of a crate.
LICENCE = re.compile(r"licen[cs]e|copying|copyright|notice|unlicense", re.IGNORECASE)
SOURCE = re.compile(r"\.(rs|py|toml|json|yml|html)$")
#: Where the terms of an MIT licence begin, below the names of the authors.
TERMS = "Permission is hereby granted"
RULE = "=" * 100


@dataclass(frozen=True)
class Product:
    """What is given away: the packages of the workspace in it, and its name in an SBOM without the version."""

    packages: tuple
    purl: str


WHEEL = Product(("robocache_python",), "pkg:pypi/robocache")
NODE = Product(("robocache", "robocache_tools", "robocache_python"), "pkg:generic/robocache_ros")


class Missing(Exception):
    """A component has no licence or no text."""


def output(*command):
    """What a command prints. Its errors go to the terminal."""
    run = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    if run.returncode:
        raise Missing(f"{' '.join(command[:2])}: expected exit code 0, found {run.returncode}")
    return run.stdout


def linked(product):
    """The (name, version) of the crates that are linked into a product, on any platform."""
    found = set()
    for target in TARGETS:
        tree = output(
            *("cargo", "tree", "--locked", "--features", FEATURES),
            *(f"--package={package}" for package in product.packages),
            *("--edges", "normal", "--target", target, "--prefix", "none", "--no-dedupe"),
        )
        lines = filter(None, tree.splitlines())
        found |= {tuple(re.match(r"(\S+) v(\S+)", line).groups()) for line in lines}
    return found


def checksums():
    """The SHA-256 of the downloaded crates by (name, version), from Cargo.lock."""
    text = (REPOSITORY / "Cargo.lock").read_text()
    entry = r'name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "(.+)"'
    return {(name, version): checksum for name, version, checksum in re.findall(entry, text)}


def expression(licence):
    """An SPDX expression. Old crates write a slash for OR."""
    return re.sub(r"\s*/\s*", " OR ", licence)


def licence_texts(folder):
    """The texts of the licences and notices in the folder of a crate."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    return [
        path.read_text(errors="replace").strip()
        for path in files
        if LICENCE.search(path.name) and not SOURCE.search(path.name)
    ]


def crate_component(package, native, folders):
    """A crate as a component. Where its package has no text, `without_text` or Apache-2.0 serves."""
    name, licence = package["name"], package["license"]
    if not licence:
        raise Missing(f"crate {name}: expected a licence in its Cargo.toml, found none")
    folder = Path(package["manifest_path"]).parent
    texts = licence_texts(folder)
    if not texts and (like := native["without_text"].get(name)):
        (text,) = licence_texts(folders[like["text_of"]])[:1]
        if holder := like.get("copyright"):
            text = f"MIT License\n\n{holder}\n\n{text[text.index(TERMS) :]}"
        texts = [text]
    if "Apache-2.0" in licence and (not texts or " AND " in licence):
        texts.append((REPOSITORY / "LICENSE").read_text().strip())
    if not texts:
        raise Missing(
            f"crate {name} ({licence}): expected a text of its licence in {folder}, found none; "
            f"name one in {NATIVE.name}"
        )
    return {
        "name": name,
        "version": package["version"],
        "licence": expression(licence),
        "purl": f"pkg:cargo/{name}@{package['version']}",
        "texts": texts,
    }


def native_component(library, folders):
    """A C library in the sources of a crate."""
    folder = folders.get(library["crate"])
    if folder is None:
        raise Missing(
            f"{library['name']}: expected the linked crate {library['crate']}, found none"
        )
    version = re.search(
        library["version"]["pattern"], (folder / library["version"]["file"]).read_text()
    )
    text = (folder / library["text"]["file"]).read_text(errors="replace")
    if pattern := library["text"].get("pattern"):
        text = (re.search(pattern, text, re.DOTALL) or [""])[0]
        text = re.sub(r"^\*\* ?", "", text, flags=re.MULTILINE)  # of a comment in C
    if not version or not text.strip():
        raise Missing(
            f"{library['name']}: expected its version and its licence, found no match in {folder}"
        )
    return {
        "name": library["name"],
        "version": version[1],
        "licence": library["licence"],
        "purl": f"pkg:generic/{library['name']}@{version[1]}",
        "texts": [text.strip()],
        "remark": library.get("remark"),
        "inside": library["crate"],
    }


def standard_library():
    """Rust's standard library with the crates in it. The compiler comes with their notices, as HTML; Debian's as text."""
    rustc = os.environ.get("RUSTC", "rustc")
    version = output(rustc, "--version").split()[1]
    documents = Path(output(rustc, "--print", "sysroot").strip()) / "share/doc"
    page = documents / "rust/COPYRIGHT-library.html"
    debian = documents / "libstd-rust-dev/copyright"
    if page.exists():
        text = html.unescape(re.sub(r"<[^>]+>", "", page.read_text()))
    elif debian.exists():
        text = debian.read_text()
    else:
        raise Missing(
            f"the standard library: expected {page}, found none; the compiler's package has it"
        )
    lines = [line.rstrip() for line in text.splitlines()]
    return {
        "name": "rust-std",
        "version": version,
        "licence": "MIT OR Apache-2.0",
        "purl": f"pkg:generic/rust-std@{version}",
        "texts": [re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()],
    }


def zig_components(folder):
    """What zig links into the wheel: the unwinder of LLVM and its own run-time library."""
    version = output(str(folder / "zig"), "version").strip()
    parts = [
        ("libunwind", "Apache-2.0 WITH LLVM-exception", "lib/libunwind/LICENSE.TXT"),
        ("compiler_rt", "MIT", "LICENSE"),
    ]
    return [
        {
            "name": name,
            "version": f"zig-{version}",
            "licence": licence,
            "purl": f"pkg:generic/{name}@zig-{version}",
            "texts": [(folder / path).read_text().strip()],
        }
        for name, licence, path in parts
    ]


def components(product, zig=None):
    """(version of robocache, its crates' ids by package id, the components that others wrote)."""
    # Cargo downloads the crates of these platforms alone.
    platforms = [f"--filter-platform={target}" for target in TARGETS]
    metadata = json.loads(
        output("cargo", "metadata", "--locked", "--format-version", "1", *platforms)
    )
    wanted = linked(product)
    packages = [p for p in metadata["packages"] if (p["name"], p["version"]) in wanted]
    native = json.loads(NATIVE.read_text())
    folders = {p["name"]: Path(p["manifest_path"]).parent for p in packages}
    known = {library["crate"] for library in native["libraries"]} | set(native["no_c_library"])
    for package in packages:
        if package["links"] and package["name"] not in known:
            raise Missing(f"crate {package['name']} links a C library: name it in {NATIVE.name}")
    crates = [crate_component(p, native, folders) for p in packages if p["source"]]
    found = crates + [native_component(library, folders) for library in native["libraries"]]
    found.append(standard_library())
    found += zig_components(zig) if zig else []
    version = next(p["version"] for p in packages if p["name"] == product.packages[0])
    return (
        version,
        graph(metadata, packages),
        sorted(found, key=lambda c: (c["name"], c["version"])),
    )


def reference(package):
    """The name of a crate in the SBOM. The crates of this workspace are one component: the wheel."""
    return f"pkg:cargo/{package['name']}@{package['version']}" if package["source"] else "robocache"


def graph(metadata, packages):
    """Which components use which, by their names in the SBOM."""
    by_id = {package["id"]: reference(package) for package in packages}
    uses = {name: set() for name in by_id.values()}
    for node in metadata["resolve"]["nodes"]:
        if user := by_id.get(node["id"]):
            # What is for builds alone is in no component.
            shipped = [
                d for d in node["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"])
            ]
            uses[user] |= {by_id[d["pkg"]] for d in shipped if d["pkg"] in by_id} - {user}
    return uses


def notices(version, found):
    """The text of THIRD_PARTY.txt: all components, then each text once with those that it is for."""
    lines = [
        f"robocache {version} contains these works of others. Their licences follow.\n",
        *(f"{c['name']} {c['version']}: {c['licence']}" for c in found),
        "",
        *(f"{c['name']}: {c['remark']}" for c in found if c.get("remark")),
    ]
    users = {}
    for component in found:
        for text in component["texts"]:
            users.setdefault(text, []).append(f"{component['name']} {component['version']}")
    for text, names in users.items():
        lines += ["", RULE, *dict.fromkeys(names), RULE, "", text]
    return "\n".join(lines) + "\n"


def sbom(product, version, uses, found):
    """The same components as CycloneDX. It has no times and no paths, so equal inputs give equal bytes."""
    sums = checksums()
    uses = {name: set(used) for name, used in uses.items()}
    listed = []
    for component in found:
        entry = {
            "type": "library",
            "bom-ref": component["purl"],
            "name": component["name"],
            "version": component["version"],
            "licenses": [{"expression": component["licence"]}],
            "purl": component["purl"],
        }
        if checksum := sums.get((component["name"], component["version"])):
            entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        listed.append(entry)
        if component["purl"] not in uses:
            crates = [
                name for name in uses if name.startswith(f"pkg:cargo/{component.get('inside')}@")
            ]
            for user in crates or ["robocache"]:
                uses[user].add(component["purl"])
            uses[component["purl"]] = set()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": "robocache",
                "name": "robocache",
                "version": version,
                "licenses": [{"expression": "Apache-2.0"}],
                "purl": f"{product.purl}@{version}",
            }
        },
        "components": listed,
        "dependencies": [{"ref": n, "dependsOn": sorted(used)} for n, used in sorted(uses.items())],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zig", type=Path, help="the folder of the Python package ziglang")
    parser.add_argument("--node", type=Path, help="the folder for the files of the ROS package")
    arguments = parser.parse_args()
    product, folder = (NODE, arguments.node) if arguments.node else (WHEEL, REPOSITORY)
    try:
        version, uses, found = components(product, arguments.zig)
        (folder / NOTICES).write_text(notices(version, found))
        bom = json.dumps(sbom(product, version, uses, found), indent=1)
        (folder / SBOM).write_text(bom + "\n")
    except (Missing, OSError) as error:
        print(f"third_party: error: {error}", file=sys.stderr)
        return 1
    print(f"third_party: {len(found)} components in {NOTICES} and {SBOM}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
