# SPDX-License-Identifier: Apache-2.0
"""Trains exported models beside PyTorch, from the same weights, on the same samples in the same order, and gives them back.

  python3 benchmarks/pytorch/training.py --hetpipe build/release/bin/hetpipe [--steps 50] [NAME ...]

For each function of docs/example/pytorch_models.py, dropout off: exports it, writes a data set with a part for each input, trains
it with `hetpipe train` as a pipeline of three devices of unequal speed (one minibatch in flight: the arithmetic of SGD with
momentum), loads the exported checkpoint into the PyTorch model (strict=True), and prints how far all parameters and buffers together
are from those of PyTorch's own training, in float32 and in float64, and the latter two from each other (norm of the difference
by the norm); the same of the losses of the steps, at the step that differs most; how far the mean of all steps' losses is from
PyTorch's, the farther of float32 and float64; and test loss and right predictions of both programs with
HetPipe's weights. Needs torch, torchvision, timm, transformers, safetensors, h5py.
"""
from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import OrderedDict

import h5py
import torch
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "docs", "example")]
import pytorch_models  # noqa: E402
import step  # noqa: E402
from table import NAMES  # noqa: E402

CLUSTER = """format = 1
[device.fast]
memory = 8_000_000_000
emulate = { slowdown = 0.01 }
[device.slow]
memory = 8_000_000_000
emulate = { slowdown = 0.02 }
[[node]]
name = "n"
devices = ["fast", "slow", "fast"]
[link.intra_node]
bandwidth = 10e9
latency = 10e-6
"""


def example(name: str) -> tuple[torch.nn.Module, tuple, dict]:
    model, inputs = getattr(pytorch_models, name)()
    if isinstance(inputs, dict):
        inputs = ((), inputs)
    args, kwargs = inputs if isinstance(inputs[0], tuple) else (inputs, {})
    return step.without_dropout(model), args, kwargs


def __getattr__(name: str):  # the exporter imports this file
    if name not in NAMES:
        raise AttributeError(name)
    model, args, kwargs = example(name)
    return lambda: (model, (args, kwargs))


def loss_of(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    cross_entropy = torch.nn.functional.cross_entropy
    return cross_entropy(output.flatten(0, 1), labels.flatten()) if output.dim() == 3 else cross_entropy(output, labels)


class Data:
    """`count` samples like the example's, for training, and `tested` others."""

    def __init__(self, model, args: tuple, kwargs: dict, names: list[str], count: int, tested: int):
        generator = torch.Generator().manual_seed(1)
        self.names = names
        self.positional = len(args)
        examples = list(args) + list(kwargs.values())
        self.keys = list(kwargs)
        self.parts: dict[str, list[torch.Tensor]] = {}
        model.eval()  # so that the pass leaves the running statistics of batch norm alone
        with torch.no_grad():
            shape = step.first_output(model(*args, **kwargs)).shape
        classes = shape[-1] if len(shape) == 3 else shape[1]
        rest = shape[1:-1] if len(shape) == 3 else shape[2:]
        for split, samples in (("train", count), ("test", tested)):
            made = [torch.randint(int(e.max()) + 1, (samples, *e.shape[1:]), generator=generator) if e.dtype == torch.int64
                    else torch.randn((samples, *e.shape[1:]), generator=generator) for e in examples]
            self.parts[split] = made + [torch.randint(classes, (samples, *rest), generator=generator)]

    def write(self, path: str) -> None:
        with h5py.File(path, "w") as file:
            for split, parts in self.parts.items():
                for name, part in zip(self.names + ["labels"], parts, strict=True):
                    file[f"{split}/{name}"] = part.numpy()
                    if part.dim() == 4:
                        file[f"{split}/{name}"].attrs["layout"] = "NCHW"

    def batch(self, split: str, first: int, end: int) -> tuple[tuple, dict, torch.Tensor]:
        parts = [p[first:end] for p in self.parts[split]]
        return tuple(parts[:self.positional]), dict(zip(self.keys, parts[self.positional:-1])), parts[-1]


def train_here(model, data: Data, steps: int, batch: int, rate: float, double: bool = False) -> list[float]:
    if double:
        model.double()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    losses = []
    model.train()
    for s in range(steps):
        args, kwargs, labels = data.batch("train", s * batch, (s + 1) * batch)
        if double:
            args = tuple(a.double() if a.is_floating_point() else a for a in args)
            kwargs = {k: a.double() if a.is_floating_point() else a for k, a in kwargs.items()}
        optimizer.zero_grad()
        loss = loss_of(step.first_output(model(*args, **kwargs)), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def evaluated(model, data: Data) -> tuple[float, int]:
    model.eval()
    args, kwargs, labels = data.batch("test", 0, len(data.parts["test"][0]))
    with torch.no_grad():
        output = step.first_output(model(*args, **kwargs))
    predicted = output.argmax(1 if output.dim() != 3 else -1)
    return float(loss_of(output, labels)), int((predicted == labels).sum())


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def gap(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a.double() - b.double()).norm() / b.double().norm().clamp_min(1e-30)) if a.numel() else 0.0


def trained_names(model) -> list[str]:
    """Parameters and buffers in floating point, but those of modules that the loss does not depend on (Inception's auxiliary head)."""
    untrained = {n.rpartition(".")[0] for n, p in model.named_parameters() if p.grad is None}
    return [n for n, t in model.state_dict().items() if t.is_floating_point() and n.rpartition(".")[0] not in untrained]


def all_of(state: dict[str, torch.Tensor], names: list[str]) -> torch.Tensor:
    return torch.cat([state[n].double().flatten() for n in names])


def compare(name: str, options: argparse.Namespace, folder: str) -> str:
    os.chdir(folder)
    run([sys.executable, os.path.join(ROOT, "launch", "pytorch", "hetpipe_export.py"), f"{os.path.join(HERE, 'training.py')}:{name}", "--output", "model"])
    model, args, kwargs = example(name)
    names = re.findall(r'{"name": "([^"]+)", "shape": \["N"', open("model/graph.json").read().split('"outputs"')[0])
    data = Data(model, args, kwargs, names, options.steps * options.batch, 16)
    data.write("data.h5")
    open("cluster.toml", "w").write(CLUSTER)
    hetpipe = [options.hetpipe]
    run(hetpipe + ["profile", "--model", "model", "--minibatch", str(options.batch), "--kind", "cpu", "--output", "profile.toml"])
    said = run(hetpipe + ["train", "--transport", "threads", "--cluster", "cluster.toml", "--profile", "profile.toml", "--model", "model", "--data", "data.h5",
                          "--policy", "np", "--in-flight", "1", "--minibatch", str(options.batch), "--micro-batches", "1", "--shuffle", "none",
                          "--optimizer", "sgd-momentum", "--learning-rate", repr(options.rate), "--momentum", "0.9", "--epochs", "1", "--output", "run", "--timeout", "600"])
    losses = [float(x) for x in re.findall(r"^wave .* loss ([\d.]+)", said, re.M)]
    run(hetpipe + ["checkpoint", "export", "run", "--model", "model", "--output", "trained.safetensors"])
    trained = load_file("trained.safetensors")
    own = train_here(model, data, options.steps, options.batch, options.rate)
    exact, _, _ = example(name)
    torch.set_default_dtype(torch.float64)
    in_double = train_here(exact, data, options.steps, options.batch, options.rate, True)
    torch.set_default_dtype(torch.float32)
    single, double = model.state_dict(), exact.state_dict()
    names = trained_names(model)
    weights = [all_of(state, names) for state in (trained, single, double)]
    apart = [f"{gap(weights[a], weights[b]):.1e}" for a, b in ((0, 1), (0, 2), (1, 2))]
    trainings = [losses, own, in_double]
    apart += [f"{max(abs(x - y) / abs(y) for x, y in zip(trainings[a], trainings[b], strict=True)):.1e}" for a, b in ((0, 1), (0, 2), (1, 2))]
    apart.append(f"{max(abs(sum(a) / sum(b) - 1) for a, b in ((losses, own), (losses, in_double))):.1e}")
    version = getattr(model.state_dict(), "_metadata")  # torchvision's MNASNet wants it
    back = OrderedDict(trained)
    back._metadata = version
    model.load_state_dict(back, strict=True)
    test = re.findall(r"test loss ([\d.]+), test accuracy [\d.]+ % \((\d+) of", said)[-1]
    there = evaluated(model, data)
    stages = len(re.findall(r"virtual_worker.stage\]\]", open("run/plan.toml").read()))
    return f"| {name} | {stages} | {' | '.join(apart)} | {test[0]} / {there[0]:.4f} | {test[1]} / {there[1]} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--hetpipe", default="hetpipe")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0.005, help="learning rate")
    options = parser.parse_args()
    options.hetpipe = os.path.abspath(options.hetpipe) if os.path.dirname(options.hetpipe) else options.hetpipe
    torch.set_num_threads(1)
    print("| model | stages | weights: from PyTorch | from float64 | PyTorch from float64 | losses: from PyTorch | from float64 | PyTorch from float64 "
          "| mean loss | test loss | right |\n|---|---|---|---|---|---|---|---|---|---|---|")
    for name in options.names:
        with tempfile.TemporaryDirectory() as folder:
            print(compare(name, options, folder), flush=True)


if __name__ == "__main__":
    main()
