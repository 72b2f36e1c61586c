"""The verdict of a soak: a run without a fault passes, and each planted fault is found where it is."""

import csv
import random

import pytest
import subjects
import verdict

RUN_S, SAMPLE_S, LIFE_S = 2400, 5, 300
#: What a process has at its best.
USUAL = {
    "rss_kb": 60e3,
    "pss_kb": 45e3,
    "private_kb": 40e3,
    "anonymous_kb": 30e3,
    "descriptors": 80,
    "threads": 24,
}
PROCESSES = ("robot", "node", "policy_topic", "policy_shared")


class Run:
    """Samples of a run: `plant(subject, metric, at, age, life)` is added to a value."""

    def __init__(self, plant=lambda *_: 0, length_s=RUN_S, life_s=LIFE_S):
        self.random = random.Random(1)
        self.plant = plant
        self.rows = []
        for at in range(0, length_s, SAMPLE_S):
            life, age = divmod(at, life_s)
            # A process is disturbed for some time of each minute.
            quiet = at % 60 >= 20
            for subject in PROCESSES:
                self._process(subject, at, age, life, quiet)
            late = self.noisy(0.5, 0.2)
            probe = {"latency_p50_ms": late, "latency_p99_ms": 4 * late}
            self._add(at, "probe", 0, at, quiet, probe)
            machine = {"shm_files": 40, "shm_kb": 80e3, "engine_files": 30}
            self._add(at, "machine", 0, at, quiet, machine)
            if at % 60 == 0:
                self._add(at, "node", life, age, False, {"healed_s.kill": self.noisy(3, 0.3)})
        self._add(
            length_s,
            "recording",
            0,
            0,
            False,
            {"equal": 90 * length_s, "late": 5, "unexplained": 0},
        )
        self._add(length_s, "policy_topic", 0, 0, False, {"values_checked": 9, "wrong_values": 0})

    def _process(self, subject, at, age, life, quiet):
        warming = 0.2 ** (age / 10)
        usual = {metric: value * (1 - 0.3 * warming) for metric, value in USUAL.items()}
        # Threads of a pool come and go.
        usual["threads"] += self.random.choice((0, 0, 0, 1))
        for metric in ("rss_kb", "pss_kb", "private_kb", "anonymous_kb"):
            usual[metric] = self.noisy(usual[metric], 0.005)
        usual["stretch"] = age // 100
        # While it is disturbed, a process may have more of all.
        values = {name: value * (1 if quiet else 1.4) for name, value in usual.items()}
        values["stretch"] = usual["stretch"]
        if subject.startswith("policy"):
            late = 1 if quiet else 50
            values["latency_p50_ms"] = self.noisy(0.6 * late, 0.1)
            values["latency_p99_ms"] = self.noisy(1.8 * late, 0.3)
            values |= {"tensors": 499, "ticks": 500, "invalid": 0, "faults": 0}
        self._add(at, subject, life, age, quiet, values)

    def noisy(self, value, share):
        return value * (1 + share * self.random.uniform(-1, 1))

    def _add(self, at, subject, life, age, quiet, values):
        for metric, value in values.items():
            value += self.plant(subject, metric, at, age, life)
            self.rows.append((at, subject, life, age, int(quiet), metric, value))

    def findings(self, folder):
        """What the verdict finds in the file of the run."""
        path = folder / "samples.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("at_s", "subject", "life", "age_s", "quiet", "metric", "value"))
            writer.writerows(self.rows)
        return verdict.judge(verdict.read(path))


def faults(findings):
    return {(f.subject, f.metric, f.what) for f in findings if f.passed is False}


def test_a_run_without_a_fault_passes(tmp_path):
    findings = Run().findings(tmp_path)
    assert faults(findings) == set(), "\n".join(map(str, findings))
    assert all(finding.passed for finding in findings), "\n".join(map(str, findings))
    assert verdict.passed(findings)


def test_a_short_run_without_a_fault_passes(tmp_path):
    findings = Run(length_s=300, life_s=150).findings(tmp_path)
    assert verdict.passed(findings), "\n".join(map(str, findings))


def test_a_run_of_two_minutes_tells_no_trend(tmp_path):
    findings = Run(length_s=120, life_s=60).findings(tmp_path)
    assert verdict.passed(findings) and not any(finding.is_trend for finding in findings)
    assert {"never", "while it was quiet"} <= {finding.what for finding in findings}


def of(subject, metric, value):
    """A fault of this subject and metric: `value(at, age, life)`."""
    return lambda s, m, at, age, life: value(at, age, life) if (s, m) == (subject, metric) else 0


@pytest.mark.parametrize(
    ("subject", "metric", "value", "what"),
    [
        # 100 bytes per tick.
        ("node", "anonymous_kb", lambda at, age, life: 10 * age, "inside of stretches"),
        ("policy_shared", "anonymous_kb", lambda at, age, life: 10 * age, "inside of stretches"),
        # 30 MB in each disturbance, and in one.
        ("node", "private_kb", lambda at, age, life: 30e3 * (age // 100), "inside of lives"),
        (
            "node",
            "anonymous_kb",
            lambda at, age, life: 30e3 if life == 3 and age >= 200 else 0,
            "from stretch to stretch",
        ),
        # 1.2 MB in each disturbance, 10 MB in each third one, and 1.2 MB in each of another process.
        ("node", "anonymous_kb", lambda at, age, life: 1200 * (age // 100), "by a disturbance"),
        (
            "node",
            "anonymous_kb",
            lambda at, age, life: 1e4 * sum((life + n) % 3 == 0 for n in range(age // 100)),
            "by a disturbance",
        ),
        ("robot", "anonymous_kb", lambda at, age, life: 1200 * (age // 60), "by one of others"),
        ("node", "descriptors", lambda at, age, life: age // 60, "inside of lives"),
        ("node", "threads", lambda at, age, life: age // 90, "inside of lives"),
        ("robot", "anonymous_kb", lambda at, age, life: 600 * life, "between lives"),
        ("policy_topic", "descriptors", lambda at, age, life: life // 2, "between lives"),
        ("machine", "shm_files", lambda at, age, life: at // 300, "of the run"),
        ("machine", "shm_kb", lambda at, age, life: 2 * at, "of the run"),
        ("machine", "engine_files", lambda at, age, life: at // 600, "of the run"),
        ("policy_topic", "latency_p50_ms", lambda at, age, life: at / 3000, "of the run"),
        ("policy_shared", "latency_p99_ms", lambda at, age, life: at / 2000, "of the run"),
        ("policy_topic", "tensors", lambda at, age, life: -40, "while it was quiet"),
        ("policy_shared", "invalid", lambda at, age, life: 10, "while it was quiet"),
    ],
)
def test_what_grows_or_lacks_is_found(tmp_path, subject, metric, value, what):
    findings = Run(of(subject, metric, value)).findings(tmp_path)
    found = faults(findings)
    assert (subject, metric, what) in found, "\n".join(map(str, findings))
    assert {fault[:2] for fault in found} == {(subject, metric)}, found
    assert not verdict.passed(findings)


@pytest.mark.parametrize(
    ("subject", "metric", "value"),
    [
        ("policy_topic", "faults", 1),
        ("policy_topic", "wrong_values", 1),
        ("recording", "unexplained", 1),
        ("recording", "late", 300),
        ("node", "healed_s.kill", 18),
    ],
)
def test_one_fault_is_found(tmp_path, subject, metric, value):
    run = Run()
    rows = [at for at, row in enumerate(run.rows) if (row[1], row[5]) == (subject, metric)]
    row = run.rows[rows[len(rows) // 2]]
    run.rows[rows[len(rows) // 2]] = (*row[:6], row[6] + value)
    findings = run.findings(tmp_path)
    assert {fault[:2] for fault in faults(findings)} == {(subject, metric)}
    assert not verdict.passed(findings)


def test_a_machine_that_becomes_slower_is_no_fault_of_the_node(tmp_path):
    """The probe, which has no node, becomes slower as well."""

    def slower(subject, metric, at, age, life):
        return at / 1000 if metric == "latency_p99_ms" else 0

    findings = Run(slower).findings(tmp_path)
    assert verdict.passed(findings), "\n".join(map(str, findings))


def test_a_leak_of_a_descriptor_is_found_in_five_minutes(tmp_path):
    leak = of("node", "descriptors", lambda at, age, life: age // 20)
    findings = Run(leak, length_s=300, life_s=150).findings(tmp_path)
    assert {fault[:2] for fault in faults(findings)} == {("node", "descriptors")}


@pytest.mark.parametrize("lacking", ["node", "recording", "healed_s.kill", "values_checked"])
def test_a_run_that_shows_nothing_fails(tmp_path, lacking):
    """No sample of the node, no recording, no disturbance, or no value that was checked."""
    run = Run()
    run.rows = [row for row in run.rows if lacking not in (row[1], row[5])]
    assert not verdict.passed(run.findings(tmp_path))


def test_the_memory_of_a_process_is_that_of_the_system():
    with open("/proc/self/smaps_rollup") as file:
        found = subjects.memory(file.read())
    assert found["private_kb"] <= found["pss_kb"] <= found["rss_kb"]
    assert found["private_kb"] > 1000
