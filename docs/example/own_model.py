# SPDX-License-Identifier: Apache-2.0
"""The network of docs/own-model.md: a function returns it, and inputs of the shapes that it will see."""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(outputs)
        self.act = nn.SiLU()

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.blocks = nn.Sequential(Block(16, 24), Block(24, 32))
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.blocks(torch.relu(self.stem(x)))
        return self.head(self.drop(x.mean(dim=(2, 3))))


def net():
    torch.manual_seed(0)
    return Net(), (torch.randn(4, 1, 28, 28),)
