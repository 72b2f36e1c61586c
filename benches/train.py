"""Trains a transformer on the GPU until the process is ended. A policy's GPU may have such a load.

Prints `training` when the first steps are done, and then once a second how many steps are done. The
steps are launched well ahead of the GPU, so that it never waits for this process.
"""

import argparse
import time

import torch
from torch import nn

#: Steps that are launched before this process waits for the GPU.
AHEAD = 4


def main():
    """Trains."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=2048, help="features of a token")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=8192, help="tokens of a step")
    options = parser.parse_args()
    device = torch.device("cuda")
    layer = nn.TransformerEncoderLayer(
        options.width, options.width // 128, 4 * options.width, dropout=0.0, batch_first=True
    )
    model = nn.TransformerEncoder(layer, options.layers, enable_nested_tensor=False).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs = torch.randn(options.tokens // 512, 512, options.width, device=device)
    done = [torch.cuda.Event() for _ in range(AHEAD)]
    steps, told = 0, time.monotonic()
    while True:
        event = done[steps % AHEAD]
        event.synchronize()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = (model(inputs) - inputs).square().mean()
        loss.backward()
        optimizer.step()
        event.record()
        steps += 1
        if steps == 2 * AHEAD:
            torch.cuda.synchronize()
            print("training", flush=True)
        if time.monotonic() - told > 1:
            told = time.monotonic()
            print(f"{steps} steps", flush=True)


if __name__ == "__main__":
    main()
