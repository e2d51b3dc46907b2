#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What graph.json means, in PyTorch: runs exported graphs node by node, knowing nothing but their folders, and compares one
minibatch with the numbers that hetpipe_export.py --reference wrote. By hand; docs/graph-format.md is the text of it.

  python3 run_graph.py DIR [DIR...]      each with graph.json, weights, check.safetensors and reference.safetensors"""
from __future__ import annotations

import functools
import json
import os
import sys
from typing import Any, Callable

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch.nn import functional as F

TYPES = {"float32": torch.float32, "int64": torch.int64, "int32": torch.int32, "bool": torch.bool}


def extent(value: int | str, samples: int) -> int:
    return value if isinstance(value, int) else samples * int(value.removesuffix("N").removesuffix("*") or 1)


def number(value: Any) -> Any:
    """Infinities are strings."""
    return float(value) if value in ("inf", "-inf", "nan") else value


def shaped(x: torch.Tensor, shape: list[int], **_: Any) -> torch.Tensor:
    return x.reshape(shape)


def lstm(a: dict[str, Any], kind: str) -> tuple[torch.Tensor, ...]:
    layers = a["num_layers"] * (2 if a["bidirectional"] else 1)
    gates = 4 if kind == "lstm" else 3
    samples = a["input"].shape[0 if a["batch_first"] else 1]
    zero = torch.zeros(layers, samples, a["params"][0].shape[0] // gates)
    states = a.get("hx") or ([zero, zero] if kind == "lstm" else [zero])
    f = torch.lstm if kind == "lstm" else torch.gru
    return f(a["input"], states if kind == "lstm" else states[0], a["params"], a["has_biases"], a["num_layers"], 0.0, True,
             a["bidirectional"], a["batch_first"])


def pooling(f: Callable, *names: str) -> Callable:
    return lambda a, s: f(a["self"], *[a[n] for n in names])


def upsample(mode: str) -> Callable:
    def run(a: dict[str, Any], shape: list[int]) -> torch.Tensor:
        align = {"align_corners": a["align_corners"]} if "align_corners" in a else {}
        if a["scale_factors"] is None:
            return F.interpolate(a["input"], size=shape[2:], mode=mode, **align)
        return F.interpolate(a["input"], scale_factor=tuple(a["scale_factors"]), mode=mode, recompute_scale_factor=False, **align)
    return run


def norm(f: Callable) -> Callable:
    return lambda a, s: f(a["input"], a["normalized_shape"], a.get("weight"), a.get("bias"), a["eps"])


def convolution(f: Callable) -> Callable:
    return lambda a, s: f(**a)


def batch_norm(a: dict[str, Any], s: list[int]) -> torch.Tensor:
    return F.batch_norm(a["input"], a.get("running_mean"), a.get("running_var"), a.get("weight"), a.get("bias"), a["training"], a["momentum"], a["eps"])


def one(f: Callable) -> Callable:
    return lambda a, s: f(a.get("self", a.get("input")), **{k: v for k, v in a.items() if k not in ("self", "input")})


def two(f: Callable) -> Callable:
    """Arithmetic with a number on either side."""
    return lambda a, s: f(torch.as_tensor(a["self"]) if not isinstance(a["self"], torch.Tensor) and not isinstance(a["other"], torch.Tensor) else a["self"], a["other"])


def loss(f: Callable) -> Callable:
    def run(a: dict[str, Any], s: list[int]) -> torch.Tensor:
        a = {{"self": "input"}.get(k, k): v for k, v in a.items()}
        return f(**a)
    return run


ONE = "abs neg sign square reciprocal sqrt rsqrt exp expm1 exp2 log log1p log2 sin cos tanh sigmoid erf floor ceil round relu " \
    "logical_not bitwise_not clamp clamp_min clamp_max masked_fill pow flip roll tril triu unbind select " \
    "cumsum logsumexp amax amin max min index_select gather detach permute lerp addcmul addcdiv".split()
FUNCTIONAL = "relu6 hardtanh hardswish hardsigmoid leaky_relu selu celu silu mish softplus softsign gelu hardshrink softshrink " \
    "tanhshrink threshold glu prelu pixel_shuffle pixel_unshuffle channel_shuffle".split()
RUN: dict[str, Callable[[dict[str, Any], list[int]], Any]] = {
    **{name: one(getattr(torch, name)) for name in ONE},
    **{name: one(getattr(F, name)) for name in FUNCTIONAL},
    **{name: two(getattr(torch, name)) for name in (
        "mul div maximum minimum eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor atan2").split()},
    **{name: (lambda a, s: a["self"].reshape(s)) for name in "view reshape flatten unflatten squeeze unsqueeze".split()},
    "elu": lambda a, s: torch.ops.aten.elu(a["self"], a["alpha"], a["scale"], a["input_scale"]),
    "log_sigmoid": one(F.logsigmoid),
    "add": lambda a, s: a["self"] + a["alpha"] * a["other"],
    "sub": lambda a, s: a["self"] - a["alpha"] * a["other"],
    "pow": lambda a, s: torch.pow(a["self"], a["exponent"]),
    "where": lambda a, s: torch.where(a["condition"], a["self"], a["other"]),
    "expand": lambda a, s: a["self"].expand(s),
    "repeat": lambda a, s: a["self"].repeat(a["repeats"]),
    "transpose": lambda a, s: a["self"].transpose(a["dim0"], a["dim1"]),
    "constant_pad_nd": lambda a, s: F.pad(a["self"], a["pad"], value=a["value"]),
    **{f"{name}_pad{d}d": (lambda mode: lambda a, s: F.pad(a["self"], a["padding"], mode=mode))(mode)
       for name, mode in (("reflection", "reflect"), ("replication", "replicate")) for d in (1, 2)},
    "slice": lambda a, s: a["self"][(slice(None),) * a["dim"] + (slice(a["start"], a["end"], a["step"]),)],
    "split": lambda a, s: a["self"].split([shape[a["dim"]] for shape in s], a["dim"]),
    "cat": lambda a, s: torch.cat(a["tensors"], a["dim"]),
    "stack": lambda a, s: torch.stack(a["tensors"], a["dim"]),
    "sum": lambda a, s: a["self"].sum(a["dim"], a["keepdim"]), "mean": lambda a, s: a["self"].mean(a["dim"], a["keepdim"]),
    "prod": lambda a, s: functools.reduce(lambda x, d: x.prod(d, True), a["dim"], a["self"]).reshape(s),
    "var": one(torch.var), "std": one(torch.std), "linalg_vector_norm": one(torch.linalg.vector_norm),
    "softmax": one(torch.softmax), "log_softmax": one(torch.log_softmax),
    "conv1d": convolution(F.conv1d), "conv2d": convolution(F.conv2d),
    "conv_transpose1d": convolution(F.conv_transpose1d), "conv_transpose2d": convolution(F.conv_transpose2d),
    "linear": lambda a, s: F.linear(a["input"], a["weight"], a.get("bias")),
    "addmm": lambda a, s: torch.addmm(a["self"], a["mat1"], a["mat2"], beta=a["beta"], alpha=a["alpha"]),
    "baddbmm": lambda a, s: torch.baddbmm(a["self"], a["batch1"], a["batch2"], beta=a["beta"], alpha=a["alpha"]),
    "mm": lambda a, s: a["self"] @ a["mat2"], "bmm": lambda a, s: a["self"] @ a["mat2"], "matmul": lambda a, s: a["self"] @ a["other"],
    "einsum": lambda a, s: torch.einsum(a["equation"], *a["tensors"]),
    "batch_norm": batch_norm, "layer_norm": norm(F.layer_norm),
    "rms_norm": lambda a, s: F.rms_norm(a["input"], a["normalized_shape"], a.get("weight"), a["eps"]),
    "group_norm": lambda a, s: F.group_norm(a["input"], a["num_groups"], a.get("weight"), a.get("bias"), a["eps"]),
    "instance_norm": lambda a, s: F.instance_norm(a["input"], a.get("running_mean"), a.get("running_var"), a.get("weight"), a.get("bias"),
                                                  a["use_input_stats"], a["momentum"], a["eps"]),
    "dropout": lambda a, s: a["input"], "feature_dropout": lambda a, s: a["input"], "alpha_dropout": lambda a, s: a["input"],
    "stochastic_depth_mask": lambda a, s: torch.ones(s),
    "embedding": lambda a, s: F.embedding(a["indices"], a["weight"], a["padding_idx"]),
    "scaled_dot_product_attention": lambda a, s: F.scaled_dot_product_attention(
        a["query"], a["key"], a["value"], a.get("attn_mask"), 0.0, a["is_causal"], scale=a["scale"], enable_gqa=a["enable_gqa"]),
    "lstm": lambda a, s: lstm(a, "lstm"), "gru": lambda a, s: lstm(a, "gru"),
    **{f"max_pool{d}d": (lambda d: lambda a, s: getattr(F, f"max_pool{d}d")(a["self"], a["kernel_size"], a["stride"], a["padding"], a["dilation"], a["ceil_mode"]))(d)
       for d in (1, 2)},
    "avg_pool1d": pooling(F.avg_pool1d, "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"),
    "avg_pool2d": pooling(F.avg_pool2d, "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"),
    **{f"adaptive_{k}_pool{d}d": pooling(getattr(F, f"adaptive_{k}_pool{d}d"), "output_size") for k in ("avg", "max") for d in (1, 2)},
    "upsample_nearest1d": upsample("nearest"), "upsample_nearest2d": upsample("nearest"), "upsample_bilinear2d": upsample("bilinear"),
    "cross_entropy_loss": loss(F.cross_entropy), "nll_loss": loss(F.nll_loss), "mse_loss": loss(F.mse_loss), "l1_loss": loss(F.l1_loss),
    "smooth_l1_loss": loss(F.smooth_l1_loss), "huber_loss": loss(lambda input, target, reduction, delta: F.huber_loss(input, target, reduction, delta)),
    "binary_cross_entropy_with_logits": loss(F.binary_cross_entropy_with_logits),
}


def run(graph: dict[str, Any], values: dict[str, Any], samples: int) -> torch.Tensor:
    """The first output. Every node's shape and type have to be those that the file says."""
    look = lambda v: [look(x) for x in v] if isinstance(v, list) else values[v]
    for node in graph["nodes"]:
        arguments = {k: look(v) for k, v in node["inputs"].items()} | {k: number(v) if isinstance(v, str) else v for k, v in node["attributes"].items()}
        several = "shapes" in node
        shapes = [[extent(d, samples) for d in s] for s in (node["shapes"] if several else [node["shape"]])]
        if node["op"] == "to":
            result = arguments["self"].to(TYPES[node["type"]])
        else:
            result = RUN[node["op"]](arguments, shapes if several else shapes[0])
        for i, (r, shape, kind) in enumerate(zip(result if several else [result], shapes, node["types"] if several else [node["type"]], strict=True)):
            assert list(r.shape) == shape and r.dtype == TYPES[kind], f"{node['name']}: {list(r.shape)} {r.dtype}, not {shape} {kind}"
            values[f"{node['name']}:{i}" if several else node["name"]] = r
    return values[graph["outputs"][0]["value"]]


def loss_of(name: str, output: torch.Tensor, labels: torch.Tensor | None) -> torch.Tensor:
    if name == "output":
        return output
    if name == "cross-entropy":
        return F.cross_entropy(output.flatten(0, 1), labels.flatten()) if output.dim() == 3 else F.cross_entropy(output, labels)
    return {"mse": F.mse_loss, "l1": F.l1_loss, "bce": F.binary_cross_entropy_with_logits}[name](output, labels)


def check(folder: str) -> tuple[float, str]:
    """The largest relative difference of loss, gradients, weights and statistics, and where it is."""
    with open(os.path.join(folder, "graph.json"), encoding="utf-8") as file:
        graph = json.load(file)
    state = load_file(os.path.join(folder, "weights.safetensors"))
    constants = os.path.join(folder, "constants.safetensors")
    batch = load_file(os.path.join(folder, "check.safetensors"))
    with safe_open(os.path.join(folder, "reference.safetensors"), "pt") as file:
        options = file.metadata()
        reference = {k: file.get_tensor(k) for k in file.keys()}
    assert list(graph["state"]) == list(state) or set(graph["state"]) == set(state)
    trained = {n: state[n].requires_grad_() for n, s in graph["state"].items() if s.get("kind") == "parameter"}
    fixed = state | (load_file(constants) if os.path.exists(constants) else {}) | {i["name"]: batch[i["name"]] for i in graph["inputs"]}
    samples = batch[graph["inputs"][0]["name"]].shape[0]
    velocity = {n: torch.zeros_like(p) for n, p in trained.items()}
    ours: dict[str, torch.Tensor] = {}
    losses = []
    for step in range(int(options["steps"])):
        value = loss_of(options["loss"], run(graph, dict(fixed), samples), batch.get("labels"))
        losses.append(value.detach())
        gradients = torch.autograd.grad(value, list(trained.values()), allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            for (name, p), g in zip(trained.items(), gradients):
                if step == 0:
                    ours[f"gradient/{name}"] = g.clone()
                velocity[name].mul_(float(options["momentum"])).add_(g)
                p.sub_(velocity[name], alpha=float(options["learning_rate"]))
    ours["loss"] = torch.stack(losses)
    ours |= {n: state[n.removeprefix("updated/")].detach() for n in reference if n.startswith("updated/")}
    worst = (0.0, "")
    for name, theirs in reference.items():
        if theirs.numel() and not name.startswith("error/"):
            gap = float((ours[name] - theirs).abs().max())
            if gap > 4 * float(reference.get(f"error/{name}", 0.0)):  # else as far from float64 as PyTorch is
                worst = max(worst, (gap / max(float(theirs.abs().max()), 1e-30), name))
    return worst


def main() -> int:
    torch.manual_seed(0)
    wrong = 0
    for folder in sys.argv[1:]:
        try:
            gap, name = check(folder)
        except Exception as error:  # goes on with the next folder
            gap, name = float("inf"), f"{type(error).__name__}: {str(error).splitlines()[0]}"
        wrong += gap > 1e-4
        print(f"{os.path.basename(folder.rstrip('/')):<22}{gap:9.1e}  {'' if gap <= 1e-4 else 'WRONG  '}{name}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
