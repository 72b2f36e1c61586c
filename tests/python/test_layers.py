"""`scripts/layers.py`: the crates use what docs/architecture.md draws, and no folders use each other."""

import sys

import layers
import pytest
import waiting
from layers import REPOSITORY

PAGE = """# Architecture

## The crates

```text
low   ->
high  -> low
robocache -> high
```

The tests of `low` also use `high`.

## The end
"""


@pytest.fixture(name="workspace")
def workspace_fixture(tmp_path):
    """A workspace of three crates without fault."""
    files = {
        "Cargo.toml": '[workspace]\nmembers = ["crates/*"]\n[dependencies]\nrobocache_high = {}\n',
        "docs/architecture.md": PAGE,
        "src/lib.rs": "use robocache_high::upper;",
        "crates/low/Cargo.toml": "[dev-dependencies]\nrobocache_high = {}\n",
        "crates/low/src/lib.rs": "// robocache_high is not used here\npub mod base;",
        "crates/low/src/base.rs": "#[cfg(test)]\nuse robocache_high::upper;\n",
        "crates/low/src/base/tests.rs": "use robocache_high::upper;",
        "crates/high/Cargo.toml": "[dependencies]\nrobocache_low = {}\n",
        "crates/high/src/lib.rs": "pub mod lower;\npub mod upper;\npub use lower::Deep;",
        "crates/high/src/lower/mod.rs": "use robocache_low::base;\npub struct Deep;",
        "crates/high/src/lower/inner/mod.rs": "use super::other::part;",
        "crates/high/src/lower/inner/part.rs": "",
        "crates/high/src/lower/other/mod.rs": "",
        "crates/high/src/lower/other/part.rs": "",
        "crates/high/src/upper.rs": 'use crate::lower::{self, Deep};\nconst TEXT: &str = "crate::upper";',
        "python/robocache/__init__.py": "from .top import name\n",
        "python/robocache/top.py": "import os\n\nfrom .high.upper import name\n",
        "python/robocache/high/__init__.py": "from .upper import name\n",
        "python/robocache/high/upper.py": "from ..low import one, other\n",
        "python/robocache/low/__init__.py": "",
        "python/robocache/low/one.py": "from .. import _native\n",
        "python/robocache/low/other.py": "from .one import name\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_the_crates_use_what_is_drawn_and_no_folders_use_each_other():
    run = waiting.run([sys.executable, REPOSITORY / "scripts" / "layers.py"])
    assert run.returncode == 0, run.stdout
    # It has read the sources.
    _, found = layers.uses(REPOSITORY / "crates" / "core")
    assert len(found) > 500
    graph = layers.python_uses(REPOSITORY / "python" / "robocache")
    assert len(graph) > 60 and ("message", "tensor") in graph[()]


def test_nothing_is_wrong_in_a_workspace_without_fault(workspace):
    assert layers.wrong(workspace) == []


@pytest.mark.parametrize(
    ("file", "more", "said"),
    [
        ("crates/low/src/base.rs", "use robocache_high::upper;", "base.rs: low uses high, which"),
        ("src/lib.rs", "robocache_low::base::run();", "src/lib.rs: robocache uses low, which"),
        ("docs/architecture.md", "", "does not use"),
        ("crates/high/src/lower/mod.rs", "use crate::upper::Up;", "lower/mod.rs: lower uses upper"),
        ("crates/high/src/lower/mod.rs", "use super::{upper};", "lower/mod.rs: lower uses upper"),
        ("crates/high/src/lower/mod.rs", "fn f() { crate::upper::run() }", "lower uses upper"),
        ("crates/high/src/lower/other/part.rs", "use super::super::inner::I;", "other uses inner"),
        ("crates/high/Cargo.toml", "robocache_robocache = {}", "high uses robocache, which"),
    ],
)
def test_a_use_that_is_not_allowed_is_found(workspace, file, more, said):
    path = workspace / file
    text = path.read_text()
    if file.endswith(".md"):
        text = text.replace("low   ->", "low   -> high")
    path.write_text(f"{text}\n{more}\n")
    lines = layers.wrong(workspace)
    assert any(said in line for line in lines), lines


@pytest.mark.parametrize(
    "code", ["x.sin()", "angles.map(f64::sin_cos)", "y.atan2(x)", "2f32.powf(x)"]
)
def test_a_function_of_the_c_library_is_found_where_bits_are_promised(workspace, code):
    for name in ("core", "tools"):
        source = workspace / "crates" / name / "src/lib.rs"
        source.parent.mkdir(parents=True)
        (workspace / "crates" / name / "Cargo.toml").write_text("[dependencies]\n")
        source.write_text(f"fn f() {{ libm::sin(x); logger.log_it(x); {code} }}")
    (line,) = layers.wrong_numbers(workspace)
    assert line.startswith("crates/core/src/lib.rs: expected libm's ")


@pytest.mark.parametrize(
    "code",
    [
        "Instant::now()",
        "waits.then(std::time::Instant::now)",
        "SystemTime::now()",
        "begun.elapsed()",
        "clock_gettime(ClockId::CLOCK_BOOTTIME)",
        "OffsetDateTime::now_utc()",
    ],
)
def test_a_reading_of_the_machines_clocks_is_found_where_time_comes_from_a_source(workspace, code):
    def files(crate):
        return [workspace / crate / "src" / name for name in ("clock.rs", "clock/tests.rs")]

    for source in [*files("crates/runtime"), *files("crates/low")]:
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(f"fn f() {{ time.monotonic(); elapsed(); {code} }} // Instant::now()")
    (workspace / "crates/runtime/Cargo.toml").write_text("[dependencies]\n")
    (line,) = layers.wrong_times(workspace)
    assert line.startswith("crates/runtime/src/clock.rs: expected TimeSource, found ")


def test_a_file_that_may_read_the_machines_clocks_reads_them(workspace):
    (name, _) = next(iter(layers.REAL.items()))
    path = workspace / name
    path.parent.mkdir(parents=True)
    (workspace / "crates/runtime/Cargo.toml").write_text("[dependencies]\n")
    path.write_text("fn f() { Instant::now() }")
    assert layers.wrong_times(workspace) == []
    path.write_text("fn f() {}")
    assert layers.wrong_times(workspace) == [
        f"scripts/layers.py: {name} reads no clock of the machine any more"
    ]


@pytest.mark.parametrize("root", ["lib", "main"])
def test_a_circle_through_what_the_root_of_a_crate_defines_is_found(workspace, root):
    """Once runtime's lib.rs had `Runtime`: it held `health::NodeTime`, and `health` judged a `Runtime`."""
    source = workspace / "crates/low/src"
    (source / "lib.rs").unlink()
    (source / f"{root}.rs").write_text(
        "pub mod health;\nuse health::NodeTime;\npub struct Runtime { time: NodeTime }"
    )
    (source / "health").mkdir()
    (source / "health/mod.rs").write_text("mod monitor;\npub struct NodeTime;")
    (source / "health/monitor.rs").write_text("use crate::Runtime;")
    assert layers.wrong(workspace) == [
        f"low: a circle: crates/low/src/health/monitor.rs: health uses {root}",
        f"low: a circle: crates/low/src/{root}.rs: {root} uses health",
    ]


@pytest.mark.parametrize("use", ["use super::Up;", "fn f() { super::Up::run() }"])
def test_a_name_that_the_root_of_a_crate_imports_is_of_its_module(workspace, use):
    root, lower = (workspace / "crates/high/src" / name for name in ("lib.rs", "lower/mod.rs"))
    lower.write_text(f"{lower.read_text()}\n{use}\n")
    root.write_text("pub mod lower;\npub mod upper;\npub mod above;\nuse above::Up;")
    (root.parent / "above.rs").write_text("pub struct Up;")
    assert layers.wrong(workspace) == []


def test_the_root_of_a_crate_uses_a_module_by_a_path(workspace):
    (workspace / "crates/high/src/lib.rs").write_text(
        "pub mod lower;\npub mod upper;\npub fn run() { upper::run() }"
    )
    (workspace / "crates/high/src/upper.rs").write_text("fn f() { crate::run() }")
    assert any("lib uses upper" in line for line in layers.wrong(workspace))


def test_a_use_by_a_name_that_the_crate_gives_on_is_found(workspace):
    (workspace / "crates/high/src/lib.rs").write_text(
        "pub mod lower;\npub mod upper;\npub use upper::Up;"
    )
    (workspace / "crates/high/src/lower/mod.rs").write_text(
        "use crate::Up;\nuse robocache_low::base;"
    )
    assert any("lower uses upper" in line for line in layers.wrong(workspace))


@pytest.mark.parametrize(
    ("file", "more", "said"),
    [
        ("low/one", "from .other import name", "low/other.py:1: low.other uses low.one"),
        ("low/one", "from . import other", "low/one.py:3: low.one uses low.other"),
        ("low/one", "from robocache.low.other import name", "low.one uses low.other"),
        ("low/one", "import robocache.low.other", "low.one uses low.other"),
        ("low/one", "def later():\n    from ..top import name", "low/one.py:4: low.one uses top"),
        ("low/one", "from .. import name", "low.one uses __init__"),
        # No modules are in a circle, but their folders are.
        ("low/more", "from ..high.last import name", "low/more.py:2: low uses high"),
    ],
)
def test_a_circle_of_python_modules_or_of_their_folders_is_found(workspace, file, more, said):
    path = workspace / "python" / "robocache" / f"{file}.py"
    path.with_name("more.py").touch()
    (workspace / "python" / "robocache" / "high" / "last.py").touch()
    path.write_text(f"{path.read_text()}\n{more}\n")
    lines = layers.wrong(workspace)
    assert any(said in line for line in lines), lines


@pytest.mark.parametrize(
    "code",
    [
        "torch._C._len_torch_dispatch_stack()",
        "if forward_ad._current_level:",
        "from torch._C import _functorch",
        "from torch import _C",
        "torch.utils._python_dispatch",
    ],
)
def test_a_private_name_of_torch_is_found(workspace, code):
    path = workspace / "python/robocache/low/one.py"
    path.write_text(f"torch.Tensor.__dlpack__\ntorch.empty_like(of_torch._kept)\n# {code}\n")
    (line,) = layers.wrong(workspace)
    assert line.startswith("python/robocache/low/one.py: expected a public name of torch, found ")


def test_rooms_arrows_and_floors_of_the_python_package_are_counted(workspace):
    assert list(layers.described(workspace)) == [
        "5 rooms, 4 arrows, 5 floors",
        "0 _native ->",
        "1 low -> _native",
        "2 high -> low",
        "3 top -> high",
        "4 __init__ -> top",
    ]
