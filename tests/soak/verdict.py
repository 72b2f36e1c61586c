"""Judges the samples of a soak: whether anything grows, was wrong, or did not heal.

    python3 tests/soak/verdict.py soak/samples.csv

A row of the file is a value: at_s (since the start), subject (a process, or `machine`), life (how often the process was
started before), age_s (of this life), quiet (1 if nothing has been disturbed for a while), metric, value.

**Trends** are the slopes of Theil and Sen: the median of the slopes of all pairs of windows. Of a window the median
of its quiet samples counts. So neither a burst nor a few bad windows make a trend. A trend is a fault if it exceeds
the tolerance per hour, and what it makes of the longest course exceeds the floor.

Memory, descriptors and threads of a process are compared, from a warm-up on:

- inside of stretches, in which the process itself was not disturbed: what grows with time or with ticks. All stretches
  count together;
- from stretch to stretch: what one disturbance of it adds at most, usually and on average, over the number of its
  disturbances. The average is the slope of least squares; each life has a level of its own. It finds what few
  disturbances add;
- inside of stretches, over the number of all disturbances: what one of another process adds;
- inside of lives, through all disturbances;
- between lives, at equal age.

Anonymous memory is what a process has for itself alone, and so what leaks. The others contain the shared memory of
the middleware. Its use grows up to its bound, so their floors are higher.
"""

import bisect
import csv
import itertools
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass

HOUR_S = 3600.0
#: What must not grow in a process: the tolerance per hour, and the floor, below which a growth is noise.
OF_PROCESSES = {
    "anonymous_kb": (6144, 640),
    "rss_kb": (6144, 32768),
    "pss_kb": (6144, 32768),
    "private_kb": (6144, 32768),
    "descriptors": (2, 1.5),
    "threads": (2, 1.5),
}
#: The floor of memory inside of a life: what the C library keeps after disturbances.
OF_LIVES_KB = 24576
#: What a disturbance may add to the anonymous memory of a process [kB]: one, usually, and on average. The node has one
#: arena of the C library. There 25 suspensions added 6 MB: 5 MB the first two, and nothing the last 14.
MOST_STEP_KB, MOST_USUAL_KB, MOST_MEAN_KB = 20480, 1024, 3072
#: Steps from stretch to stretch that the average needs.
LEAST_STEPS = 4
#: Greatest share of ticks whose tensor lacks a row that had come, because the machine was busy or the node stood still.
MOST_LATE = 0.001
#: What must not grow on the machine. If a process begins again, two more ports of Fast DDS may stay, with five files. The
#: number of ports is bounded, because a participant's number names them.
OF_MACHINE = {"shm_files": (3, 5.5), "shm_kb": (4096, 2048), "engine_files": (3, 2)}
#: What latency may gain during the run: this share of its median, or this [ms].
LATENCY_SHARE, LATENCY_MS = 0.25, 0.5
#: Greatest share of quiet ticks that a policy may lack, and of steps that may be invalid.
MOST_MISSING, MOST_INVALID = 0.05, 0.01
#: What must never be: faults of tensors, wrong values, processes that ended by themselves, refused transitions,
#: failed sends.
NEVER = (
    "faults",
    "wrong_values",
    "ended",
    "refused",
    "panics",
    "diag.publish_failed",
    "diag.share_failed",
    "unexplained",
    "unverified",
    "recorder_missing",
    "not_sampled",
    "interrupted",
)
#: The ticks of the node in a second, and the least share of those of the run that a recording must have, the same in a
#: replay.
TICKS_HZ, LEAST_EQUAL = 100, 0.6
#: Seconds between samples, and the least share of them that must be there.
SAMPLE_S, LEAST_SAMPLES = 5.0, 0.8
#: A run that is shorter tells no trend: what a start or a disturbance adds at once looks steep in it [s].
SHORT_S = 240.0
#: Pairs of windows and lives that a judgement needs.
LEAST_PAIRS, LEAST_LIVES = 6, 4


@dataclass(frozen=True)
class Limits:
    """How a run is judged, by its length."""

    warm_up_s: float
    window_s: float
    heal_s: float = 20.0

    @classmethod
    def of(cls, length_s):
        """Those of a run of this length."""
        return cls(60.0, 30.0) if length_s >= HOUR_S / 2 else cls(25.0, 10.0)


@dataclass(frozen=True)
class Sample:
    at_s: float
    subject: str
    life: int
    age_s: float
    quiet: bool
    metric: str
    value: float


@dataclass(frozen=True)
class Finding:
    """A judgement. `passed` is None if there is too little to judge."""

    subject: str
    metric: str
    what: str
    passed: bool | None
    found: str

    @property
    def is_trend(self):
        """True for a finding about growth."""
        return not self.what.startswith(
            ("never", "at most", "at least", "some", "while it was quiet")
        )

    def __str__(self):
        word = {True: "ok", False: "FAULT", None: "not judged"}[self.passed]
        return f"{word:>10}  {self.subject:<14} {self.metric:<20} {self.what}: {self.found}"


def read(path):
    """The samples of a file."""
    with open(path, newline="") as file:
        return [
            Sample(
                float(row["at_s"]),
                row["subject"],
                int(row["life"]),
                float(row["age_s"]),
                row["quiet"] == "1",
                row["metric"],
                float(row["value"]),
            )
            for row in csv.DictReader(file)
        ]


def windows(points, width):
    """(middle, median) of each window of `width` seconds with a point."""
    of = defaultdict(list)
    for at, value in points:
        of[int(at // width)].append(value)
    return [((number + 0.5) * width, statistics.median(of[number])) for number in sorted(of)]


def slope(courses):
    """The median slope of all pairs inside of the courses, how many pairs there are, and the longest course."""
    slopes, span = [], 0.0
    for course in courses:
        for (t0, v0), (t1, v1) in itertools.combinations(course, 2):
            slopes.append((v1 - v0) / (t1 - t0))
            span = max(span, t1 - t0)
    return (statistics.median(slopes) if slopes else 0.0), len(slopes), span


def judged(subject, metric, what, courses, tolerances, least):
    """Whether courses of windows grow."""
    per_hour, floor = tolerances
    steepness, pairs, span = slope(courses)
    growth = steepness * span
    found = f"{steepness * HOUR_S:+.1f} per hour, {growth:+.1f} in {span:.0f} s"
    if pairs < least:
        return Finding(subject, metric, what, None, f"{pairs} pairs of windows, of {least}")
    passed = steepness * HOUR_S <= per_hour or growth <= floor
    return Finding(subject, metric, what, passed, f"{found}; at most {per_hour:g} and {floor:g}")


def of_processes(samples, limits):
    """Memory, descriptors and threads, inside of stretches, inside of lives and between them."""
    stretch_at = {(s.subject, s.at_s): s.value for s in samples if s.metric == "stretch"}
    disturbed = sorted(s.at_s for s in samples if s.metric.startswith("healed_s."))
    lives = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        if sample.metric in OF_PROCESSES and sample.quiet and sample.age_s >= limits.warm_up_s:
            lives[sample.subject, sample.metric][sample.life].append(sample)
    for (subject, metric), own in sorted(lives.items()):
        per_hour, floor = OF_PROCESSES[metric]
        stretches = defaultdict(list)
        for sample in itertools.chain.from_iterable(own.values()):
            stretches[sample.life, stretch_at.get((subject, sample.at_s), 0)].append(sample)
        courses = [_course(part, limits) for part in stretches.values()]
        yield judged(
            subject, metric, "inside of stretches", courses, (per_hour, floor), LEAST_PAIRS
        )
        if metric == "anonymous_kb":
            yield of_steps(subject, metric, stretches)
            yield from of_disturbances(subject, metric, stretches, disturbed)
        courses = [_course(life, limits) for life in own.values()]
        tolerances = per_hour, OF_LIVES_KB if metric.endswith("_kb") else floor
        yield judged(subject, metric, "inside of lives", courses, tolerances, LEAST_PAIRS)
        young = [
            (life[0].at_s - life[0].age_s, statistics.median(first))
            for life in own.values()
            if (
                first := [s.value for s in life if s.age_s < limits.warm_up_s + 2 * limits.window_s]
            )
        ]
        least = LEAST_LIVES * (LEAST_LIVES - 1) // 2
        yield judged(
            subject, metric, "between lives", [sorted(young)], (per_hour, 2 * floor), least
        )


def of_steps(subject, metric, stretches):
    """Whether one disturbance of a process added much."""
    usual = {key: statistics.median(s.value for s in part) for key, part in stretches.items()}
    pairs = itertools.pairwise(sorted(usual))
    steps = [usual[after] - usual[before] for before, after in pairs if before[0] == after[0]]
    most = max(steps, default=None)
    found = f"{len(steps)} steps, the greatest {most or 0:+.0f}; at most {MOST_STEP_KB}"
    passed = None if most is None else most <= MOST_STEP_KB
    return Finding(subject, metric, "from stretch to stretch", passed, found)


def of_disturbances(subject, metric, stretches, disturbed):
    """What a disturbance adds on average: one of the process itself, and one of another process."""
    own, others = defaultdict(list), []
    for (life, stretch), part in stretches.items():
        own[life].append((stretch, statistics.median(s.value for s in part)))
        values = defaultdict(list)
        for sample in part:
            values[bisect.bisect(disturbed, sample.at_s)].append(sample.value)
        others.append([(count, statistics.median(found)) for count, found in values.items()])
    for what, groups in (("by a disturbance", list(own.values())), ("by one of others", others)):
        pairs = itertools.chain.from_iterable(itertools.pairwise(sorted(one)) for one in groups)
        steps = [after[1] - before[1] for before, after in pairs]
        usual, mean = (statistics.median(steps) if steps else 0.0), added(groups)
        found = f"{usual:+.0f} usually, {mean:+.0f} on average of {len(steps)}; at most {MOST_USUAL_KB} and {MOST_MEAN_KB}"
        passed = None
        if len(steps) >= LEAST_STEPS:
            passed = usual <= MOST_USUAL_KB and mean <= MOST_MEAN_KB
        yield Finding(subject, metric, what, passed, found)


def added(groups):
    """What a step of x adds to y: the slope of least squares over groups, each with a level of its own."""
    spread = growth = 0.0
    for group in groups:
        x_mean, y_mean = (statistics.fmean(column) for column in zip(*group, strict=True))
        spread += sum((x - x_mean) ** 2 for x, _ in group)
        growth += sum((x - x_mean) * (y - y_mean) for x, y in group)
    return growth / spread if spread else 0.0


def _course(samples, limits):
    return windows([(sample.age_s, sample.value) for sample in samples], limits.window_s)


def of_machine(samples, limits):
    """Shared memory of the whole run."""
    for metric, tolerances in OF_MACHINE.items():
        points = [(s.at_s, s.value) for s in samples if s.metric == metric and s.quiet]
        course = [w for w in windows(points, limits.window_s) if w[0] >= limits.warm_up_s]
        yield judged("machine", metric, "of the run", [course], tolerances, LEAST_PAIRS)


def of_latency(subject, metric, points, of_probe, limits):
    """Whether a latency grows, and more than twice as much as that of the probe, which has no node."""
    course = windows(points, 2 * limits.window_s)
    usual = statistics.median(value for _, value in course) if course else 0.0
    steepness, pairs, span = slope([course])
    growth = steepness * span
    of_machine = slope([windows(of_probe, 2 * limits.window_s)])[0] * span
    most = max(LATENCY_SHARE * usual, LATENCY_MS, 2 * of_machine)
    found = f"median {usual:.2f}, {growth:+.2f} in {span:.0f} s; at most {most:.2f} (probe {of_machine:+.2f})"
    return Finding(
        subject, metric, "of the run", growth <= most if pairs >= LEAST_PAIRS else None, found
    )


def of_policies(samples, limits):
    """Latency, and what a policy lacks, while nothing is disturbed."""
    quiet = defaultdict(list)
    for sample in samples:
        if sample.quiet and sample.subject.startswith(("policy", "probe")):
            quiet[sample.subject, sample.metric].append((sample.at_s, sample.value))
    subjects = sorted({subject for subject, _ in quiet if subject != "probe"})
    for subject, metric in itertools.product(subjects, ("latency_p50_ms", "latency_p99_ms")):
        yield of_latency(subject, metric, quiet[subject, metric], quiet["probe", metric], limits)
    for subject in subjects:
        ticks, expected, invalid = (
            sum(value for _, value in quiet[subject, metric])
            for metric in ("tensors", "ticks", "invalid")
        )
        missing = 1 - ticks / expected if expected else 1.0
        passed = missing <= MOST_MISSING if expected else None
        found = f"{ticks:.0f} of {expected:.0f} tensors, {100 * missing:.2f} % missing"
        yield Finding(subject, "tensors", "while it was quiet", passed, found)
        share = invalid / ticks if ticks else 1.0
        passed = share <= MOST_INVALID if ticks else None
        found = f"{invalid:.0f} of {ticks:.0f} tensors have an invalid step"
        yield Finding(subject, "invalid", "while it was quiet", passed, found)


def of_events(samples, limits):
    """What must never be, and how soon each disturbance was healed."""
    never = defaultdict(float)
    for sample in samples:
        if sample.metric in NEVER:
            never[sample.subject, sample.metric] += sample.value
    for (subject, metric), count in sorted(never.items()):
        yield Finding(subject, metric, "never", count == 0, f"{count:.0f}")
    healed = defaultdict(list)
    for sample in samples:
        if sample.metric.startswith("healed_s."):
            healed[sample.subject, sample.metric].append(sample.value)
    for (subject, metric), times in sorted(healed.items()):
        passed = max(times) <= limits.heal_s
        found = f"{len(times)} times, median {statistics.median(times):.1f} s, longest {max(times):.1f} s"
        yield Finding(subject, metric, f"at most {limits.heal_s:g} s", passed, found)
    checked = sum(s.value for s in samples if s.metric == "values_checked")
    equal = sum(s.value for s in samples if s.metric == "equal")
    length = max((s.at_s for s in samples), default=0.0)
    sampled = sum(s.metric == "shm_files" for s in samples)
    for subject, metric, count, least in (
        ("all", "values_checked", checked, 1),
        ("recording", "equal", equal, LEAST_EQUAL * TICKS_HZ * length),
        ("machine", "samples", sampled, LEAST_SAMPLES * length / SAMPLE_S),
    ):
        yield Finding(subject, metric, f"at least {least:.0f}", count >= least, f"{count:.0f}")
    late = sum(s.value for s in samples if s.metric == "late")
    passed = late <= MOST_LATE * equal
    yield Finding("recording", "late", f"at most {MOST_LATE:.1%} of ticks", passed, f"{late:.0f}")
    # Those of all are the start.
    if not any(subject != "all" for subject, _ in healed):
        yield Finding("all", "healed_s", "some", False, "nothing was disturbed")


def judge(samples, limits=None):
    """All findings about a run."""
    length = max((s.at_s for s in samples), default=0.0)
    limits = limits or Limits.of(length)
    parts = (of_processes, of_machine, of_policies, of_events)
    findings = itertools.chain.from_iterable(part(samples, limits) for part in parts)
    return [finding for finding in findings if length >= SHORT_S or not finding.is_trend]


def passed(findings):
    """Whether nothing is wrong, and the most important trends could be judged, unless the run is too short for any."""
    needed = {("node", "anonymous_kb"), ("node", "descriptors"), ("node", "threads")}
    if not any(finding.is_trend for finding in findings):
        needed = set()
    sure = {(f.subject, f.metric) for f in findings if f.what == "inside of stretches" and f.passed}
    return needed <= sure and all(finding.passed is not False for finding in findings)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    findings = judge(read(sys.argv[1]))
    print("\n".join(map(str, findings)))
    verdict = passed(findings)
    print("PASSED" if verdict else "FAILED")
    sys.exit(0 if verdict else 1)


if __name__ == "__main__":
    main()
