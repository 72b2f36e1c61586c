"""The commands that the documents print: the flags of all are known, and those that can run here do run."""

import functools
import os
import re
import shlex
import shutil
import sys

import pytest
import waiting
from conftest import REPOSITORY

pytest.importorskip("robocache._native", reason="there is no compiled part")
for needed in ("av", "mcap", "pyarrow", "rosbags", "zarr"):
    pytest.importorskip(needed, exc_type=ImportError)
import lerobot_files  # noqa: E402 (what is missing is said first)
import robots  # noqa: E402

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(?:sh|bash)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(robocache [a-z-]+ [^`\n]+)`")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
LAUNCH = "".join(path.read_text() for path in sorted((REPOSITORY / "launch").glob("*.py")))
#: Programs whose words are not checked, with the reason.
UNCHECKED = {
    **dict.fromkeys([".", "cd", "cp", "export", "kill"], "changes the user's shell or folders"),
    **dict.fromkeys(["git", "pip", "rustup", "scripts/cuda.sh"], "downloads"),
    **dict.fromkeys(["docker", "rviz2", "nvidia-cuda-mps-control"], "is not on every machine"),
    "colcon": "builds for minutes; tests/ros/test_colcon.py runs it",
    "sudo": "changes the machine",
}
#: Commands of `robocache` that do not run here, and why. Their flags are checked.
NOT_RUN = {
    "robocache check robot.yaml --contract": "its contract is one that differs by a filter",
    "robocache import bridge": "a large dataset; test_import_known.py imports one like it",
}


def commands(text):
    """The commands of some lines, each as words without the variables that it sets."""
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="&")
        lexer.whitespace_split = True
        words = []
        for word in [*lexer, "&"]:
            if word.strip("&"):
                words.append(word)
            elif words:
                first = next(at for at, word in enumerate(words) if not re.match("[A-Z_]+=", word))
                yield words[first:]
                words = []


def printed(page):
    """The commands in the blocks of a page."""
    return [words for block in BLOCK.findall(page.read_text()) for words in commands(block)]


@functools.cache
def help_of(*command):
    return waiting.run([*command, "--help"], check=True, cwd=REPOSITORY).stdout


def flags(words):
    return {word.split("=")[0] for word in words if word.startswith("--")}


def assigned(words):
    """The names before `:=`."""
    return {word.split(":=")[0] for word in words if ":=" in word}


def unknown(words):
    """The words of a command that its program does not know."""
    match words:
        case ["robocache", command, *rest]:
            known = help_of(sys.executable, "-m", "robocache", command)
            return flags(rest) - set(FLAG.findall(known))
        case ["sensor_sim", *rest]:
            return flags(rest) - set(FLAG.findall(help_of("sensor_sim")))
        case ["fusion_node", "--ros-args", *rest]:
            known = re.findall(r"^  (\w+) ", help_of("fusion_node"), re.MULTILINE)
            return assigned(rest) - set(known) | flags(rest)
        case ["python3", script, *rest]:  # it may need PyTorch
            return flags(rest) - set(FLAG.findall((REPOSITORY / script).read_text()))
        case ["make", *rest]:
            rules = re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
            return {word for word in rest if "=" not in word} - set(rules)
        case ["ros2", "launch", "robocache_ros", file, *rest]:
            given = {name for name in assigned(rest) if f'"{name}"' not in LAUNCH}
            return given if (REPOSITORY / "launch" / file).exists() else {file}
        case ["ros2", "lifecycle" | "param", "set", "/fusion_node", *_] | [
            "ros2",
            "bag",
            "record",
            *_,
        ]:
            return set()  # the wheels lack ros2
        case [program, *_]:
            return set() if program in UNCHECKED else {program}


def is_run(words):
    line = " ".join(words)
    return words[0] == "robocache" and not any(line.startswith(each) for each in NOT_RUN)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_and_its_flags_are_known(page):
    inline = [words for text in INLINE.findall(page.read_text()) for words in commands(text)]
    wrong = {" ".join(words): unknown(words) for words in [*printed(page), *inline]}
    assert {line: words for line, words in wrong.items() if words} == {}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(map(is_run, printed(page)))], ids=lambda page: page.name
)
def test_commands_run_in_the_order_of_the_page(page, tmp_path):
    """Recordings, configurations and datasets have the names that the pages use."""
    robots.record(tmp_path / "recordings/run", seconds=3.0)
    for name in ("robot.yaml", "my_robot.yaml"):
        (tmp_path / name).write_text(robots.CONFIG)
    (tmp_path / "config").symlink_to(REPOSITORY / "config")
    lerobot_files.write(tmp_path / "dataset")
    for words in filter(is_run, printed(page)):
        # Alternatives name the same folder.
        if "--out" in words:
            shutil.rmtree(tmp_path / words[words.index("--out") + 1], ignore_errors=True)
        command = [sys.executable, "-m", *words]
        done = waiting.run(command, cwd=tmp_path, env={**os.environ, "BROWSER": "true"})
        assert done.returncode == 0, (words, done.stdout, done.stderr)


def test_a_misspelt_flag_and_an_unknown_program_are_found():
    text = "A=b robocache replay x/ --jobz rows && robocop &"
    assert list(map(unknown, commands(text))) == [{"--jobz"}, {"robocop"}]
