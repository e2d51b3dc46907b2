# SPDX-License-Identifier: Apache-2.0
"""The table of docs/own-model.md: exported models against PyTorch, in numbers and in time.

  python3 benchmarks/pytorch/table.py --hetpipe build/release/bin/hetpipe [NAME ...]

For each function of docs/example/pytorch_models.py: nodes of the graph, layers, the largest relative difference of a gradient to
PyTorch's float32 and how far that is from its float64 (of the tensors that hold more than rounding), and the fastest step of
both, in turns, on one thread. Needs torch, torchvision, timm, transformers, safetensors.
"""
from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "docs", "example")]
import pytorch_models  # noqa: E402
import step  # noqa: E402

NAMES = ("bert coat convnext_tiny densenet121 distilbert efficientnet_b0 efficientnetv2 gpt2 inception_v3 llama lstm mixer mnasnet "
         "mobilenet_v2 resnet18 resnet50 resnext50 roberta squeezenet unet vit_b_16 whisper").split()
SECONDS = {"s": 1, "ms": 1e-3, "us": 1e-6}


def torch_seconds(name: str, seconds: float) -> float:
    model, inputs = getattr(pytorch_models, name)()
    model = step.without_dropout(model)
    args, kwargs = (inputs, {}) if isinstance(inputs, tuple) and isinstance(inputs[0], torch.Tensor) else ((), inputs) if isinstance(inputs, dict) else inputs
    fastest = float("inf")
    for memory in (torch.contiguous_format, torch.channels_last):
        images = [a.dim() == 4 for a in args]
        if memory is torch.channels_last and not any(images):
            break
        moved = model.to(memory_format=memory) if any(images) else model
        data = tuple(a.to(memory_format=memory) if i else a for a, i in zip(args, images))
        run = lambda *a: moved(*a, **kwargs)
        run.parameters = moved.parameters
        output = step.first_output(run(*data))
        classes = output.shape[1] if output.dim() == 4 else output.shape[-1]
        shape = (output.shape[0], *output.shape[2:]) if output.dim() == 4 else output.shape[:-1]
        labels = torch.randint(classes, shape)
        fastest = min(fastest, step.torch_step(run, data, labels.flatten() if output.dim() == 3 else labels, seconds))
    return fastest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--hetpipe", default="hetpipe")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each turn")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| model | nodes | layers | gradients differ by | PyTorch from float64 | step, ms | PyTorch, ms | ratio |\n|---|---|---|---|---|---|---|---|")
    for name in options.names:
        with tempfile.TemporaryDirectory() as folder:
            exporter = os.path.join(ROOT, "launch", "pytorch", "hetpipe_export.py")
            models = os.path.join(ROOT, "docs", "example", "pytorch_models.py")
            text = subprocess.run([sys.executable, exporter, f"{models}:{name}", "--output", folder, "--check", "--hetpipe", options.hetpipe],
                                  capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}).stdout
            nodes, layers = re.search(r"(\d+) nodes", text).group(1), re.search(r"(\d+) layers", text).group(1)
            ours, theirs = re.search(r"gradients\s+(\S+)\s+(\S+)", text).groups()
            mine, his = [], []
            for _ in range(2):
                said = subprocess.run([options.hetpipe, "check", "--model", folder, "--batch", f"{folder}/check.safetensors", "--steps",
                                       str(3 if not mine else max(3, int(options.seconds / mine[-1])))], capture_output=True, text=True, check=True).stdout
                value, unit = re.search(r"fastest step ([\d.]+) (\w+)", said).groups()
                mine.append(float(value) * SECONDS[unit])
                his.append(torch_seconds(name, options.seconds))
            print(f"| {name} | {nodes} | {layers} | {ours} | {theirs} | {min(mine) * 1e3:.1f} | {min(his) * 1e3:.1f} | {min(mine) / min(his):.2f} |", flush=True)


if __name__ == "__main__":
    main()
