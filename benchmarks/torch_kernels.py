# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of the table cpu-kernels: torch_kernels.py THREADS, driven line by line.

On standard input "layer NAME" makes a layer; "run plain N" or "run last N" answers the seconds of N times forward and backward of the layer, with
tensors in the usual layout or channels last. Names and shapes are those of cpu_kernels.cpp.
"""
import re
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


def conv(inputs, outputs, kernel, **rest):
    return nn.Conv2d(inputs, outputs, kernel, **{"bias": False, **rest})


class Sequence(nn.Module):
    """Of a recurrent layer the output alone."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def layer(name):
    """(module, shape of the input)"""
    numbers = [int(n) for n in re.findall(r"\d+", name)]
    if name.startswith("depthwise"):
        stride = 2 if "/2" in name else 1
        kernel, channels, extent = numbers[0], numbers[-2], numbers[-1]
        return conv(channels, channels, kernel, stride=stride, padding=kernel // 2, groups=channels), (
            8, channels, extent, extent)
    if name.startswith("1x1"):
        return conv(numbers[2], numbers[3], 1), (8, numbers[2], numbers[4], numbers[4])
    if name.startswith("32 groups"):
        channels, extent = numbers[-2], numbers[-1]
        return conv(channels, channels, 3, stride=2 if "/2" in name else 1, padding=1, groups=32), (
            4, channels, extent, extent)
    known = {
        "3x3, 64 of 56": lambda: (conv(64, 64, 3, padding=1), (8, 64, 56, 56)),
        "3x3/2, 128 of 56": lambda: (conv(128, 128, 3, stride=2, padding=1), (8, 128, 56, 56)),
        "3x3, dilation 2, 256 of 28": lambda: (conv(256, 256, 3, padding=2, dilation=2), (2, 256, 28, 28)),
        "sequence 3, 256 of 512": lambda: (nn.Conv1d(256, 256, 3, padding=1), (8, 256, 512)),
        "transposed 2x2/2, 128 to 64 of 56": lambda: (nn.ConvTranspose2d(128, 64, 2, 2), (4, 128, 56, 56)),
        "transposed 3x3/2, 128 to 64 of 28": lambda: (
            nn.ConvTranspose2d(128, 64, 3, 2, 1, 1), (4, 128, 28, 28)),
        "batch norm and relu, 96 of 112": lambda: (
            nn.Sequential(nn.BatchNorm2d(96), nn.ReLU(inplace=True)), (8, 96, 112, 112)),
        "layer norm, 768 of 197": lambda: (nn.LayerNorm(768), (8, 197, 768)),
        "RMS norm, 512 of 256": lambda: (nn.RMSNorm(512), (8, 256, 512)),
        "group norm 32, 256 of 28": lambda: (nn.GroupNorm(32, 256), (8, 256, 28, 28)),
        "bilinear 2x, 128 of 28": lambda: (nn.Upsample(scale_factor=2, mode="bilinear"), (8, 128, 28, 28)),
        "nearest 2x, 128 of 28": lambda: (nn.Upsample(scale_factor=2, mode="nearest"), (8, 128, 28, 28)),
        "max pool 3x3/2, 64 of 112": lambda: (nn.MaxPool2d(3, 2, 1), (8, 64, 112, 112)),
        "max pool 2x2, 64 of 112": lambda: (nn.MaxPool2d(2), (8, 64, 112, 112)),
        "average pool 2x2, 64 of 112": lambda: (nn.AvgPool2d(2), (8, 64, 112, 112)),
        "average pool 1x1 adaptive, 512 of 14": lambda: (nn.AdaptiveAvgPool2d(1), (8, 512, 14, 14)),
        "average pool 6x6 adaptive, 256 of 13": lambda: (nn.AdaptiveAvgPool2d(6), (8, 256, 13, 13)),
        "LSTM, 256 to 256, 64 tokens": lambda: (Sequence(nn.LSTM(256, 256, batch_first=True)), (16, 64, 256)),
        "GRU, 256 to 256, 64 tokens": lambda: (Sequence(nn.GRU(256, 256, batch_first=True)), (16, 64, 256)),
        "cross-entropy, 1000 of 256": lambda: (
            Function(lambda x: F.cross_entropy(x, torch.ones(256, dtype=torch.long))), (256, 1000)),
    }
    return known[name]()


def steps_of(name):
    steps = {}
    for layout, memory in (("plain", torch.contiguous_format), ("last", torch.channels_last)):
        module, shape = layer(name)
        x = torch.rand(shape) - 0.4
        if len(shape) == 4:
            module, x = module.to(memory_format=memory), x.contiguous(memory_format=memory)
        x.requires_grad_()
        wanted = [x, *module.parameters()]
        dy = torch.rand_like(module(x)) - 0.4

        def step(module=module, x=x, wanted=wanted, dy=dy):
            torch.autograd.grad(module(x), wanted, dy)

        steps[layout] = step
    return steps


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.manual_seed(1)
    steps = {}
    for line in sys.stdin:
        word, rest = line.strip().split(" ", 1)
        if word == "layer":
            steps = steps_of(rest)
            print("ready", flush=True)
            continue
        layout, count = rest.split()
        start = time.perf_counter()
        for _ in range(int(count)):
            steps[layout]()
        print(f"{time.perf_counter() - start:.9f}", flush=True)


if __name__ == "__main__":
    main()
