# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of the table cpu-layers: single layers and expressions in eager mode, driven line by line.

On standard input: "case NAME" prepares one (names are those of cpu_layers.cpp); "run N" answers the seconds of N forward and backward
passes; "quit" ends. Only the benchmarks need Python.
"""
import sys
import time

import torch
from torch.nn import functional as F


def tensor(*shape):
    return torch.randn(*shape, requires_grad=True)


def attention(n, heads, tokens, features, causal):
    """Queries, keys and values from one product, as models have them."""
    packed = tensor(n, tokens, 3 * heads * features)

    def run():
        q, k, v = packed.view(n, tokens, 3, heads, features).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).contiguous()

    return run, [packed]


def rope(n, tokens, heads, features):
    x = tensor(n, tokens, heads, features)
    cos, sin = torch.randn(tokens, 1, features), torch.randn(tokens, 1, features)

    def run():
        half = torch.cat((-x[..., features // 2:], x[..., : features // 2]), dim=-1)
        return x * cos + half * sin

    return run, [x]


def unary(function, *shape):
    x = tensor(*shape)
    return (lambda: function(x)), [x]


def binary(function, a, b):
    return (lambda: function(a, b)), [a, b]


TEXT = (8, 197, 768)
IMAGE = (8, 96, 56, 56)
CASES = {
    "gelu": lambda: unary(F.gelu, *TEXT),
    "gelu, tanh": lambda: unary(lambda x: F.gelu(x, approximate="tanh"), *TEXT),
    "silu": lambda: unary(F.silu, *TEXT),
    "hardswish": lambda: unary(F.hardswish, *TEXT),
    "mish": lambda: unary(F.mish, *TEXT),
    "sum of two": lambda: binary(torch.add, tensor(*TEXT), tensor(*TEXT)),
    "silu(a) * b": lambda: binary(lambda a, b: F.silu(a) * b, tensor(*TEXT), tensor(*TEXT)),
    "GPT-2's gelu in its parts": lambda: unary(
        lambda x: 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0)))), *TEXT),
    "layer scale": lambda: binary(torch.mul, tensor(*TEXT), tensor(TEXT[-1])),
    "squeeze and excite": lambda: binary(
        lambda x, s: x * s, tensor(*IMAGE).detach().contiguous(memory_format=torch.channels_last).requires_grad_(),
        tensor(IMAGE[0], IMAGE[1], 1, 1)),
    "rotary embedding": lambda: rope(8, 256, 8, 64),
    "attention, ViT-B/16": lambda: attention(8, 12, 197, 64, False),
    "attention, GPT-2 of width 256": lambda: attention(8, 8, 256, 32, True),
    "channels last to first": lambda: unary(
        lambda x: x.permute(0, 3, 1, 2).contiguous(), IMAGE[0], IMAGE[2], IMAGE[3], IMAGE[1]),
    "heads before tokens": lambda: unary(lambda x: x.transpose(1, 2).contiguous(), 8, 197, 12, 64),
    "one token of all": lambda: unary(lambda x: x[:, 0].contiguous(), *TEXT),
    "roll": lambda: unary(lambda x: torch.roll(x, (-3, -3), (1, 2)), 8, 56, 56, 96),
    "side by side": lambda: binary(lambda a, b: torch.cat((a, b), dim=-1), tensor(8, 56, 56, 64), tensor(8, 56, 56, 96)),
    "mean of the last extent": lambda: unary(lambda x: x.mean(-1), *TEXT),
    "mean over pixels": lambda: unary(lambda x: x.mean((1, 2)), 8, 56, 56, 96),
    "maximum of the last extent": lambda: unary(lambda x: x.amax(-1), *TEXT),
    "softmax": lambda: unary(lambda x: torch.softmax(x, -1), 8, 12 * 197, 197),
    "log softmax": lambda: unary(lambda x: torch.log_softmax(x, -1), 8, 256, 1000),
    "cumulative sum": lambda: unary(lambda x: torch.cumsum(x, 1), *TEXT),
    "batched product": lambda: binary(torch.matmul, tensor(8, 12, 197, 64), tensor(8, 12, 64, 197)),
}


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.manual_seed(1)
    print("ready", "PyTorch", torch.__version__, flush=True)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "quit":
            return
        if word == "case":
            run, leaves = CASES[rest]()
            gradient = torch.randn_like(run())
            print("ready", flush=True)
            continue
        start = time.perf_counter()
        for _ in range(int(rest)):
            # As a next layer reads them: views that backward gives for nothing are copied there.
            [g.contiguous() for g in torch.autograd.grad(run(), leaves, gradient)]
        print(f"{time.perf_counter() - start:.9f}", flush=True)


if __name__ == "__main__":
    main()
