# SPDX-License-Identifier: Apache-2.0
"""The zoo's networks as PyTorch modules, layer for layer: what torch_step.py trains.

Images are (N, C, H, W), channels last; tokens (N, T). Additions and ReLUs write in place where that is allowed.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F


class LeNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 5, padding=2)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.linear1 = nn.Linear(32 * 7 * 7, 128)
        self.linear2 = nn.Linear(128, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x), inplace=True), 2)
        x = F.max_pool2d(F.relu(self.conv2(x), inplace=True), 2)
        x = F.relu(self.linear1(torch.flatten(x, 1)), inplace=True)
        return self.linear2(F.dropout(x, 0.1, training=True))


def convolution(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


def shortcut(inputs, outputs, stride):
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


class Block(nn.Module):
    """He et al. 2015, figure 5, left."""

    def __init__(self, inputs, channels, stride):
        super().__init__()
        self.conv1 = convolution(inputs, channels, 3, stride)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = convolution(channels, channels, 3)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = shortcut(inputs, channels, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)).add_(self.shortcut(x)), inplace=True)


class Bottleneck(nn.Module):
    """Figure 5, right; the stride is that of the 3x3 convolution, as in torchvision and the zoo."""

    def __init__(self, inputs, channels, stride):
        super().__init__()
        self.conv1 = convolution(inputs, channels, 1)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = convolution(channels, channels, 3, stride)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = convolution(channels, 4 * channels, 1)
        self.bn3 = nn.BatchNorm2d(4 * channels)
        self.shortcut = shortcut(inputs, 4 * channels, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        return F.relu(self.bn3(self.conv3(y)).add_(self.shortcut(x)), inplace=True)


def small_resnet(depth, classes):
    layers = [convolution(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    inputs = 16
    for stage in range(3):
        for block in range((depth - 2) // 6):
            layers.append(Block(inputs, 16 << stage, 2 if stage > 0 and block == 0 else 1))
            inputs = 16 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def deep_resnet(depth, classes):
    blocks = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}[depth]
    layers = [convolution(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    inputs = 64
    for stage, count in enumerate(blocks):
        for block in range(count):
            layers.append(Bottleneck(inputs, 64 << stage, 2 if stage > 0 and block == 0 else 1))
            inputs = 4 * (64 << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def vgg(depth, classes, rows, columns):
    layers, inputs = [], 3
    for stage in range(5):
        channels = min(64 << stage, 512)
        for _ in range(2 if stage < 2 else {16: 3, 19: 4}[depth]):
            layers += [nn.Conv2d(inputs, channels, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = channels
        layers.append(nn.MaxPool2d(2))
    layers.append(nn.Flatten())
    inputs *= (rows // 32) * (columns // 32)
    for _ in range(2):
        layers += [nn.Linear(inputs, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5)]
        inputs = 4096
    return nn.Sequential(*layers, nn.Linear(inputs, classes))


class TransformerBlock(nn.Module):
    def __init__(self, features, heads, dropout):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.ln1 = nn.LayerNorm(features)
        self.qkv = nn.Linear(features, 3 * features)
        self.projection = nn.Linear(features, features)
        self.ln2 = nn.LayerNorm(features)
        self.fc = nn.Linear(features, 4 * features)
        self.mlp = nn.Linear(4 * features, features)

    def attention(self, x):
        n, t, f = x.shape
        q, k, v = (z.view(n, t, self.heads, f // self.heads).transpose(1, 2) for z in self.qkv(x).split(f, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.projection(y.transpose(1, 2).reshape(n, t, f))

    def forward(self, x):
        x = x + F.dropout(self.attention(self.ln1(x)), self.dropout, training=True)
        y = self.mlp(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))
        return x + F.dropout(y, self.dropout, training=True)


class Gpt2(nn.Module):
    """Logits (N*T, vocabulary). Dropout where the zoo has it: none on the attention's weights."""

    def __init__(self, vocabulary, layers=12, heads=12, features=768, positions=1024, dropout=0.1):
        super().__init__()
        self.dropout = dropout
        self.wte = nn.Embedding(vocabulary, features)
        self.wpe = nn.Embedding(positions, features)
        self.blocks = nn.ModuleList(TransformerBlock(features, heads, dropout) for _ in range(layers))
        self.ln = nn.LayerNorm(features)
        self.head = nn.Linear(features, vocabulary, bias=False)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                deviation = 0.02 / math.sqrt(2 * layers) if "projection" in name or "mlp" in name else 0.02
                nn.init.normal_(p, std=deviation)
        self.head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        x = F.dropout(x, self.dropout, training=True)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x)).flatten(0, 1)


def make(name, sample, classes):
    """The module of this name for samples (H, W, C) or (T,); KeyError for an unknown name."""
    kind, _, depth = name.partition("-")
    if name == "lenet":
        return LeNet(classes)
    if name == "gpt2":
        return Gpt2(50257)
    if kind == "vgg":
        return vgg(int(depth), classes, sample[0], sample[1])
    if kind == "resnet":
        return small_resnet(int(depth), classes) if int(depth) % 6 == 2 and int(depth) < 50 else deep_resnet(int(depth), classes)
    raise KeyError(name)
