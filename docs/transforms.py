#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is random in transforms, as docs/data.md defines it: SEED HEIGHT WIDTH EPOCHS SAMPLES prints, for each epoch and sample, the part
that RandomResizedCrop takes as the first transform (top, left, height, width) and whether RandomHorizontalFlip as the second one flips."""
import math
import sys

from sample_order import philox, random_key

NAME = 0xBA2A75DB966E6238  # hash_text("transforms"): FNV-1a, 64 bits


class Draws:
    def __init__(self, seed, epoch, sample, step):
        self.key, self.next = random_key(seed, NAME, epoch, sample, step), 0

    def uniform(self, low, high):
        block, word = divmod(self.next, 4)
        self.next += 1
        return low + (high - low) * ((philox(self.key, (block % 2**32, block >> 32, 0, 0))[word] >> 8) / 2**24)

    def below(self, count):
        return min(count - 1, int(self.uniform(0, 1) * count))


def crop(height, width, draws, scale=(0.08, 1), ratio=(3 / 4, 4 / 3)):
    for _ in range(10):
        area = height * width * draws.uniform(*scale)
        aspect = math.exp(draws.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            top = draws.below(height - h + 1)
            return top, draws.below(width - w + 1), h, w
    w, h = width, height
    if width / height < ratio[0]:
        h = round(w / ratio[0])
    if width / height > ratio[1]:
        w = round(h * ratio[1])
    return (height - h) // 2, (width - w) // 2, h, w


if __name__ == "__main__":
    seed, height, width, epochs, samples = map(int, sys.argv[1:])
    for epoch in range(epochs):
        for sample in range(samples):
            flips = Draws(seed, epoch, sample, 1).uniform(0, 1) < 0.5
            print(epoch, sample, *crop(height, width, Draws(seed, epoch, sample, 0)), int(flips))
