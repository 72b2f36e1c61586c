"""`Pipeline(output="cuda")` with torch: no copy, the streams of the consumer, the current device."""

import gc
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from device_case import CONFIG, START_NS, has_gpu, push  # noqa: E402

import robocache  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or not has_gpu(), reason="no GPU: tensors cannot be on one"
)


def test_torch_shares_the_memory_and_sees_the_bits_of_the_host():
    host = robocache.Pipeline(CONFIG, backend="cpu")
    device = robocache.Pipeline(CONFIG, output="cuda")
    for number in push([host, device], 11, 30):
        expected, found = host.tick(number), device.tick(number)
        for name, segment in found.segments.items():
            values = segment.torch()
            assert values.is_cuda and values.data_ptr() == segment.array.pointer
            same = values.cpu().view(torch.uint8), expected[name].torch().view(torch.uint8)
            assert torch.equal(*same), name
            assert torch.equal(segment.float32().cpu(), torch.tensor(expected[name].float32()))


def test_memory_is_written_again_only_after_what_the_consumer_queued():
    device = robocache.Pipeline(CONFIG, output="cuda")
    list(push([device], 5, 12))
    side = torch.cuda.Stream()
    sums, expected = [], []
    for at in range(30):
        tensor = device.tick_at(START_NS + at * 10_000_000)
        expected.append(float(tensor.on_host()["joints"].array.astype("f8").sum()))
        with torch.cuda.stream(side):
            joints = tensor["joints"].torch()
            # The stream reads long after the tensor is gone.
            torch.cuda._sleep(20_000_000)
            sums.append(joints.double().sum())
        del tensor, joints
    torch.cuda.synchronize()
    assert [float(value) for value in sums] == expected


def test_a_stream_that_records_a_graph_is_refused():
    device = robocache.Pipeline(CONFIG, output="cuda")
    tensor = device.tick(1)
    torch.zeros(1, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(BufferError, match="records no graph"):
            tensor["joints"].torch()


def test_what_a_policy_writes_is_in_no_later_tensor():
    host = robocache.Pipeline(CONFIG, backend="cpu")
    device = robocache.Pipeline(CONFIG, output="cuda")
    list(push([host, device], 5, 12))
    for number in range(1, 30):  # the same rows again and again, in memory that comes back
        instant = START_NS + number * 10_000_000
        expected, found = host.tick_at(instant), device.tick_at(instant)
        for name in ("joints", "camera"):
            values = found[name].torch()
            assert (values.cpu().numpy() == expected[name].array).all(), (number, name)
            values.fill_(7)
        del found, values
        gc.collect()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU: there is no other device")
@pytest.mark.parametrize("current", [0, 1])
def test_the_current_device_stays(current):
    torch.cuda.set_device(current)
    device = robocache.Pipeline(CONFIG, device=1 - current, output="cuda")
    list(push([device], 5, 12))
    values = device.tick_at(START_NS)["joints"].torch()
    assert values.device.index == 1 - current
    assert torch.zeros(1, device="cuda").device.index == current
    del values, device
    gc.collect()
    assert torch.zeros(1, device="cuda").device.index == current
    assert torch.cuda.current_device() == current
