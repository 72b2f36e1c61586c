"""The benchmark's arguments, its comparisons, and its unknown figures."""

import json

import bench
import bench_case
import pytest


def case(p99=1.0, worst=2.0, cpu=1.0, overruns=0, machine=0, **changes):
    """A measured case with these figures [ms, counts]."""
    latency = {
        "p50": p99 / 2,
        "p99": p99,
        "p99_whole_run": 1.5 * p99,
        "p99_worst_window": worst,
        "max": 9.0,
    }
    figures = {
        "title": "a case",
        "seconds": 1.0,
        "tick_to_policy_ms": {"p50": 1.0, "p99": 2.0, "max": 3.0},
        "tick_latency_ms": latency,
        "ticks_delivered": 100,
        "ticks_delivered_share": 1.0,
        "overruns": overruns,
        "machine_overruns": machine,
        "realtime_priority": 50,
        "cpu_s_per_s": {"node": 0.1, "sim": 0.1, "policy": 0.1},
        "cpu_s_per_s_of_others": 0.0,
        "cpu_ms_per_tick": cpu,
        "peak_memory_mb": {"node": 50.0},
        "sensor_to_policy_ms": {"joints": {"p50": 1.0, "p99": 2.0}},
    }
    return {**figures, **changes}


def verdicts(**results):
    return {what: (found, reached) for what, found, _, _, reached in bench.targets(results)}


def test_all_cases_are_measured_by_default():
    arguments = bench.parse_arguments([])
    assert arguments.only == ["node", "shared", "plain", "peer", "1khz", "shared-1khz"]
    assert arguments.domain_id is None


@pytest.mark.parametrize("name", bench.CASES)
def test_each_case_can_be_chosen(name):
    arguments = bench.parse_arguments(["--only", name, "--domain-id", "0"])
    assert arguments.only == [name] and arguments.domain_id == 0


def test_unknown_cases_are_refused(capsys):
    with pytest.raises(SystemExit):
        bench.parse_arguments(["--only", "node,pear"])
    expected = "expected some of node, shared, plain, peer, 1khz, shared-1khz, found pear"
    assert expected in capsys.readouterr().err


def test_the_limit_of_p99_applies_to_the_worst_window():
    found = verdicts(node=case(p99=1.0, worst=4.5))
    assert found["tick latency p99, worst window [ms]"] == (4.5, False)
    assert verdicts(node=case(worst=3.9))["tick latency p99, worst window [ms]"] == (3.9, True)


def test_shared_memory_is_compared_with_the_topic():
    quick = {"p50": 0.4, "p99": 1.5, "max": 3.0}
    found = verdicts(node=case(), shared=case(tick_to_policy_ms=quick))
    assert found["shared memory / topic: tick to policy p50"] == (0.4, True)
    assert found["shared memory / topic: tick to policy p99"] == (0.75, False)
    assert found["shared memory / topic: CPU of node and policy per tick"] == (1.0, False)


def test_overruns_count_even_if_the_machine_stalls():
    found = verdicts(node=case(overruns=2, machine=5))
    assert found["overruns"] == (2, False)
    assert not any("bare" in what for what in found)


def test_the_peer_is_compared_with_the_node_as_shipped_and_at_ordinary_priority():
    results = {
        "node": case(p99=1.0, worst=1.0, cpu=1.0),
        "plain": case(p99=2.0, worst=8.0, cpu=2.0),
        "peer": case(p99=20.0, worst=24.0, cpu=14.0),
    }
    found = verdicts(**results)
    assert found["CPU per tick, peer / ordinary priority"] == (7.0, True)
    assert found["tick latency p99, peer / ordinary priority"] == (10.0, True)
    assert found["CPU per tick, peer / as shipped"] == (14.0, True)
    assert found["tick latency p99, peer / as shipped"] == (20.0, True)
    ratios = bench.ratios(results)
    assert ratios["node"]["tick_latency_p99_worst_window"] == 24.0
    assert ratios["plain"]["tick_latency_p99"] == 10.0
    del results["plain"]
    assert not any("ordinary" in what for what in verdicts(**results))
    assert bench.ratios({"plain": case()}) == {}


def test_the_table_shows_unknown_figures(capsys):
    results = {
        "node": case(machine=None, realtime_priority=0),
        "plain": case(machine=3, realtime_priority=None),
        "peer": case(machine=0, realtime_priority=50),
    }
    table = {line[0]: line[1:] for line in bench.rows(results)}
    assert table["missed by a bare thread"] == ["n/a", "3", "0"]
    assert table["real-time priority of the ticks"] == ["none", "unknown", "50"]
    facts = {"cpu": "a CPU", "cores": 2, "kernel": "6", "commit": "abc"}
    bench.show(results, facts)
    assert "real-time priority is not permitted here" in capsys.readouterr().out
    bench.show({"peer": results["peer"]}, facts)
    assert "not permitted" not in capsys.readouterr().out


@pytest.mark.parametrize(("real_time", "expected"), [(True, 3), (False, None)])
def test_a_probe_without_real_time_priority_gives_no_count(tmp_path, real_time, expected):
    path = tmp_path / "stalls.json"
    stalls = [[9, 7], [10, 1], [19, 2], [20, 7]]  # [time, missed]; those in [10, 20) count
    path.write_text(json.dumps({"real_time": real_time, "stalls": stalls}))
    assert bench_case.machine_overruns(path, 10, 20) == expected
