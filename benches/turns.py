"""Rounds of training steps that take turns in one process, so that a slower minute of the machine meets all of them."""

import statistics
import time


def wait(device, world=1):
    """Waits for everything that was launched, on all ranks."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize()
    if world > 1:
        torch.distributed.barrier()
        if device.type == "cuda":
            torch.cuda.synchronize()


def round_s(step, steps, device, world=1):
    """Seconds per step of a round."""
    wait(device, world)
    began = time.perf_counter()
    for _ in range(steps):
        step()
    wait(device, world)
    return (time.perf_counter() - began) / steps


def rounds_ms(kinds, rounds, steps, device, *, warm, world=1):
    """The milliseconds per step of each round, by the name of its kind of step. `warm` steps of each come first."""
    for step in kinds.values():
        round_s(step, warm, device, world)
    found = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, step in kinds.items():
            found[name].append(1e3 * round_s(step, steps, device, world))
    return found


def medians(rounds):
    """The median of each kind."""
    return {name: statistics.median(each) for name, each in rounds.items()}
