"""The fixtures, which all other tests need."""

import sys

import pytest
from domains import DOMAINS, FIRST_DOMAIN, claimed, domain_is_free, free_domain
from waiting import NotInTime


def test_a_domain_in_use_is_not_taken(ros, domain_id):
    assert not domain_is_free(domain_id)
    assert domain_id not in {free_domain() for _ in range(DOMAINS)}
    assert FIRST_DOMAIN <= domain_id < FIRST_DOMAIN + DOMAINS


def test_a_domain_is_claimed_before_its_ports_are_open():
    domain = free_domain()
    assert domain_is_free(domain) and claimed(domain) is None
    free_domain()
    assert claimed(domain) is not None


def test_a_wrong_exit_code_fails(start):
    process = start(sys.executable, "-c", "raise SystemExit(3)")
    assert process.wait() == 3
    with pytest.raises(AssertionError, match="expected exit code 0, found 3"):
        process.stop()


def test_a_process_that_ignores_the_signal_is_ended(start):
    ignore = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    script = f"{ignore}; print('on', flush=True); time.sleep(600)"
    process = start(sys.executable, "-c", script)
    process.wait_for("on")
    with pytest.raises(NotInTime, match="not in 0.3 s"):
        process.stop(timeout=0.3)
    assert not process.running
    process.is_stopped = True
