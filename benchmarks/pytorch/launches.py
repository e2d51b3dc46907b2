# SPDX-License-Identifier: Apache-2.0
"""Counts what a training step asks a GPU to do: HetPipe's on the CUDA double, beside the ATen operations of PyTorch's.

  python3 benchmarks/pytorch/launches.py --counter build/asan-ubsan/bin/cuda_double_launches [--precision fp32] [NAME ...]

Needs no GPU. Both train one minibatch: forward, backward, SGD with momentum (PyTorch's `foreach`, a call for all parameters),
dropout off. HetPipe's figures are kernels of its own, cuDNN plans, products of cuBLASLt, copies and fills. PyTorch's are its
dispatched operations without views and allocations, which is no more than it launches: on a GPU each is one kernel or several
(a convolution's backward two or three, a batch norm's two).
"""
from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections import Counter

import torch
from safetensors.torch import save_file
from step import MODELS, export, first_output, without_dropout
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

# No view by its schema, and no work either.
IDLE = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided", "aten::_unsafe_view",
        "aten::_local_scalar_dense", "aten::lift_fresh", "aten::is_same_size", "aten::_to_copy.none"}


class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func._schema.name
        if not func.is_view and name not in IDLE:
            self.counts[name] += 1
        return result


def torch_operations(model: nn.Module, inputs: tuple, labels: torch.Tensor) -> Counter:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        output = first_output(model(*inputs))
        output = output.flatten(0, 1) if output.dim() == 3 else output
        nn.functional.cross_entropy(output, labels).backward()
        optimizer.step()

    step()  # makes the momentum
    with Operations() as operations:
        step()
    return operations.counts


def hetpipe_requests(counter: str, build, precision: str, inputs: tuple, labels: torch.Tensor) -> list[int]:
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/{build.__name__}"
        export(build, folder, model)
        with open(f"{model}/graph.json") as file:
            name = json.load(file)["inputs"][0]["name"]
        save_file({name: inputs[0].contiguous(), "labels": labels}, f"{model}/check.safetensors")
        text = subprocess.run([counter, model, precision], check=True, capture_output=True, text=True).stdout
        return [int(n) for n in re.findall(r"^ *(\d+) ", text, re.MULTILINE)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--counter", required=True)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--operations", action="store_true", help="also PyTorch's most frequent operations")
    options = parser.parse_args()
    print(f"PyTorch {torch.__version__}, HetPipe in {options.precision}\n")
    print("| model | HetPipe's kernels | cuDNN | cuBLASLt | copies, fills | in all | PyTorch's operations |\n|---|---|---|---|---|---|---|")
    for build in MODELS:
        if options.names and build.__name__ not in options.names:
            continue
        torch.manual_seed(0)
        model, inputs = build()
        model, inputs = without_dropout(model), tuple(x[:2] for x in inputs)
        with torch.no_grad():
            output = first_output(model(*inputs))
        classes = output.shape[-1] if output.dim() < 4 else output.shape[1]
        labels = torch.randint(classes, output.shape[:-1] if output.dim() < 4 else (output.shape[0], *output.shape[2:]))
        theirs = torch_operations(model, inputs, labels.flatten() if output.dim() == 3 else labels)
        ours = hetpipe_requests(options.counter, build, options.precision, inputs, labels)
        print(f"| {build.__name__} | {' | '.join(map(str, ours))} | {sum(theirs.values())} |", flush=True)
        if options.operations:
            print(theirs.most_common(12))


if __name__ == "__main__":
    main()
