# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of the table cpu-step: the same networks, batch, threads and optimizer, driven line by line.

torch_step.py MODEL BATCH THREADS; then on standard input: "run N" answers the seconds of N training steps,
"profile N" answers the operators that took the time of N steps, "quit" ends. Only the benchmark needs Python.
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class LeNet(nn.Module):
    sample = (28, 28, 1)

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 5, padding=2)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.linear1 = nn.Linear(32 * 7 * 7, 128)
        self.linear2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x), inplace=True), 2)
        x = F.max_pool2d(F.relu(self.conv2(x), inplace=True), 2)
        x = F.relu(self.linear1(torch.flatten(x, 1)), inplace=True)
        return self.linear2(F.dropout(x, 0.1, training=True))


class Block(nn.Module):
    def __init__(self, inputs, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Identity()
        if stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)).add_(self.shortcut(x)), inplace=True)


class ResNet(nn.Module):
    sample = (32, 32, 3)

    def __init__(self, blocks):
        super().__init__()
        layers = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
        inputs = 16
        for stage in range(3):
            for block in range(blocks):
                channels = 16 << stage
                layers.append(Block(inputs, channels, 2 if stage > 0 and block == 0 else 1))
                inputs = channels
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        return self.linear(self.body(x))


def make(name):
    return LeNet() if name == "lenet" else ResNet((int(name.removeprefix("resnet-")) - 2) // 6)


def main():
    name, batch, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = make(name).to(memory_format=torch.channels_last)
    h, w, c = model.sample
    images = torch.rand(batch, c, h, w).contiguous(memory_format=torch.channels_last)
    labels = torch.arange(batch) % 10
    # fused: PyTorch's fastest update on a CPU.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)

    def steps(count):
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()

    print("ready", sum(p.numel() for p in model.parameters()), "PyTorch", torch.__version__,
          "oneDNN" if torch.backends.mkldnn.is_available() else "no oneDNN", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "quit":
            return
        count = int(words[1])
        if words[0] == "run":
            start = time.perf_counter()
            steps(count)
            print(f"{time.perf_counter() - start:.9f}", flush=True)
        elif words[0] == "profile":
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                steps(count)
            for event in profile.key_averages():
                print(event.key.replace(" ", "_"), f"{event.self_cpu_time_total * 1e-6 / count:.9f}")
            print("end", flush=True)


if __name__ == "__main__":
    main()
