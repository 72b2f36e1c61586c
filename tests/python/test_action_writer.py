"""Chunks of actions by shared memory, while there is no node."""

import itertools
import os
import warnings

import numpy as np
import pytest

import robocache.shared
from robocache.message.tensor import FusedTensor
from robocache.shared import ActionWriter

NAMES = ["shoulder", "elbow"]
TENSOR = FusedTensor(7, 0, "base_link", {}, np.zeros(8, np.uint8))
_numbers = itertools.count()


@pytest.fixture
def service():
    """A name that no other test has: shared memory is the whole machine's."""
    return f"robocache_test/{os.getpid()}/{next(_numbers)}"


def test_chunks_without_a_node_are_gone_and_one_warning_says_so(service, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ActionWriter(service, "arm", NAMES) as early:
            assert early.send(TENSOR, [[1, 2]]) == 1
    monkeypatch.setattr(robocache.shared, "ABSENT_S", 0.0)
    writer = ActionWriter(service, "arm", NAMES)
    with pytest.warns(RuntimeWarning, match=f"no node takes chunks as '{service}'") as warned:
        assert writer.send(TENSOR, [[1, 2], [3, 4]]) == 1
    assert len(warned) == 1 and warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert writer.send(TENSOR, np.zeros((1024, 2)), reference=[0, 0]) == 2
    assert writer.status is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([1, 2],), r"values: expected \[rows, 2\], one column for each of shoulder, elbow"),
        ((np.zeros((0, 2)),), r"values: expected \[rows, 2\]"),
        (([[1, 2, 3]],), r"found the shape \[1, 3\]"),
        (([[1, np.nan]],), "values: expected finite numbers"),
        (([[1, 2]], [1]), r"reference: expected \[2\], found the shape \[1\]"),
        (([[1, 2]], [1, np.inf]), "reference: expected finite numbers"),
        ((np.zeros((1025, 2)),), "values: expected at most 1024 rows, found 1025"),
    ],
)
def test_a_chunk_that_does_not_fit_is_an_error_and_has_no_number(service, given, message):
    writer = ActionWriter(service, "arm", NAMES)
    with pytest.raises(ValueError, match=message):
        writer.send(TENSOR, *given)
    assert writer.send(TENSOR, [[1, 2]]) == 1


def test_names_and_writers_are_limited(service):
    with pytest.raises(ValueError, match="expected the name of a service"):
        ActionWriter("a b", "arm", NAMES)
    writers = [ActionWriter(service, "arm", NAMES) for _ in range(4)]
    with pytest.raises(RuntimeError, match="has 4 writers already: end one"):
        ActionWriter(service, "arm", NAMES)
    writers[0].close()
    with pytest.raises(RuntimeError, match="the ActionWriter is closed"):
        writers[0].send(TENSOR, [[1, 2]])
    ActionWriter(service, "arm", NAMES).close()


def test_a_forked_process_leaves_the_writer_of_its_parent_alone(service):
    writer = ActionWriter(service, "arm", NAMES)
    child = os.fork()
    if not child:
        try:
            writer.send(TENSOR, [[1, 2]])
        except RuntimeError as error:
            os._exit(0 if "expected an ActionWriter of this process" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert writer.send(TENSOR, [[1, 2]]) == 1
