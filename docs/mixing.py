#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What training mixes, as docs/data.md defines it: SEED SIZE HEIGHT WIDTH MIXUP CUTMIX FIRST END prints, for each position of
[FIRST, END), epoch, sample, the sample it is mixed with, its own share, and of CutMix the box (top, left, height, width)."""
import math
import sys

import sample_order
from sample_order import philox, random_key

NAME = 0xFBC6F662FD44606D  # hash_text("mixes"): FNV-1a, 64 bits


def beta_share(alpha, first, second):  # Beta(alpha, alpha), from two even draws
    grown = math.expm1(-math.log1p(-first) / alpha)
    if grown == 0:
        return 0.5
    cosine = math.cos(2 * math.pi * second)
    return (1 + cosine / math.sqrt(1 / grown + cosine * cosine)) / 2


def mix(seed, epoch, sample, height, width, mixup, cutmix):
    key = random_key(seed, NAME, epoch, sample)

    def draw(i):
        return (philox(key, (i // 4, 0, 0, 0))[i % 4] >> 8) / 2**24

    whole = draw(0) < 0.5 if mixup > 0 and cutmix > 0 else mixup > 0
    share = beta_share(mixup if whole else cutmix, draw(1), draw(2))
    if whole:
        return share, ()
    column, row = min(width - 1, int(draw(3) * width)), min(height - 1, int(draw(4) * height))
    side = 0.5 * math.sqrt(1 - share)
    half_width, half_height = int(side * width), int(side * height)
    top, left = max(row - half_height, 0), max(column - half_width, 0)
    box = (top, left, min(row + half_height, height) - top, min(column + half_width, width) - left)
    return 1 - box[2] * box[3] / (width * height), box


if __name__ == "__main__":
    seed, size, height, width = map(int, sys.argv[1:5])
    mixup, cutmix = map(float, sys.argv[5:7])
    for position in range(int(sys.argv[7]), int(sys.argv[8])):
        epoch, own = sample_order.sample(seed, size, position)
        _, other = sample_order.sample(seed, size, position - 1 if position % size else position + size - 1)
        share, box = mix(seed, epoch, own, height, width, mixup, cutmix)
        print(position, epoch, own, other, f"{share:.6f}", *box)
