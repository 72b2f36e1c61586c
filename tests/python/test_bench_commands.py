"""The arguments, the configuration and the targets of the benchmark of commands."""

import commands
import configuration
import pytest


def test_all_cases_are_measured_if_none_are_named():
    assert commands.parse_arguments([]).only == ["delay", "rate"]


def test_unknown_cases_are_refused(capsys):
    with pytest.raises(SystemExit):
        commands.parse_arguments(["--only", "delay,rat"])
    expected = "expected some of delay, rate, found rat"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("rate_hz", [commands.DELAY_HZ, commands.RATE_HZ])
def test_its_configurations_are_valid(tmp_path, rate_hz):
    configuration.load(commands.configuration(tmp_path, rate_hz))


def test_targets_are_those_of_the_measured_cases():
    results = {
        "delay": {"to_publish_p99_ms": 4.25},
        "rate": {"command_p99_ms": 0.25, "command_cores": 0.05},
    }
    assert commands.targets({}) == []
    reached = [reached for _, _, _, reached in commands.targets(results)]
    assert reached == [True, False, True]
