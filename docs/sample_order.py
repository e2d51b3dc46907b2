#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The order of samples as docs/data.md defines it: SEED SIZE FIRST END prints position, epoch and sample of [FIRST, END)."""
import sys

M64 = 2**64 - 1


def philox(key, c):  # Philox4x32-10: four words
    k0, k1 = key % 2**32, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = (p1 >> 32) ^ c[1] ^ k0, p1 % 2**32, (p0 >> 32) ^ c[3] ^ k1, p0 % 2**32
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c


def random_key(*parts):  # splitmix64 over a running sum
    state = 0x243F6A8885A308D3
    for part in parts:
        state = (state + part + 0x9E3779B97F4A7C15) & M64
        state = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & M64
        state = ((state ^ state >> 27) * 0x94D049BB133111EB) & M64
        state ^= state >> 31
    return state


def permuted(key, size, x):
    half = ((size - 1).bit_length() + 1) // 2
    while half:  # six Feistel rounds over 2*half bits, again while the result is too large
        left, right = x >> half, x % 2**half
        for turn in range(6):
            left, right = right, left ^ philox(key, (right, 0, turn, 2))[0] % 2**half
        x = left << half | right
        if x < size:
            break
    return x


def sample(seed, size, position):
    epoch, x = divmod(position, size)
    return epoch, permuted(random_key(seed, epoch), size, x)


if __name__ == "__main__":
    seed, size, first, end = map(int, sys.argv[1:])
    for position in range(first, end):
        print(position, *sample(seed, size, position))
