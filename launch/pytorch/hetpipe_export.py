#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a PyTorch model as a graph that HetPipe trains (docs/graph-format.md).

  python3 hetpipe_export.py FILE.py:FUNCTION --output DIR [--check] [--loss NAME]

FUNCTION takes nothing and returns (model, example_inputs): a tuple of tensors, a dict of tensors by name, or both as
(args, kwargs). Of every tensor the first extent is the number of samples. Needs PyTorch (tried with 2.15) and safetensors."""
from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import importlib.util
import inspect
import io
import json
import logging
import math
import operator
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, NoReturn

try:
    import torch
    from safetensors.torch import load_file, save, save_file
    from torch.utils import _pytree as pytree
except ImportError as missing:
    sys.exit(f"hetpipe_export: {missing}: install PyTorch and safetensors (pip install torch safetensors)")

VERSION = 1

# Operators that graph.json may contain, by name, and what is worth knowing about each. HetPipe's importer has the same list.
POINTWISE = {
    "abs": "", "neg": "", "sign": "", "square": "", "reciprocal": "", "sqrt": "", "rsqrt": "", "exp": "", "expm1": "",
    "exp2": "", "log": "", "log1p": "", "log2": "", "sin": "", "cos": "", "tanh": "", "sigmoid": "", "log_sigmoid": "", "erf": "",
    "floor": "no gradient", "ceil": "no gradient", "round": "no gradient",
    "relu": "", "relu6": "", "hardtanh": "min_val, max_val", "hardswish": "", "hardsigmoid": "", "leaky_relu": "negative_slope",
    "elu": "alpha, scale, input_scale", "selu": "", "celu": "alpha", "silu": "", "mish": "", "softplus": "beta, threshold",
    "softsign": "", "gelu": "approximate: none or tanh", "hardshrink": "lambd", "softshrink": "lambd", "tanhshrink": "",
    "threshold": "threshold, value",
    "add": "alpha; self or other may be an attribute", "sub": "as add", "mul": "", "div": "rounding_mode: null",
    "pow": "self or exponent may be an attribute", "maximum": "", "minimum": "",
    "clamp": "min, max", "clamp_min": "min", "clamp_max": "max", "where": "self, other may be attributes",
    "masked_fill": "value", "lerp": "weight", "addcmul": "value", "addcdiv": "value",
    "eq": "", "ne": "", "lt": "", "le": "", "gt": "", "ge": "", "logical_and": "", "logical_or": "", "logical_not": "",
    "logical_xor": "", "bitwise_and": "of bool", "bitwise_or": "of bool", "bitwise_not": "of bool", "bitwise_xor": "of bool",
    "to": "another type: float32, int64, int32 or bool", "detach": "stops the gradient",
}
MOVEMENT = {
    "view": "the shape is the output's", "reshape": "as view", "flatten": "as view", "unflatten": "as view",
    "squeeze": "as view", "unsqueeze": "as view", "expand": "the shape is the output's", "repeat": "repeats",
    "permute": "dims", "transpose": "dim0, dim1", "flip": "dims", "roll": "shifts, dims", "constant_pad_nd": "pad, value",
    "reflection_pad1d": "padding", "reflection_pad2d": "padding", "replication_pad1d": "padding",
    "replication_pad2d": "padding", "slice": "dim, start, end, step: within the extent", "select": "dim, index",
    "split": "dim; sizes are the outputs'", "unbind": "dim", "cat": "dim", "stack": "dim",
    "index_select": "dim; index is a constant",
    "pixel_shuffle": "upscale_factor", "pixel_unshuffle": "downscale_factor", "channel_shuffle": "groups",
    "tril": "diagonal", "triu": "diagonal",
}
REDUCTION = {
    "sum": "dim, keepdim", "mean": "dim, keepdim", "amax": "dim, keepdim", "amin": "dim, keepdim",
    "max": "dim, keepdim; values alone", "min": "dim, keepdim; values alone", "var": "dim, correction, keepdim",
    "std": "dim, correction, keepdim", "linalg_vector_norm": "ord, dim, keepdim", "logsumexp": "dim, keepdim",
    "cumsum": "dim", "softmax": "dim", "log_softmax": "dim", "glu": "dim",
}
OWN_LOSSES = {name: "of the model's own loss, the mean over all samples" for name in (
    "cross_entropy_loss", "mse_loss", "l1_loss", "binary_cross_entropy_with_logits")}
SUPPORTED = POINTWISE | MOVEMENT | REDUCTION | OWN_LOSSES | {
    "conv1d": "", "conv2d": "", "conv_transpose1d": "", "conv_transpose2d": "",
    "linear": "", "addmm": "", "mm": "", "bmm": "", "baddbmm": "", "matmul": "", "einsum": "",
    "batch_norm": "", "layer_norm": "", "group_norm": "", "instance_norm": "", "rms_norm": "eps written out",
    "prelu": "", "dropout": "p", "feature_dropout": "p", "alpha_dropout": "p", "stochastic_depth_mask": "keep, scale",
    "embedding": "padding_idx", "scaled_dot_product_attention": "scale written out", "lstm": "no hx: zeros", "gru": "no hx: zeros",
    "max_pool1d": "", "max_pool2d": "", "avg_pool1d": "", "avg_pool2d": "", "adaptive_avg_pool1d": "",
    "adaptive_avg_pool2d": "", "adaptive_max_pool1d": "", "adaptive_max_pool2d": "",
    "upsample_nearest1d": "", "upsample_nearest2d": "", "upsample_bilinear2d": "",
}

# Why an operator is not supported. Others: "HetPipe has no such operator".
BY_DATA = "its result depends on the data in a way that has no gradient or no fixed place (routing, mixture of experts, search)"
RANDOM = "a random draw that is neither dropout nor stochastic depth"
COMPLEX = "complex numbers"
OWN_LOSS = "a loss of the model's own that is not supported: export it so that it returns its predictions, and choose --loss"
REASONS = (
    {name: BY_DATA for name in (
        "sort", "topk", "argsort", "argmax", "argmin", "nonzero", "nonzero_numpy", "unique", "_unique2", "masked_select",
        "masked_scatter", "scatter", "scatter_add", "scatter_reduce", "index_put", "index_add", "index_copy", "histc",
        "bincount", "searchsorted", "bucketize", "one_hot", "kthvalue", "median", "mode", "cummax", "item",
        "_local_scalar_dense", "_grouped_mm", "msort", "multinomial", "index", "take_along_dim", "take")} |
    {name: RANDOM for name in (
        "rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm", "bernoulli", "normal", "uniform",
        "exponential", "rrelu", "rrelu_with_noise", "feature_alpha_dropout")} |
    {name: COMPLEX for name in (
        "complex", "polar", "view_as_complex", "view_as_real", "real", "imag", "fft_fft", "fft_rfft", "fft_irfft", "fft_fft2",
        "fft_rfft2", "fft_irfft2", "fft_ifft", "fft_fftn", "fft_ifftn", "stft", "istft")} |
    {name: OWN_LOSS for name in (
        "nll_loss", "nll_loss_nd", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "kl_div", "ctc_loss")} |
    {"embedding_bag": "only as sums or means over the rows of a matrix of indices, without max_norm and padding_idx"} |
    {name: "three dimensions" for name in (
        "conv3d", "conv_transpose3d", "max_pool3d", "avg_pool3d", "adaptive_avg_pool3d", "upsample_trilinear3d")})

DROPOUT = {"dropout", "feature_dropout", "alpha_dropout"}
DRAWS = {"rand", "rand_like", "bernoulli"}  # those that stochastic depth is made of
NEW = {"new_zeros", "new_ones", "new_full", "new_empty", "zeros_like", "ones_like", "full_like", "empty_like"}
EMPTY = {"empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided"}
DROPPED = {"_assert_tensor_metadata", "_assert_async", "_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size"}
SAME = {"contiguous", "clone", "alias", "lift_fresh", "lift_fresh_copy", "identity", "view_as_real_copy", "positive"}
CASTS = {"to", "_to_copy", "type_as", "float", "_cast_Float", "_cast_Long"}
RENAMED = {
    "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor", "_softmax": "softmax", "concat": "cat",
    "concatenate": "cat", "multiply": "mul", "divide": "div", "true_divide": "div", "subtract": "sub", "negative": "neg",
    "clip": "clamp", "greater": "gt", "less": "lt", "not_equal": "ne", "greater_equal": "ge", "less_equal": "le",
    "absolute": "abs", "_unsafe_view": "view", "view_as": "view", "reshape_as": "reshape", "expand_as": "expand",
    "_log_softmax": "log_softmax", "special_erf": "erf", "special_expm1": "expm1", "special_log1p": "log1p",
    "nll_loss_nd": "nll_loss", "nll_loss2d": "nll_loss", "swapaxes": "transpose", "swapdims": "transpose",
    "_trilinear": "einsum", "unsafe_split": "split", "unsafe_chunk": "chunk", "moveaxis": "movedim",
    "special_logsumexp": "logsumexp", "fix": "trunc",
}
BY_SHAPE = {"view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "expand"}
UNWRITTEN = {"layout", "device", "pin_memory", "memory_format", "non_blocking", "copy", "cudnn_enabled", "cudnn_enable", "train",
             "implicit", "sparse", "path", "dtype"}
AXES = {"dim", "dims", "dim0", "dim1", "start_dim", "end_dim", "axis"}
TYPES = {torch.float32, torch.int64, torch.int32, torch.bool}
MODULE_WRAPPERS = {"wrap_with_set_grad_enabled", "wrap_with_autocast", "tag_activation_checkpoint", "wrap_activation_checkpoint",
                   "hints_wrapper", "wrap"}


class Mistake(Exception):
    """Something that the user can put right; ends the command with exit code 2."""


class Refused(Exception):
    """One operator that cannot be exported, and why."""


def note(text: str) -> None:
    print(f"hetpipe_export: {text}", file=sys.stderr)


# ------------------------------------------------------------------------------------------------------------- extents and values


@dataclass(frozen=True)
class Samples:
    """An extent that is `factor` times the number of samples."""
    factor: int

    def __str__(self) -> str:
        return "N" if self.factor == 1 else f"{self.factor}*N"


Extent = int | Samples
Shape = tuple[Extent, ...]


@dataclass(frozen=True)
class Scalar:
    """A number that shapes give, for two numbers of samples."""
    pair: tuple[Any, Any]


@dataclass
class Constant:
    """A tensor that follows from constants and the number of samples, for two numbers of samples."""
    pair: list[torch.Tensor]


@dataclass
class Random:
    """A draw on its way to becoming stochastic depth's mask: `uniform`, `shifted` (keep + uniform) or `mask`."""
    kind: str
    shape: Shape
    keep: float = 0.0
    scale: bool = False


@dataclass(eq=False)
class Node:
    op: str
    module: str
    source: str
    inputs: dict[str, Any]
    attributes: dict[str, Any]
    shapes: list[Shape]
    types: list[torch.dtype]
    several: bool
    name: str = ""


@dataclass(eq=False)
class Value:
    """A tensor of the graph: an output of a node, or (without one) an input, a tensor of the state or a constant."""
    shape: Shape
    type: torch.dtype
    node: Node | None = None
    index: int = 0
    name: str = ""
    literal: torch.Tensor | None = None

    def __str__(self) -> str:
        if self.node is None:
            return self.name
        return f"{self.node.name}:{self.index}" if self.node.several else self.node.name


@dataclass
class Call:
    """A call of an ATen operator: its arguments by the schema's names, defaults filled in."""
    name: str
    args: dict[str, Any]
    schema: Any
    fx: torch.fx.Node
    target: Any
    written: Any = None

    @property
    def first(self) -> Any:
        return next(iter(self.args.values()))


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def tensors_in(value: Any) -> Iterator[Any]:
    if isinstance(value, (Value, Constant, Random)):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors_in(v)


def each(value: Any, f: Callable[[Any], Any]) -> Any:
    """f of the value, or the list of f of its parts."""
    return [each(v, f) for v in value] if isinstance(value, (list, tuple)) else f(value)


# -------------------------------------------------------------------------------------------------------------------- the exporter


class Exporter:
    """Walks an exported program in its order. What depends on constants alone is computed, for two numbers of samples; the rest
    becomes nodes, with in-place operators as new values."""

    def __init__(self, samples: tuple[int, int], classes: dict[str, str]):
        self.samples = samples
        self.files = classes  # file of each module's class
        self.values: dict[torch.fx.Node, Any] = {}
        self.storage: dict[torch.fx.Node, int] = {}  # tensors that may share memory have one number
        self.done: set[torch.fx.Node] = set()
        self.nodes: list[Node] = []
        self.problems: list[tuple[str, str, str, str]] = []
        self.edits: list[tuple[torch.fx.Node, str, Any]] = []  # what switches dropout off in the program
        self.changed: set[str] = set()  # buffers that a pass changes

    # -- from torch's values to these

    def extent(self, a: int, b: int) -> Extent:
        if a == b:
            return a
        if a % self.samples[0] == 0 and a // self.samples[0] * self.samples[1] == b:
            return Samples(a // self.samples[0])
        raise Refused(f"an extent that is no multiple of the number of samples ({a} of {self.samples[0]}, {b} of {self.samples[1]})")

    def number(self, value: Any) -> tuple[Any, Any]:
        """A torch.SymInt for both numbers of samples."""
        if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return value, value
        expression = value.node.expr
        if any(str(s).startswith(("u", "zuf")) for s in expression.free_symbols):
            raise Refused("a shape that depends on the data")
        cast = float if isinstance(value, torch.SymFloat) else bool if isinstance(value, torch.SymBool) else int
        return tuple(cast(expression.subs({s: n for s in expression.free_symbols})) for n in self.samples)

    def shape_of(self, fake: torch.Tensor) -> Shape:
        return tuple(self.extent(*self.number(d)) for d in fake.shape)

    def concrete(self, extent: Extent, which: int) -> int:
        return extent if isinstance(extent, int) else extent.factor * self.samples[which]

    # -- running

    def run(self, module: torch.fx.GraphModule, arguments: list[Any]) -> list[Any]:
        """Runs the graph of a module; the values of its outputs. Placeholders without a storage of the caller's get one."""
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        for fx, (value, storage) in zip(placeholders, arguments, strict=True):
            self.values[fx] = value
            self.storage[fx] = storage if storage is not None else len(self.storage)
        for fx in module.graph.nodes:
            if fx.op == "get_attr":
                held = operator.attrgetter(fx.target)(module)
                self.values[fx] = Constant([held.detach().clone(), held.detach().clone()]) if isinstance(held, torch.Tensor) else held
                self.storage[fx] = len(self.storage)
            elif fx.op == "call_function":
                try:
                    self.values[fx] = self.call(fx)
                except Refused as why:
                    self.values[fx] = self.refuse(fx, str(why))
                except (AttributeError, TypeError, KeyError, IndexError, ValueError) as error:
                    self.values[fx] = self.refuse(fx, f"arguments that this exporter does not know ({type(error).__name__}: {error})")
                self.storage.setdefault(fx, self.storage_of(fx))
            elif fx.op == "output":
                return [self.resolve(a) for a in pytree.tree_leaves(fx.args[0], is_leaf=lambda v: isinstance(v, torch.fx.Node))]
            self.done.add(fx)
        raise Mistake("the exported program has no output")

    def refuse(self, fx: torch.fx.Node, why: str) -> Any:
        """Notes the problem, and gives values by which the walk can go on."""
        name = self.operator_name(fx.target)
        problem = (name, self.module_of(fx), self.source_of(fx), why)
        if problem not in self.problems:
            self.problems.append(problem)

        def stand_in(fake: Any) -> Any:
            if isinstance(fake, torch.Tensor):
                try:
                    return Value(self.shape_of(fake), fake.dtype, name="?")
                except Refused:
                    return Value((Samples(1),) + (1,) * (fake.dim() - 1), fake.dtype, name="?")
            return Scalar((1, 1))
        return each(fx.meta.get("val"), stand_in)

    def storage_of(self, fx: torch.fx.Node) -> int:
        """Views share the storage of what they view."""
        parent = self.parent_of(fx)
        return len(self.storage) + 1_000_000 if parent is None else self.storage[parent]

    def parent_of(self, fx: torch.fx.Node) -> torch.fx.Node | None:
        """The tensor (or list of views) that this one is a view of, or the same as."""
        first = fx.args[0] if fx.args else None
        if not isinstance(first, torch.fx.Node):
            return None
        if fx.target is operator.getitem:
            return first if self.parent_of(first) is not None else None
        schema = getattr(fx.target, "_schema", None)
        if not schema or not schema.returns or schema.returns[0].alias_info is None:
            return None
        if self.operator_name(fx.target) in CASTS and fx.meta["val"].dtype != first.meta["val"].dtype:
            return None
        if self.operator_name(fx.target) == "contiguous" and not first.meta["val"].is_contiguous():
            return None
        return first

    @staticmethod
    def operator_name(target: Any) -> str:
        if isinstance(target, torch._ops.OpOverload):
            name = target._schema.name.split("::")[1]
            if target._schema.is_mutable and not name.startswith("__"):
                name = name.removesuffix("_")
            name = {"__iand__": "__and__", "__ior__": "__or__", "__ixor__": "__xor__"}.get(name, name)
            return RENAMED.get(name, name)
        return getattr(target, "__name__", str(target))

    @staticmethod
    def module_of(fx: torch.fx.Node) -> str:
        stack = fx.meta.get("nn_module_stack") or {}
        path = list(stack.values())[-1][0] if stack else ""
        return "" if path.startswith("_empty") else re.sub(r"@\d+", "", path)

    def source_of(self, fx: torch.fx.Node) -> str:
        """The line of the model: the innermost one in the file of the module's class, or else outside torch."""
        stack = fx.meta.get("nn_module_stack") or {}
        frames = re.findall(r'File "([^"]+)", line (\d+)', fx.meta.get("stack_trace") or "")
        torch_folder = os.path.dirname(torch.__file__)
        frames = [(f, n) for f, n in frames if not f.startswith((torch_folder, "torch/")) and os.path.abspath(f) != os.path.abspath(__file__)]
        kind = list(stack.values())[-1][1] if stack else ""
        own = self.files.get(kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}")
        chosen = next((f for f in reversed(frames) if own and os.path.basename(f[0]) == os.path.basename(own)), frames[-1] if frames else None)
        return f"{os.path.basename(chosen[0])}:{chosen[1]}" if chosen else ""

    def resolve(self, argument: Any) -> Any:
        if isinstance(argument, torch.fx.Node):
            return self.values[argument]
        if isinstance(argument, (list, tuple)):
            return [self.resolve(a) for a in argument]
        return argument

    def call(self, fx: torch.fx.Node) -> Any:
        target = fx.target
        if target is operator.getitem:
            return self.resolve(fx.args[0])[fx.args[1]]
        if isinstance(target, torch._ops.HigherOrderOperator):
            return self.inline(fx)
        if not isinstance(target, torch._ops.OpOverload):
            return self.compute_number(fx)
        call = self.bind(fx)
        if call.name in DROPPED:
            return None
        tensors = list(tensors_in(list(call.args.values())))
        if call.name in ("sym_size", "sym_numel", "size"):
            return self.size(call)
        if any(isinstance(t, Random) for t in tensors) or call.name in DRAWS or (call.name == "bernoulli"):
            return self.draw(call)
        if call.name in REASONS and REASONS[call.name] is RANDOM:
            raise Refused(RANDOM)
        if any(t.name == "?" for t in tensors if isinstance(t, Value)):
            return self.stand_in(fx)
        if call.name not in DROPOUT and not any(isinstance(t, Value) for t in tensors):
            return self.compute(call)
        if call.name in NEW:
            for argument, value in call.args.items():
                if isinstance(value, Value):
                    call.args[argument] = Constant([
                        torch.zeros((), dtype=value.type).expand([self.concrete(d, w) for d in value.shape]) for w in (0, 1)])
            return self.compute(call)
        if call.written is not None:
            return self.change(call)
        return self.node_of(call)

    def stand_in(self, fx: torch.fx.Node) -> Any:
        """Behind a refused operator only the operators' names are looked at, once each."""
        name = self.operator_name(fx.target)
        known = SUPPORTED.keys() | SAME | CASTS | RENAMED.keys() | NEW | {"chunk", "split_with_sizes", "t", "mT", "numpy_T", "pad", "movedim",
                                                            "rsub", "narrow", "repeat_interleave", "var_mean", "norm", "copy", "zero", "fill", "detach"}
        if name not in known and not hasattr(self, f"op_{name}"):
            return self.refuse(fx, REASONS.get(name, "HetPipe has no such operator"))
        val = fx.meta.get("val")
        return each(val, lambda fake: Value((Samples(1),) + (1,) * max(0, fake.dim() - 1), fake.dtype, name="?")
                    if isinstance(fake, torch.Tensor) else Scalar((1, 1)))

    def bind(self, fx: torch.fx.Node) -> Call:
        schema = fx.target._schema
        args: dict[str, Any] = {}
        written = None
        names = [a.name for a in schema.arguments]
        if schema.is_mutable and schema.name.endswith("_"):  # the arguments' names of the operator that gives a new tensor
            plain = getattr(torch.ops.aten, schema.name.split("::")[1].removesuffix("_"), None)
            if plain is not None and fx.target._overloadname in plain.overloads():
                other = getattr(plain, fx.target._overloadname)._schema.arguments
                names = [a.name for a in other[:len(names)]] if len(other) >= len(names) else names
        for i, argument in enumerate(schema.arguments):
            if i < len(fx.args):
                raw = fx.args[i]
            elif argument.name in fx.kwargs:
                raw = fx.kwargs[argument.name]
            else:
                raw = argument.default_value if argument.has_default_value() else None
            value = self.resolve(raw)
            if argument.N and not isinstance(value, (list, tuple)) and value is not None:
                value = [value] * argument.N
            args[names[i]] = value
            if argument.alias_info is not None and argument.alias_info.is_write:
                written = raw
        return Call(self.operator_name(fx.target), args, schema, fx, fx.target, written)

    def inline(self, fx: torch.fx.Node) -> Any:
        name = fx.target._name if hasattr(fx.target, "_name") else str(fx.target)
        args = [self.resolve(a) for a in fx.args]
        at = next((i for i, a in enumerate(args) if isinstance(a, torch.fx.GraphModule)), None)
        if name not in MODULE_WRAPPERS or at is None:
            raise Refused("control flow that depends on the data, or a part that PyTorch keeps closed")
        if name == "wrap_with_autocast" and args[2]:
            raise Refused("autocast: HetPipe has its own choice of precision; export the model without it")
        operands = fx.args[at + 1:]
        outputs = self.run(args[at], [(self.resolve(a), self.storage.get(a) if isinstance(a, torch.fx.Node) else None) for a in operands])
        if name == "wrap_with_set_grad_enabled" and not args[0]:
            outputs = [self.emit("detach", fx, {"self": v}, {}, v.shape, v.type)
                       if isinstance(v, Value) and v.type.is_floating_point and v.name != "?" else v for v in outputs]
        return outputs

    # -- what constants and shapes alone decide

    def compute_number(self, fx: torch.fx.Node) -> Any:
        args, kwargs = self.resolve(fx.args), {k: self.resolve(v) for k, v in fx.kwargs.items()}
        if any(isinstance(a, (Value, Constant, Random)) for a in args):
            raise Refused("HetPipe has no such operator")
        pick = lambda w: lambda a: a.pair[w] if isinstance(a, Scalar) else a
        return Scalar(tuple(fx.target(*[each(a, pick(w)) for a in args], **{k: each(v, pick(w)) for k, v in kwargs.items()}) for w in (0, 1)))

    def size(self, call: Call) -> Any:
        of = call.first
        shapes = [list(t.shape) for t in of.pair] if isinstance(of, Constant) else [[self.concrete(d, w) for d in of.shape] for w in (0, 1)]
        if call.name == "sym_numel":
            return Scalar(tuple(math.prod(s) for s in shapes))
        if "dim" in call.args:
            return Scalar(tuple(s[call.args["dim"]] for s in shapes))
        return [Scalar(pair) for pair in zip(*shapes)]

    def compute(self, call: Call) -> Any:
        """Runs the operator for both numbers of samples. In-place operators and views act on the tensors as in PyTorch."""
        results = []
        for w in (0, 1):
            pick = lambda a: a.pair[w] if isinstance(a, (Scalar, Constant)) else a
            positional, named = [], {}
            for argument, given in zip(call.schema.arguments, call.args.values(), strict=True):
                value = each(given, pick)
                if argument.name == "device" and value is not None:
                    value = torch.device("cpu")
                if argument.kwarg_only:
                    named[argument.name] = value
                else:
                    positional.append(value)
            try:
                with torch.no_grad():
                    results.append(call.target(*positional, **named))
            except (RuntimeError, IndexError, NotImplementedError, ValueError) as error:
                raise Refused(f"cannot be computed from constants: {str(error).splitlines()[0]}")
            if call.name in EMPTY:
                results[-1].zero_()
        return self.constant(*results)

    def constant(self, a: Any, b: Any) -> Any:
        if isinstance(a, (list, tuple)):
            if len(a) != len(b):
                raise Refused("a number of results that depends on the number of samples")
            return [self.constant(x, y) for x, y in zip(a, b)]
        return Constant([a, b]) if isinstance(a, torch.Tensor) else Scalar((a, b))

    def collapsed(self, constant: Constant) -> tuple[torch.Tensor, Shape]:
        """The constant with extent 1 where the number of samples is an extent, and its shape as it was."""
        a, b = (t.detach() for t in constant.pair)
        shape = tuple(self.extent(x, y) for x, y in zip(a.shape, b.shape, strict=True))
        for dim, extent in enumerate(shape):
            if isinstance(extent, Samples):
                for t in (a, b):
                    if not torch.equal(t, t.narrow(dim, 0, 1).expand_as(t)):
                        raise Refused("a constant that differs from sample to sample by their place in the minibatch")
                a, b = a.narrow(dim, 0, 1), b.narrow(dim, 0, 1)
        same = torch.equal(a, b) if not a.is_floating_point() else torch.equal(torch.nan_to_num(a, 123.0), torch.nan_to_num(b, 123.0))
        if not same:
            raise Refused("a constant that depends on the number of samples")
        return a.contiguous().clone(), shape

    def literal(self, constant: Constant, fx: torch.fx.Node, whole: bool = True) -> Value:
        """The constant as a value of the graph; `whole`: expanded to all samples where it has such an extent."""
        folded = self.per_sample(constant)
        if folded is not None:
            value = self.literal(folded, fx)
            return self.emit("view", fx, {"self": value}, {}, tuple(self.extent(*e) for e in zip(*(t.shape for t in constant.pair))), value.type)
        tensor, shape = self.collapsed(constant)
        if tensor.dtype not in TYPES:
            raise Refused(f"a constant of type {dtype_name(tensor.dtype)}")
        value = Value(tuple(tensor.shape), tensor.dtype, literal=tensor)
        return self.emit("expand", fx, {"self": value}, {}, shape, value.type) if whole and shape != value.shape else value

    def per_sample(self, constant: Constant) -> Constant | None:
        """Where the first extent is a multiple k of the number of samples, and values vary along it: the same with extents N and k."""
        a, b = constant.pair
        if a.dim() == 0 or a.shape[0] == b.shape[0] or a.shape[0] % self.samples[0] or a.shape[0] == self.samples[0]:
            return None
        if torch.equal(a, a[:1].expand_as(a)) or a.shape[0] // self.samples[0] * self.samples[1] != b.shape[0]:
            return None
        return Constant([t.unflatten(0, (n, -1)) for t, n in zip(constant.pair, self.samples)])

    def single(self, constant: Constant) -> Any:
        """The number in a constant without extents."""
        tensor, _ = self.collapsed(constant)
        return tensor.item()

    # -- random draws

    def draw(self, call: Call) -> Any:
        """Stochastic depth is written in three ways: empty, bernoulli, div; bernoulli of a full tensor; floor(keep + rand)."""
        name, first, args = call.name, call.first, call.args
        if name in ("rand", "rand_like"):
            return Random("uniform", self.shape_of(call.fx.meta["val"]))
        if name == "bernoulli" and isinstance(first, Constant):
            keep = args.get("p")
            if keep is None:
                keep = float(first.pair[0].flatten()[0])
                if not all(bool((t == keep).all()) for t in first.pair):
                    raise Refused(RANDOM)
            elif "p" in args:
                self.edits.append((call.fx, "p", 1.0))
            mask = Random("mask", self.shape_of(call.fx.meta["val"]), float(keep))
            if call.written is not None:
                self.rebind(call, mask)
            return mask
        if not isinstance(first, Random) and not (name == "mul" or name == "add"):
            raise Refused(RANDOM)
        other = args.get("other")
        if isinstance(other, Constant) and other.pair[0].dim() == 0:
            other = self.single(other)
        random = first if isinstance(first, Random) else other
        result = None
        if name in SAME or name in CASTS or name == "detach":
            return random
        if name == "add" and random.kind == "uniform" and args.get("alpha") == 1:
            shift = other if random is first else first
            if isinstance(shift, (int, float)):
                self.edits.append((call.fx, "other" if random is first else "self", 1.0))
                result = Random("shifted", random.shape, float(shift))
        elif name == "floor" and random.kind == "shifted":
            result = Random("mask", random.shape, random.keep)
        elif name == "div" and random is first and random.kind == "mask" and not random.scale and other == random.keep:
            self.edits.append((call.fx, "other", 1.0))
            result = Random("mask", random.shape, random.keep, True)
        elif name in BY_SHAPE and random is first:
            result = Random(random.kind, self.shape_of(call.fx.meta["val"]), random.keep, random.scale)
        elif name == "mul" and random.kind == "mask":
            like = other if random is first else first
            if isinstance(like, Value):
                return self.masked(call, random, like)
        if result is None:
            raise Refused(RANDOM)
        if call.written is not None:
            self.rebind(call, result)
        return result

    def masked(self, call: Call, mask: Random, like: Value) -> Value:
        """x * mask. Where x was divided by `keep` before, the mask takes that over, for evaluations do neither."""
        if mask.shape[0] != Samples(1) or any(d != 1 for d in mask.shape[1:]) or call.written is not None:
            raise Refused("stochastic depth that does not drop whole samples")
        scale = mask.scale
        before = like.node
        if not scale and before and before.op == "div" and before.attributes.get("other") == mask.keep:
            like, scale = before.inputs["self"], True
            self.edits += [(f, "other", 1.0) for f, v in self.values.items() if isinstance(v, Value) and v.node is before]
        drawn = self.emit("stochastic_depth_mask", call.fx, {"like": like}, {"keep": mask.keep, "scale": scale}, mask.shape, torch.float32)
        return self.emit("mul", call.fx, {"self": like, "other": drawn}, {}, like.shape, like.type)

    # -- in-place operators

    def rebind(self, call: Call, value: Any) -> None:
        """From here on every name of the changed tensor means the new value. Where others that share its memory are used later, the
        change is written back into the tensor that it is a view of, and their views are taken again."""
        written = call.written
        old = self.values[written]
        shared = [fx for fx in self.done if self.storage.get(fx) == self.storage[written]]
        shared.sort()
        renamed = self.rename(shared, old, value)
        later = lambda fx: any(u not in self.done and u is not call.fx for u in fx.users)
        if not any(later(fx) for fx in shared if fx not in renamed and not isinstance(self.values[fx], list)):
            return
        at = written
        while (parent := self.parent_of(at)) is not None:
            if parent not in renamed:
                value = self.written_back(at, parent, value)
                renamed |= self.rename(shared, self.values[parent], value)
            at = parent
        for fx in shared:
            if fx not in renamed and fx.op == "call_function":
                if getattr(fx.target, "_schema", None) is not None and fx.target._schema.is_mutable:
                    self.values[fx] = self.values[fx.args[0]]
                else:
                    self.certain_view(fx)
                    self.values[fx] = self.call(fx)

    def rename(self, shared: list[torch.fx.Node], old: Any, value: Any) -> set[torch.fx.Node]:
        """Names of `old` get the value; which ones."""
        same = lambda v: v is old or (isinstance(v, Constant) and isinstance(old, Constant) and v.pair[0] is old.pair[0])
        found = {fx for fx in shared if same(self.values[fx])}
        for fx in found:
            self.values[fx] = value
        return found

    def certain_view(self, fx: torch.fx.Node) -> None:
        if self.operator_name(fx.target) in ("reshape", "flatten") and not fx.args[0].meta["val"].is_contiguous():
            raise Refused(f"changes in place a tensor of which \"{fx.name}\" ({self.source_of(fx)}) may be a view or a copy; use clone()")

    def written_back(self, fx: torch.fx.Node, parent: torch.fx.Node, new: Value) -> Value:
        """The parent of a view, after the view became `new`."""
        name, old = self.operator_name(fx.target), self.values[parent]
        if isinstance(new, Constant):
            new = self.literal(new, fx)
        if isinstance(old, Constant):
            old = self.literal(old, fx)
        self.certain_view(fx)
        if name in BY_SHAPE - {"expand"}:
            return self.emit("view", fx, {"self": new}, {}, old.shape, new.type)
        if name in SAME | CASTS:
            return new
        if name in ("slice", "select"):
            call = self.bind(fx)
            dim = call.args["dim"] % len(old.shape)
            extent = old.shape[dim]
            start, end = (self.extents(call.args[k]) if k in call.args else None for k in ("start", "end"))
            if name == "select":
                start = self.attribute(call.args["index"], "index")
                new = self.emit("unsqueeze", fx, {"self": new}, {}, new.shape[:dim] + (1,) + new.shape[dim:], new.type)
                end = start + 1 if start != -1 else None
            if (start or 0) == 0 and (end == extent or (isinstance(end, int) and end >= 2**62)) and call.args.get("step", 1) == 1:
                return new
            if all(isinstance(e, int) or e is None for e in (extent, start, end)) and call.args.get("step", 1) == 1:
                start, end, _ = slice(start, end).indices(extent)
                piece = lambda a, b: [self.emit("slice", fx, {"self": old}, {"dim": dim, "start": a, "end": b, "step": 1},
                                                old.shape[:dim] + (b - a,) + old.shape[dim + 1:], old.type)] if b > a else []
                return self.emit("cat", fx, {"tensors": piece(0, start) + [new] + piece(end, extent)}, {"dim": dim}, old.shape, old.type)
        if name == "transpose":
            call = self.bind(fx)
            dims = [call.args[k] % len(old.shape) for k in call.args if k.startswith(("dim", "axis"))]
            return self.emit("transpose", fx, {"self": new}, {"dim0": dims[0], "dim1": dims[1]}, old.shape, new.type)
        raise Refused(f"changes in place a tensor that \"{parent.name}\" ({self.source_of(parent)}) shares memory with, which is used later; "
                      "write it as a new tensor (torch.cat, torch.where)")

    def change(self, call: Call) -> Any:
        """An in-place operator on a tensor of the graph, as the operator that gives a new one."""
        target = call.first
        if isinstance(target, Value) and target.node is None and target.literal is None:
            if target.name.split(".")[-1] == "num_batches_tracked" and call.name == "add":
                return None
            if target.name in self.state_names:
                raise Refused(f"changes {target.name} of the state in the forward pass")
        if isinstance(target, Constant) and call.name != "copy":
            target = call.args[next(iter(call.args))] = self.literal(target, call.fx)
        if call.name == "copy":
            result = self.copied(call, target)
        elif call.name in ("zero", "fill"):
            number = 0 if call.name == "zero" else call.args["value"]
            result = Constant([torch.full([self.concrete(d, w) for d in target.shape],
                                          self.single(number) if isinstance(number, Constant) else number, dtype=target.type) for w in (0, 1)])
        elif call.schema.name.split("::")[1].endswith("_"):
            result = self.node_of(call)
        else:
            raise Refused("writes into a tensor that was given to it")
        self.rebind(call, result)
        return result

    def copied(self, call: Call, target: Any) -> Any:
        source = call.args["src"]
        shape, kind = self.shape_of(call.fx.meta["val"]), call.fx.meta["val"].dtype
        if isinstance(source, Constant):
            return Constant([s.to(kind).expand([self.concrete(d, w) for d in shape]).clone() for w, s in enumerate(source.pair)])
        if source.type != kind:
            source = self.emit("to", call.fx, {"self": source}, {}, source.shape, kind)
        return source if source.shape == shape else self.emit("expand", call.fx, {"self": source}, {}, shape, kind)

    # -- nodes

    def emit(self, op: str, fx: torch.fx.Node, inputs: dict[str, Any], attributes: dict[str, Any], shape: Shape, kind: torch.dtype) -> Value:
        node = Node(op, self.module_of(fx), self.source_of(fx), inputs, attributes, [shape], [kind], False)
        self.nodes.append(node)
        return Value(shape, kind, node)

    def emit_several(self, op: str, fx: torch.fx.Node, inputs: dict, attributes: dict, shapes: list[Shape], kinds: list[torch.dtype]) -> list[Value]:
        node = Node(op, self.module_of(fx), self.source_of(fx), inputs, attributes, shapes, kinds, True)
        self.nodes.append(node)
        return [Value(s, k, node, i) for i, (s, k) in enumerate(zip(shapes, kinds))]

    def node_of(self, call: Call) -> Any:
        fakes = call.fx.meta.get("val")
        for fake in (fakes if isinstance(fakes, (list, tuple)) else [fakes]):
            if isinstance(fake, torch.Tensor) and fake.dtype not in TYPES:
                raise Refused(COMPLEX if fake.dtype.is_complex else f"a result of type {dtype_name(fake.dtype)}; HetPipe's graphs are in float32")
        handler = getattr(self, f"op_{call.name}", None)
        if handler:
            first = next(iter(call.args))
            if isinstance(call.args[first], Constant) and call.name not in POINTWISE | {"embedding": "", "gather": "", "index": ""}:
                call.args[first] = self.literal(call.args[first], call.fx)
            return handler(call)
        if call.name in SAME:
            return call.first if isinstance(call.first, Value) else self.literal(call.first, call.fx)
        if call.name in CASTS:
            return self.cast(call)
        if call.name not in SUPPORTED:
            raise Refused(REASONS.get(call.name, "HetPipe has no such operator"))
        return self.plain(call)

    def plain(self, call: Call, **changes: Any) -> Any:
        """The operator under its own name, with the schema's arguments; `changes` replaces attributes, None leaves them out."""
        name, fx = call.name, call.fx
        inputs: dict[str, Any] = {}
        attributes: dict[str, Any] = {}
        spread = name in POINTWISE
        for argument, (key, value) in zip(call.schema.arguments, call.args.items(), strict=True):
            if key in changes or key in UNWRITTEN:
                continue
            if isinstance(value, Constant) and spread and value.pair[0].dim() == 0:
                value = self.single(value)
            if isinstance(value, Constant):
                inputs[key] = self.literal(value, fx, whole=not spread and not (name == "scaled_dot_product_attention" and key == "attn_mask"))
            elif isinstance(value, Value):
                inputs[key] = value
            elif any(True for _ in tensors_in(value)):
                inputs[key] = [self.literal(v, fx) if isinstance(v, Constant) else v for v in value if v is not None]
            elif value is None and "Tensor" in str(argument.type):
                continue
            elif name not in BY_SHAPE:
                attributes[key] = self.attribute(value, key)
        attributes |= {k: v for k, v in changes.items() if v is not None}
        rank = self.rank(inputs) + (name in ("stack", "unsqueeze"))
        for key in AXES & attributes.keys():
            attributes[key] = each(attributes[key], lambda d: d + rank if isinstance(d, int) and not isinstance(d, bool) and d < 0 else d)
        if isinstance(fx.meta["val"], (list, tuple)):
            fakes = fx.meta["val"]
            return self.emit_several(name, fx, inputs, attributes, [self.shape_of(f) for f in fakes], [f.dtype for f in fakes])
        shape, kind = self.shape_of(fx.meta["val"]), fx.meta["val"].dtype
        if spread and len(inputs) > 1:  # pointwise operators expand by themselves
            for key, value in inputs.items():
                if value.node and value.node.op == "expand":
                    narrow = inputs | {key: value.node.inputs["self"]}
                    if self.broadcast([v.shape for v in narrow.values()]) == shape:
                        inputs = narrow
        own = self.broadcast([v.shape for v in inputs.values()]) if spread else shape
        if own != shape:  # an operand has extent 1 in place of the number of samples
            return self.emit("expand", fx, {"self": self.emit(name, fx, inputs, attributes, own, kind)}, {}, shape, kind)
        return self.emit(name, fx, inputs, attributes, shape, kind)

    @staticmethod
    def rank(inputs: dict[str, Any]) -> int:
        first = next(iter(inputs.values()))
        return len((first[0] if isinstance(first, list) else first).shape)

    @staticmethod
    def broadcast(shapes: list[Shape]) -> Shape:
        rank = max(len(s) for s in shapes)
        padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
        return tuple(next((d for d in column if d != 1), 1) for column in zip(*padded))

    def attribute(self, value: Any, key: str) -> Any:
        if isinstance(value, (list, tuple)):
            return [self.attribute(v, key) for v in value]
        if isinstance(value, Scalar):
            if value.pair[0] != value.pair[1]:
                raise Refused(f"its argument {key} depends on the number of samples")
            value = value.pair[0]
        if isinstance(value, torch.dtype):
            return dtype_name(value)
        if isinstance(value, complex):
            raise Refused(COMPLEX)
        return value

    def extents(self, value: Any) -> Any:
        return each(value, lambda v: self.extent(*v.pair) if isinstance(v, Scalar) else v)

    # -- operators that need a closer look; each is named after its ATen operator

    def cast(self, call: Call) -> Value:
        source, kind = call.first, call.fx.meta["val"].dtype
        if not isinstance(source, Value):
            source = self.literal(source, call.fx)
        return source if source.type == kind else self.emit("to", call.fx, {"self": source}, {}, source.shape, kind)

    def by_shape(self, call: Call) -> Value:
        """view and its like: nothing, where the shape stays."""
        source = call.first
        shape = self.shape_of(call.fx.meta["val"])
        if call.name != "expand" and any(isinstance(d, Samples) for d in shape) != any(isinstance(d, Samples) for d in source.shape):
            raise Refused("moves the samples into another extent")
        return source if source.shape == shape else self.emit(call.name, call.fx, {"self": source}, {}, shape, source.type)

    op_view = op_reshape = op_flatten = op_unflatten = op_squeeze = op_unsqueeze = op_expand = by_shape

    def op_detach(self, call: Call) -> Value:
        return self.plain(call) if call.first.type.is_floating_point else call.first

    def op_dropout(self, call: Call) -> Value:
        if call.args["p"] == 0 or not call.args["train"]:
            return call.first if isinstance(call.first, Value) else self.literal(call.first, call.fx)
        self.edits.append((call.fx, "p", 0.0))
        return self.plain(call)

    op_feature_dropout = op_alpha_dropout = op_dropout

    def permuted(self, call: Call, order: list[int], name: str = "permute") -> Value:
        source = call.first
        if order == list(range(len(order))):
            return source
        return self.emit("permute", call.fx, {"self": source}, {"dims": order}, tuple(source.shape[d] for d in order), source.type)

    def op_permute(self, call: Call) -> Value:
        rank = len(call.first.shape)
        return self.permuted(call, [d % rank for d in call.args["dims"]])

    def op_transpose(self, call: Call) -> Value:
        rank = len(call.first.shape)
        dims = [call.args[k] % rank for k in call.args if k.startswith(("dim", "axis"))]
        if dims[0] == dims[1]:
            return call.first
        return self.emit("transpose", call.fx, {"self": call.first}, {"dim0": dims[0], "dim1": dims[1]}, self.shape_of(call.fx.meta["val"]), call.first.type)

    def op_t(self, call: Call) -> Value:
        return self.permuted(call, list(reversed(range(len(call.first.shape)))))

    op_numpy_T = op_t

    def op_mT(self, call: Call) -> Value:
        rank = len(call.first.shape)
        return self.permuted(call, [*range(rank - 2), rank - 1, rank - 2])

    op_matrix_H = op_adjoint = op_mT

    def op_movedim(self, call: Call) -> Value:
        rank = len(call.first.shape)
        both = [[d % rank for d in (v if isinstance(v, list) else [v])] for k, v in call.args.items() if k in ("source", "destination")]
        order: list[Any] = [None] * rank
        for a, b in zip(*both):
            order[b] = a
        rest = iter(d for d in range(rank) if d not in both[0])
        return self.permuted(call, [next(rest) if d is None else d for d in order])

    def op_slice(self, call: Call) -> Value:
        source, args = call.first, call.args
        dim = args["dim"] % len(source.shape)
        extent = source.shape[dim]
        start, end, step = self.extents(args["start"]), self.extents(args["end"]), self.extents(args["step"])
        start, end = start or 0, 2**63 - 1 if end is None else end
        whole = start == 0 and step == 1 and (end == extent or (isinstance(end, int) and end >= 2**62))
        if whole:
            return source
        if isinstance(extent, Samples) or isinstance(start, Samples) or isinstance(end, Samples):
            raise Refused("takes some of the samples")
        start, end, _ = slice(start, end, step).indices(extent)
        if (start, end, step) == (0, extent, 1):
            return source
        return self.emit("slice", call.fx, {"self": source}, {"dim": dim, "start": start, "end": end, "step": step},
                         self.shape_of(call.fx.meta["val"]), source.type)

    def op_narrow(self, call: Call) -> Value:
        source, dim = call.first, call.args["dim"] % len(call.first.shape)
        start, length = self.attribute(call.args["start"], "start"), self.attribute(call.args["length"], "length")
        extent = source.shape[dim]
        if isinstance(extent, Samples):
            raise Refused("takes some of the samples")
        start %= max(extent, 1)
        if (start, length) == (0, extent):
            return source
        return self.emit("slice", call.fx, {"self": source}, {"dim": dim, "start": start, "end": start + length, "step": 1},
                         self.shape_of(call.fx.meta["val"]), source.type)

    def op_select(self, call: Call) -> Value:
        source, dim = call.first, call.args["dim"] % len(call.first.shape)
        if isinstance(source.shape[dim], Samples):
            raise Refused("takes one of the samples")
        return self.plain(call, dim=dim, index=self.attribute(call.args["index"], "index") % source.shape[dim])

    def op_split(self, call: Call) -> list[Value]:
        """split, split_with_sizes, chunk and tensor_split: the outputs' shapes say where."""
        dim = call.args["dim"] % len(call.first.shape)
        if isinstance(call.first.shape[dim], Samples):
            raise Refused("splits the samples")
        fakes = call.fx.meta["val"]
        if len(fakes) == 1:
            return [call.first]
        return self.emit_several("split", call.fx, {"self": call.first}, {"dim": dim}, [self.shape_of(f) for f in fakes], [f.dtype for f in fakes])

    op_split_with_sizes = op_chunk = op_tensor_split = op_split

    def op_unbind(self, call: Call) -> list[Value]:
        if isinstance(call.first.shape[call.args["dim"]], Samples):
            raise Refused("takes the samples apart")
        return self.plain(call)

    def gathered(self, fx: torch.fx.Node, source: Value, dim: int, places: torch.Tensor) -> Value:
        """index_select by constant places."""
        shape = source.shape[:dim] + (places.numel(),) + source.shape[dim + 1:]
        index = self.literal(Constant([places, places]), fx)
        return self.emit("index_select", fx, {"self": source, "index": index}, {"dim": dim}, shape, source.type)

    def op_unfold(self, call: Call) -> Value:
        """Windows along a dimension, their elements in a new last one."""
        fx, source, dim, size, step = call.fx, call.first, call.args["dimension"], call.args["size"], call.args["step"]
        dim %= len(source.shape)
        if isinstance(source.shape[dim], Samples):
            raise Refused("takes some of the samples")
        count = (source.shape[dim] - size) // step + 1
        places = (torch.arange(count)[:, None] * step + torch.arange(size)).flatten()
        parts = source.shape[:dim] + (count, size) + source.shape[dim + 1:]
        split = self.emit("view", fx, {"self": self.gathered(fx, source, dim, places)}, {}, parts, source.type)
        order = [d for d in range(len(parts)) if d != dim + 1] + [dim + 1]
        return self.emit("permute", fx, {"self": split}, {"dims": order}, tuple(parts[d] for d in order), source.type)

    def op_im2col(self, call: Call) -> Value:
        """Windows of images: (N, C, H, W) to (N, C * taps, windows)."""
        if len(call.first.shape) != 4:
            raise Refused("windows of an image without a batch")
        return self.windows(call.fx, call.first, *(call.args[k] for k in ("kernel_size", "stride", "padding", "dilation")))

    def windows(self, fx: torch.fx.Node, source: Value, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]) -> Value:
        n, channels, height, width = source.shape
        if any(padding):
            height, width = height + 2 * padding[0], width + 2 * padding[1]
            pad = [padding[1], padding[1], padding[0], padding[0]]
            source = self.emit("constant_pad_nd", fx, {"self": source}, {"pad": pad, "value": 0.0}, (n, channels, height, width), source.type)
        starts, taps = ([torch.arange((extent - d * (k - 1) - 1) // s + 1) * s for extent, d, k, s in zip((height, width), dilation, kernel, stride)],
                        [torch.arange(k) * d for k, d in zip(kernel, dilation)])
        rows, columns = (t[:, None] + s for t, s in zip(taps, starts))  # (taps, windows)
        places = (rows[:, None, :, None] * width + columns[None, :, None, :]).reshape(len(taps[0]) * len(taps[1]), -1)
        flat = self.emit("view", fx, {"self": source}, {}, (n, channels, height * width), source.type)
        shape = (n, channels * places.shape[0], places.shape[1])
        return self.emit("view", fx, {"self": self.gathered(fx, flat, 2, places.flatten())}, {}, shape, source.type)

    def by_matrices(self, call: Call) -> Value:
        """A resize that is linear in rows and in columns: products with a matrix for each, which PyTorch's own resize of unit rows gives."""
        fx, source = call.fx, call.first
        shape = self.shape_of(fx.meta["val"])
        n, channels, height, width = source.shape
        resize = getattr(torch.ops.aten, call.name).default
        aligned = bool(call.args["align_corners"])
        scales = [call.args.get(k) for k in ("scales_h", "scales_w")]
        scales = [s if isinstance(s, (int, float)) else None for s in scales]
        rows = resize(torch.eye(height)[None, :, :, None], [shape[2], 1], aligned, scales[0], None)[0, :, :, 0]  # (height, new)
        columns = resize(torch.eye(width)[None, :, None, :], [1, shape[3]], aligned, None, scales[1])[0, :, 0]  # (width, new)
        wide = self.emit("matmul", fx, {"self": source, "other": self.literal(Constant([columns] * 2), fx)}, {}, (n, channels, height, shape[3]), source.type)
        turned = rows.T.contiguous()
        return self.emit("matmul", fx, {"self": self.literal(Constant([turned] * 2), fx), "other": wide}, {}, shape, source.type)

    op_upsample_bicubic2d = op__upsample_bicubic2d_aa = op__upsample_bilinear2d_aa = by_matrices

    def op_broadcast_tensors(self, call: Call) -> list[Any]:
        results = []
        for tensor, fake in zip(call.args["tensors"], call.fx.meta["val"]):
            value = self.literal(tensor, call.fx) if isinstance(tensor, Constant) else tensor
            shape = self.shape_of(fake)
            results.append(value if value.shape == shape else self.emit("expand", call.fx, {"self": value}, {}, shape, value.type))
        return results

    def op_cat(self, call: Call) -> Value:
        tensors = [t for t in call.args["tensors"] if not (t.pair[0].numel() == 0 if isinstance(t, Constant) else 0 in t.shape)]
        call.args["tensors"] = tensors
        if len(tensors) == 1:
            return tensors[0]
        return self.plain(call)

    def op_repeat(self, call: Call) -> Value:
        repeats = self.extents(call.args["repeats"])
        source, shape = call.first, self.shape_of(call.fx.meta["val"])
        if all(r == 1 for r in repeats):
            return source if source.shape == shape else self.emit("view", call.fx, {"self": source}, {}, shape, source.type)
        padded = (1,) * (len(repeats) - len(source.shape)) + source.shape
        if isinstance(repeats[0], Samples) and all(r == 1 for r in repeats[1:]):  # one copy for every sample
            first = self.emit("expand", call.fx, {"self": source}, {}, (repeats[0],) + padded, source.type)
            return first if first.shape == shape else self.emit("view", call.fx, {"self": first}, {}, shape, source.type)
        if all(r == 1 or d == 1 for r, d in zip(repeats, padded)):
            return self.emit("expand", call.fx, {"self": source}, {}, shape, source.type)
        return self.plain(call, repeats=self.attribute(call.args["repeats"], "repeats"))

    def op_tile(self, call: Call) -> Value:
        call.name = "repeat"
        dims = call.args.pop("dims")
        call.args["repeats"] = [1] * (len(call.first.shape) - len(dims)) + dims
        return self.op_repeat(call)

    def op_cumsum(self, call: Call) -> Value:
        kind = call.fx.meta["val"].dtype
        if call.first.type != kind:
            call.args["self"] = self.emit("to", call.fx, {"self": call.first}, {}, call.first.shape, kind)
        return self.plain(call)

    def op__weight_norm(self, call: Call) -> Value:
        """g v / |v|, with the norm over all dimensions but one."""
        v, g, fx = call.args["v"], call.args["g"], call.fx
        dims = [d for d in range(len(v.shape)) if d != call.args["dim"] % len(v.shape)]
        length = self.emit("linalg_vector_norm", fx, {"self": v}, {"ord": 2.0, "dim": dims, "keepdim": True}, g.shape, v.type)
        factor = self.emit("div", fx, {"self": g, "other": length}, {}, g.shape, v.type)
        return self.emit("mul", fx, {"self": v, "other": factor}, {}, v.shape, v.type)

    def op_repeat_interleave(self, call: Call) -> Value:
        """By a number: one extent more, expanded."""
        source, count, dim = call.first, self.attribute(call.args.get("repeats"), "repeats"), call.args.get("dim")
        if not isinstance(source, Value) or not isinstance(count, int) or dim is None:
            raise Refused("repeats by a tensor, or without a dimension")
        dim %= len(source.shape)
        shape = source.shape
        wide = self.emit("unsqueeze", call.fx, {"self": source}, {}, shape[:dim + 1] + (1,) + shape[dim + 1:], source.type)
        wide = self.emit("expand", call.fx, {"self": wide}, {}, shape[:dim + 1] + (count,) + shape[dim + 1:], source.type)
        return self.emit("view", call.fx, {"self": wide}, {}, self.shape_of(call.fx.meta["val"]), source.type)

    def op_roll(self, call: Call) -> Value:
        if not call.args["dims"]:
            raise Refused("rolls without dimensions")
        if any(isinstance(call.first.shape[d], Samples) for d in call.args["dims"]):
            raise Refused("moves samples among each other")
        return self.plain(call)

    op_flip = op_roll

    def op_pad(self, call: Call) -> Value:
        pad, mode, source = self.attribute(call.args["pad"], "pad"), call.args["mode"], call.first
        if all(p == 0 for p in pad):
            return source
        shape = self.shape_of(call.fx.meta["val"])
        if mode == "constant":
            return self.emit("constant_pad_nd", call.fx, {"self": source}, {"pad": pad, "value": call.args["value"] or 0.0}, shape, source.type)
        if mode == "circular" and min(pad) >= 0:
            return self.circular(source, pad, call.fx)
        name = {"reflect": "reflection_pad", "replicate": "replication_pad"}.get(mode)
        if name is None or len(pad) > 4:
            raise Refused(f"mode {mode} over {len(pad) // 2} dimensions")
        return self.emit(f"{name}{len(pad) // 2}d", call.fx, {"self": source}, {"padding": pad}, shape, source.type)

    def circular(self, source: Value, pad: list[int], fx: torch.fx.Node) -> Value:
        """Ends put in front of the beginning, and the other way round."""
        for i in range(len(pad) // 2):
            dim = len(source.shape) - 1 - i
            extent = source.shape[dim]
            wide = lambda width: source.shape[:dim] + (width,) + source.shape[dim + 1:]
            piece = lambda a, b: [self.emit("slice", fx, {"self": source}, {"dim": dim, "start": a, "end": b, "step": 1}, wide(b - a), source.type)] if b > a else []
            parts = piece(extent - pad[2 * i], extent) + [source] + piece(0, pad[2 * i + 1])
            if len(parts) > 1:
                source = self.emit("cat", fx, {"tensors": parts}, {"dim": dim}, wide(extent + pad[2 * i] + pad[2 * i + 1]), source.type)
        return source

    def op_constant_pad_nd(self, call: Call) -> Value:
        return call.first if all(p == 0 for p in self.attribute(call.args["pad"], "pad")) else self.plain(call)

    def op_rsub(self, call: Call) -> Value:
        """other - alpha self."""
        call.args = {"self": call.args["other"], "other": call.args["self"], "alpha": call.args["alpha"]}
        call.schema, call.name = torch.ops.aten.sub.Tensor._schema, "sub"
        return self.plain(call)

    def op_div(self, call: Call) -> Value:
        if call.args.get("rounding_mode"):
            raise Refused("a division that rounds")
        return self.plain(call, rounding_mode=None)

    def op_bitwise_and(self, call: Call) -> Value:
        if call.fx.meta["val"].dtype != torch.bool:
            raise Refused("bits of integers")
        return self.plain(call)

    op_bitwise_or = op_bitwise_xor = op_bitwise_not = op_bitwise_and

    def reduced(self, call: Call) -> Value:
        """sum, mean and so on: all dimensions are written out."""
        dims = call.args.get("dim")
        dims = [dims] if isinstance(dims, int) else dims
        rank = len(call.first.shape)
        dims = sorted(d % rank for d in dims) if dims else list(range(rank))
        changes: dict[str, Any] = {"dim": dims, "keepdim": bool(call.args.get("keepdim", False))}
        if call.name in ("var", "std"):
            correction = self.attribute(call.args.get("correction", 1), "correction")
            changes["correction"] = int(call.args["unbiased"]) if "unbiased" in call.args else 1 if correction is None else correction
            call.args.pop("unbiased", None)
        shape, kind = self.shape_of(call.fx.meta["val"]), call.fx.meta["val"].dtype
        source = call.first
        if call.name in ("sum", "mean", "prod") and kind != source.type:
            source = self.emit("to", call.fx, {"self": source}, {}, source.shape, kind)
        return self.emit(call.name, call.fx, {"self": source}, changes, shape, kind)

    op_sum = op_mean = op_amax = op_amin = op_prod = op_var = op_std = op_logsumexp = reduced

    def op_var_mean(self, call: Call) -> list[Value]:
        results = []
        for name, fake in zip(("var", "mean"), call.fx.meta["val"]):
            part = Call(name, dict(call.args), call.schema, call.fx, call.target)
            rank = len(call.first.shape)
            dims = call.args.get("dim")
            attributes: dict[str, Any] = {"dim": sorted(d % rank for d in dims) if dims else list(range(rank)), "keepdim": bool(call.args.get("keepdim", False))}
            if name == "var":
                correction = part.args.get("correction")
                attributes["correction"] = int(call.args["unbiased"]) if "unbiased" in call.args else 1 if correction is None else correction
            results.append(self.emit(name, call.fx, {"self": call.first}, attributes, self.shape_of(fake), fake.dtype))
        return results

    def extreme(self, call: Call) -> Any:
        """max and min: of two tensors, of all elements, or along a dimension, of which the places are not given."""
        other = {"max": "maximum", "min": "minimum"}[call.name]
        if "other" in call.args:
            call.name = other
            return self.plain(call)
        if "dim" not in call.args:
            return self.emit({"max": "amax", "min": "amin"}[call.name], call.fx, {"self": call.first},
                             {"dim": list(range(len(call.first.shape))), "keepdim": False}, (), call.first.type)
        if any(u.args[1] == 1 and u.users for u in call.fx.users if u.target is operator.getitem):
            raise Refused("the place of an extreme: " + BY_DATA)
        return self.plain(call)

    op_max = op_min = extreme

    def op_linalg_vector_norm(self, call: Call) -> Value:
        rank = len(call.first.shape)
        dims = call.args.get("dim")
        dims = sorted(d % rank for d in ([dims] if isinstance(dims, int) else dims)) if dims else list(range(rank))
        order = call.args.get("ord", call.args.get("p"))
        return self.emit("linalg_vector_norm", call.fx, {"self": call.first}, {
            "ord": 2.0 if order is None else float(order), "dim": dims, "keepdim": bool(call.args.get("keepdim", False))},
            self.shape_of(call.fx.meta["val"]), call.first.type)

    op_norm = op_frobenius_norm = op_linalg_vector_norm

    def op_conv1d(self, call: Call) -> Value:
        """Padding by name becomes numbers; where the sides differ, a padding of its own."""
        args, weight = call.args, call.args["weight"]
        computed = isinstance(weight, Value) and weight.node is not None
        if not isinstance(args["padding"], str):
            return self.by_windows(call, args["padding"]) if computed else self.plain(call)
        count = len(weight.shape) - 2
        total = [0] * count
        if args["padding"] == "same":
            total = [d * (k - 1) for d, k in zip(args["dilation"], weight.shape[2:])]
        if any(t % 2 for t in total):
            sides = [side for t in reversed(total) for side in (t // 2, t - t // 2)]
            shape = call.args["input"].shape
            padded = shape[:len(shape) - count] + tuple(d + t for d, t in zip(shape[len(shape) - count:], total))
            call.args["input"] = self.emit("constant_pad_nd", call.fx, {"self": args["input"]}, {"pad": sides, "value": 0.0}, padded, args["input"].type)
            total = [0] * count
        padding = [t // 2 for t in total]
        return self.by_windows(call, padding) if computed else self.plain(call, padding=padding)

    op_conv2d = op_conv1d

    def by_windows(self, call: Call, padding: list[int]) -> Value:
        """A convolution whose weight is computed (weight norm, standardisation): a product with the windows."""
        fx, args, groups, shape = call.fx, call.args, call.args["groups"], self.shape_of(call.fx.meta["val"])
        source, weight, two = args["input"], args["weight"], len(shape) == 4
        if not isinstance(source.shape[0], Samples):
            raise Refused("a convolution without a batch, with a weight that is computed")
        n, channels, outputs = shape[0], source.shape[1], shape[1]
        wide = lambda numbers, first: list(numbers) if two else [first, *numbers]
        if not two:
            source = self.emit("view", fx, {"self": source}, {}, (n, channels, 1, source.shape[2]), source.type)
        windows = self.windows(fx, source, wide(weight.shape[2:], 1), wide(args["stride"], 1), wide(padding, 0), wide(args["dilation"], 1))
        each, length = windows.shape[1] // groups, windows.shape[2]
        parts = self.emit("view", fx, {"self": windows}, {}, (n, groups, each, length), source.type)
        rows = self.emit("view", fx, {"self": weight}, {}, (groups, outputs // groups, each), weight.type)
        product = self.emit("matmul", fx, {"self": rows, "other": parts}, {}, (n, groups, outputs // groups, length), source.type)
        result = self.emit("view", fx, {"self": product}, {}, shape, source.type)
        if args.get("bias") is None:
            return result
        bias = self.emit("view", fx, {"self": args["bias"]}, {}, (outputs,) + (1,) * (len(shape) - 2), source.type)
        return self.emit("add", fx, {"self": result, "other": bias}, {"alpha": 1}, shape, source.type)

    def pooled(self, call: Call) -> Value:
        stride = self.attribute(call.args["stride"], "stride")
        return self.plain(call, stride=stride or self.attribute(call.args["kernel_size"], "kernel_size"))

    op_max_pool1d = op_max_pool2d = op_avg_pool1d = op_avg_pool2d = pooled

    def with_indices(self, call: Call) -> list[Any]:
        """Pooling that also gives places: without them."""
        if any(u.args[1] == 1 and u.users for u in call.fx.users if u.target is operator.getitem):
            raise Refused("the place of an extreme: " + BY_DATA)
        call.name = call.name.removesuffix("_with_indices")
        changes = {}
        if "stride" in call.args:
            changes["stride"] = self.attribute(call.args["stride"], "stride") or self.attribute(call.args["kernel_size"], "kernel_size")
        values = self.plain(call, **changes)
        values[0].node.several, values[0].node.shapes, values[0].node.types = False, values[0].node.shapes[:1], values[0].node.types[:1]
        return values

    op_max_pool2d_with_indices = op_max_pool1d_with_indices = op_adaptive_max_pool2d = op_adaptive_max_pool1d = with_indices

    def upsampled(self, call: Call) -> Value:
        """The size follows from the shape; factors are given where coordinates are computed from them."""
        args = call.args
        scales = args.get("scale_factors")
        if scales is None:
            named = [args[k] for k in ("scales", "scales_h", "scales_w") if args.get(k) is not None]
            scales = named or None
        source = args.get("input", args.get("self"))
        attributes: dict[str, Any] = {"scale_factors": scales}
        if "align_corners" in args:
            attributes["align_corners"] = args["align_corners"]
        return self.emit(call.name, call.fx, {"input": source}, attributes, self.shape_of(call.fx.meta["val"]), source.type)

    op_upsample_nearest1d = op_upsample_nearest2d = op_upsample_bilinear2d = upsampled

    def own_loss(self, call: Call) -> Value:
        if call.args["reduction"] != 1:
            raise Refused("a loss of the model's own that is no mean")
        target = call.args["target"]
        if isinstance(target, Constant) or call.name == "cross_entropy_loss" and target.type != torch.int64:
            raise Refused("a loss of the model's own whose target is no input of classes")
        if call.name != "cross_entropy_loss" and call.first.shape != target.shape:
            raise Refused("a loss of the model's own of two shapes")
        return self.plain(call)

    op_cross_entropy_loss = op_mse_loss = op_l1_loss = op_binary_cross_entropy_with_logits = own_loss

    def op_embedding(self, call: Call) -> Value:
        """Of a constant that is the same for all samples: looked up once, then expanded."""
        weight, indices, fx = call.args["weight"], call.args["indices"], call.fx
        if call.args["scale_grad_by_freq"]:
            raise Refused("scale_grad_by_freq")
        if isinstance(weight, Constant):
            weight = self.literal(weight, fx)
        places = self.literal(indices, fx, whole=False) if isinstance(indices, Constant) else indices
        padding = call.args["padding_idx"]
        shape = self.shape_of(fx.meta["val"])
        own = places.shape + shape[len(shape) - 1:]
        value = self.emit("embedding", fx, {"weight": weight, "indices": places}, {"padding_idx": None if padding < 0 else padding}, own, weight.type)
        return value if own == shape else self.emit("expand", fx, {"self": value}, {}, shape, weight.type)

    def op_index(self, call: Call) -> Value:
        """Indexing with constants is index_select. With the samples' own places as first index, the rest is."""
        source, indices, fx = call.first, call.args["indices"], call.fx
        if not isinstance(source, Value) or any(isinstance(i, Value) for i in indices):
            raise Refused(BY_DATA)
        at = [d for d, i in enumerate(indices) if i is not None]
        shape = self.shape_of(fx.meta["val"])
        if at == list(range(len(at))) and isinstance(source.shape[0], Samples) and at:
            return self.index_samples(source, [indices[d] for d in at], shape, fx)
        if at != list(range(at[0], at[0] + len(at))) or any(isinstance(source.shape[d], Samples) for d in at):
            raise Refused("indices that are apart, or among samples")
        tensors = [self.collapsed(indices[d])[0] for d in at]
        if any(t.dtype == torch.bool for t in tensors):
            if len(tensors) > 1:
                raise Refused("several masks")
            tensors = list(tensors[0].nonzero(as_tuple=True))
            at = list(range(at[0], at[0] + len(tensors)))
        return self.index_flat(source, at[0], tensors, shape, fx)

    def index_flat(self, source: Value, dim: int, tensors: list[torch.Tensor], shape: Shape, fx: torch.fx.Node) -> Value:
        """source[:, …, i, j, …] with constants i, j that start at dimension `dim`."""
        extents = [source.shape[dim + k] for k in range(len(tensors))]
        flat = torch.zeros((), dtype=torch.int64)
        for extent, index in zip(extents, tensors):
            flat = flat * extent + torch.where(index < 0, index + extent, index)
        before, after = source.shape[:dim], source.shape[dim + len(tensors):]
        joined = before + (math.prod(extents),) + after
        if joined != source.shape:
            source = self.emit("view", fx, {"self": source}, {}, joined, source.type)
        if not torch.equal(flat.flatten(), torch.arange(joined[dim])):
            index = Value((flat.numel(),), torch.int64, literal=flat.flatten().clone())
            source = self.emit("index_select", fx, {"self": source, "index": index}, {"dim": dim}, before + (flat.numel(),) + after, source.type)
        own = before + tuple(flat.shape) + after
        if source.shape != own:
            source = self.emit("view", fx, {"self": source}, {}, own, source.type)
        return source if own == shape else self.emit("expand", fx, {"self": source}, {}, shape, source.type)

    def index_samples(self, source: Value, indices: list[Constant], shape: Shape, fx: torch.fx.Node) -> Value:
        first = indices[0]
        for w, places in enumerate(first.pair):
            if places.numel() != self.samples[w] or not torch.equal(places.flatten(), torch.arange(self.samples[w])):
                raise Refused("takes some of the samples")
        rank = max(i.pair[0].dim() for i in indices)
        if first.pair[0].dim() != rank or first.pair[0].shape[0] != self.samples[0]:
            raise Refused("indices that are apart, or among samples")
        rest = [self.collapsed(i)[0] for i in indices[1:]]
        if any(t.dim() == rank and t.shape[0] != 1 for t in rest):
            raise Refused("indices that differ from sample to sample")
        rest = [t[0] if t.dim() == rank else t for t in rest]
        if not rest:
            return source
        return self.index_flat(source, 1, rest, shape, fx)

    def op_gather(self, call: Call) -> Value:
        """With constant places. Where they vary along the dimension alone, it is index_select. From a constant whose elements are
        all equal it is that number (RoBERTa's types of tokens)."""
        index, source = call.args["index"], call.first
        if isinstance(source, Constant):
            number = source.pair[0].flatten()[0]
            if all(bool((t == number).all()) for t in source.pair):
                return Constant([torch.full([self.concrete(d, w) for d in index.shape], number.item(), dtype=number.dtype) for w in (0, 1)])
            source = self.literal(source, call.fx)
        if not isinstance(index, Constant):
            raise Refused(BY_DATA)
        tensor, shape = self.collapsed(index)
        dim = call.args["dim"] % len(source.shape)
        line = tensor
        for d in range(tensor.dim()):
            if d != dim:
                line = line.narrow(d, 0, 1)
        if torch.equal(line.expand_as(tensor), tensor) and all(s == o for d, (s, o) in enumerate(zip(source.shape, shape)) if d != dim):
            value = Value((line.numel(),), torch.int64, literal=line.flatten().clone())
            return self.emit("index_select", call.fx, {"self": source, "index": value}, {"dim": dim}, shape, source.type)
        # Along which other dimensions the places vary: these and `dim` become one.
        varied = [d for d in range(tensor.dim()) if d != dim and not torch.equal(tensor.narrow(d, 0, 1).expand_as(tensor), tensor)]
        if any(s != o for d, (s, o) in enumerate(zip(source.shape, shape)) if d != dim) or any(isinstance(shape[d], Samples) for d in varied):
            raise Refused("places that are fewer than the tensor has along other dimensions")
        for d in range(tensor.dim()):
            if d != dim and d not in varied:
                tensor = tensor.narrow(d, 0, 1)
        rest = [d for d in range(len(shape)) if d != dim and d not in varied]
        order = rest + varied + [dim]
        places = tensor.permute(order).reshape(-1, tensor.shape[dim])
        places = (torch.arange(places.shape[0])[:, None] * source.shape[dim] + places).flatten()
        fx, sizes = call.fx, lambda of: tuple(of[d] for d in order)
        moved = self.emit("permute", fx, {"self": source}, {"dims": order}, sizes(source.shape), source.type)
        kept = tuple(source.shape[d] for d in rest)
        flat = self.emit("view", fx, {"self": moved}, {}, kept + (math.prod(source.shape[d] for d in varied) * source.shape[dim],), source.type)
        taken = self.emit("view", fx, {"self": self.gathered(fx, flat, len(rest), places)}, {}, sizes(shape), source.type)
        return self.emit("permute", fx, {"self": taken}, {"dims": [order.index(d) for d in range(len(order))]}, shape, source.type)

    def op_index_select(self, call: Call) -> Value:
        if not isinstance(call.args["index"], Constant):
            raise Refused(BY_DATA)
        if isinstance(call.first.shape[call.args["dim"]], Samples):
            raise Refused("takes some of the samples")
        return self.plain(call)

    def op_scaled_dot_product_attention(self, call: Call) -> Value:
        """The scale is written out. A constant mask that hides nothing is left out; one that is causal becomes is_causal."""
        args, fx = call.args, call.fx
        query, mask = args["query"], args["attn_mask"]
        scale = args["scale"] if args["scale"] is not None else 1 / math.sqrt(query.shape[-1])
        causal = args["is_causal"]
        if isinstance(mask, Constant) and mask.pair[0].dtype == torch.bool:
            tensor, _ = self.collapsed(mask)
            if bool(tensor.all()):
                args["attn_mask"] = None
            elif tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] == query.shape[-2] == args["key"].shape[-2] and \
                    torch.equal(tensor, torch.ones_like(tensor).tril()):
                args["attn_mask"], causal = None, True
        if args["dropout_p"]:
            self.edits.append((fx, "dropout_p", 0.0))
        return self.plain(call, scale=float(scale), is_causal=causal, dropout_p=float(args["dropout_p"]))

    def op_rms_norm(self, call: Call) -> Value:
        eps = call.args["eps"]
        return self.plain(call, eps=torch.finfo(torch.float32).eps if eps is None else eps)

    def made(self, fx: torch.fx.Node, op: str, inputs: dict[str, Any], shape: Shape, **attributes: Any) -> Value:
        return self.emit(op, fx, inputs, attributes, shape, torch.float32)

    def step(self, fx: torch.fx.Node, kind: str, x: Value, state: list[Value], weight: Value, bias: Value | None) -> list[Value]:
        """The next state of a recurrent cell; `x` is the input's part of the gates, with its bias."""
        n, size = state[0].shape
        arguments = {"input": state[0], "weight": weight} | ({} if bias is None else {"bias": bias})
        own = self.made(fx, "linear", arguments, x.shape)

        def part(of: Value, i: int) -> Value:
            return self.made(fx, "slice", {"self": of}, (n, size), dim=1, start=i * size, end=(i + 1) * size, step=1)

        def two(op: str, a: Value, b: Value, **attributes: Any) -> Value:
            return self.made(fx, op, {"self": a, "other": b}, a.shape, **attributes)

        def gate(op: str, value: Value) -> Value:
            return self.made(fx, op, {"self": value}, value.shape)
        if kind == "gru":
            reset, update = (gate("sigmoid", two("add", part(x, i), part(own, i), alpha=1)) for i in (0, 1))
            new = gate("tanh", two("add", part(x, 2), two("mul", reset, part(own, 2)), alpha=1))
            return [two("add", new, two("mul", update, two("sub", state[0], new, alpha=1)), alpha=1)]
        gates = two("add", x, own, alpha=1)
        if kind != "lstm":
            return [gate(kind.removeprefix("rnn_"), gates)]
        inner, forget, out = (gate("sigmoid", part(gates, i)) for i in (0, 1, 3))
        cell = two("add", two("mul", forget, state[1]), two("mul", inner, gate("tanh", part(gates, 2))), alpha=1)
        return [two("mul", out, gate("tanh", cell)), cell]

    def stepwise(self, call: Call, kind: str, states: list[Any]) -> list[Value]:
        """A recurrent network step by step, in the operators that a step is made of."""
        fx, x, weights = call.fx, call.first, [self.literal(w, call.fx) if isinstance(w, Constant) else w for w in call.args["params"]]
        time, layers, ways = int(call.args["batch_first"]), call.args["num_layers"], 2 if call.args["bidirectional"] else 1
        each = 4 if call.args["has_biases"] else 2
        if len(weights) != each * layers * ways:
            raise Refused("projections of the state (proj_size)")
        if len(x.shape) != 3 or not isinstance(x.shape[time], int):
            raise Refused("a sequence without a batch")
        steps, n = x.shape[time], x.shape[1 - time]
        firsts = [self.literal(s, fx) if isinstance(s, Constant) else s for s in states]
        lasts: list[list[Value]] = [[] for _ in firsts]
        for layer in range(layers):
            sides = []
            for way in range(ways):
                own = weights[(layer * ways + way) * each:][:each]
                arguments = {"input": x, "weight": own[0]} | ({"bias": own[2]} if each == 4 else {})
                gates = self.made(fx, "linear", arguments, x.shape[:2] + (own[0].shape[0],))
                size = own[1].shape[1]
                state = [self.made(fx, "select", {"self": f}, (n, size), dim=0, index=layer * ways + way) for f in firsts]
                found: dict[int, Value] = {}
                for t in reversed(range(steps)) if way else range(steps):
                    now = self.made(fx, "select", {"self": gates}, (n, own[0].shape[0]), dim=time, index=t)
                    state = self.step(fx, kind, now, state, own[1], own[3] if each == 4 else None)
                    found[t] = state[0]
                shape = (steps, n, size) if time == 0 else (n, steps, size)
                sides.append(self.made(fx, "stack", {"tensors": [found[t] for t in range(steps)]}, shape, dim=time))
                for last, s in zip(lasts, state):
                    last.append(s)
            shape = sides[0].shape[:2] + (sides[0].shape[2] * ways,)
            x = sides[0] if ways == 1 else self.made(fx, "cat", {"tensors": sides}, shape, dim=2)
            if call.args["dropout"] and layer + 1 < layers:
                self.edits.append((fx, "dropout", 0.0))
                x = self.made(fx, "dropout", {"input": x}, x.shape, p=float(call.args["dropout"]))
        return [x] + [self.made(fx, "stack", {"tensors": s}, (len(s),) + s[0].shape, dim=0) for s in lasts]

    def cell(self, call: Call) -> Any:
        """One step of lstm, gru or rnn."""
        fx, args = call.fx, {k: self.literal(v, call.fx) if isinstance(v, Constant) else v for k, v in call.args.items()}
        kind = call.name.removesuffix("_cell")
        state = [self.literal(s, fx) if isinstance(s, Constant) else s for s in (args["hx"] if kind == "lstm" else [args["hx"]])]
        if len(args["input"].shape) != 2:
            raise Refused("a step without a batch")
        arguments = {"input": args["input"], "weight": args["w_ih"]} | ({} if args.get("b_ih") is None else {"bias": args["b_ih"]})
        gates = self.made(fx, "linear", arguments, (args["input"].shape[0], args["w_ih"].shape[0]))
        state = self.step(fx, kind, gates, state, args["w_hh"], args.get("b_hh"))
        return state if kind == "lstm" else state[0]

    op_lstm_cell = op_gru_cell = op_rnn_tanh_cell = op_rnn_relu_cell = cell

    def recurrent(self, call: Call) -> list[Value]:
        """lstm and gru; a first state of zeros is left out. With another, or a cell's last state that is used: step by step."""
        if call.target._overloadname != "input":
            raise Refused("packed sequences: pad them, and mask the loss")
        states = call.args["hx"] if isinstance(call.args["hx"], list) else [call.args["hx"]]
        zeros = all(isinstance(s, Constant) and not bool(s.pair[0].any()) for s in states)
        cell_used = call.name == "lstm" and any(u.args[1] == 2 and u.users for u in call.fx.users if u.target is operator.getitem)
        if not zeros or cell_used or call.name not in ("lstm", "gru"):
            return self.stepwise(call, call.name, states)
        call.args["hx"] = None
        if call.args["dropout"]:
            self.edits.append((call.fx, "dropout", 0.0))
        return self.plain(call, dropout=float(call.args["dropout"]))

    op_lstm = op_gru = op_rnn_tanh = op_rnn_relu = recurrent

    def norm_with_statistics(self, call: Call) -> Value:
        for key in ("running_mean", "running_var"):
            if isinstance(call.args[key], Value) and call.args.get("training", call.args.get("use_input_stats")):
                self.changed.add(call.args[key].name)
        return self.plain(call)

    op_instance_norm = norm_with_statistics

    def op_batch_norm(self, call: Call) -> Value:
        x, fx, args = call.first, call.fx, call.args
        if isinstance(x.shape[0], Samples):
            return self.norm_with_statistics(call)
        # Of a weight (standardisation): in the operators that it is made of.
        if args["running_mean"] is not None:
            raise Refused("a batch norm without samples")
        dims, kept = [d for d in range(len(x.shape)) if d != 1], tuple(e if d == 1 else 1 for d, e in enumerate(x.shape))
        mean = self.made(fx, "mean", {"self": x}, kept, dim=dims, keepdim=True)
        gap = self.made(fx, "sub", {"self": x, "other": mean}, x.shape, alpha=1)
        variance = self.made(fx, "mean", {"self": self.made(fx, "square", {"self": gap}, x.shape)}, kept, dim=dims, keepdim=True)
        scale = self.made(fx, "rsqrt", {"self": self.made(fx, "add", {"self": variance}, kept, other=args["eps"], alpha=1)}, kept)
        result = self.made(fx, "mul", {"self": gap, "other": scale}, x.shape)
        for key, op in (("weight", "mul"), ("bias", "add")):
            if args.get(key) is not None:
                other = self.literal(args[key], fx) if isinstance(args[key], Constant) else args[key]
                other = self.made(fx, "view", {"self": other}, kept)
                result = self.made(fx, op, {"self": result, "other": other}, x.shape, **({"alpha": 1} if op == "add" else {}))
        return result

    # -- the whole

    state_names: set[str] = set()

    def finish(self, outputs: list[Value]) -> tuple[list[Node], dict[str, torch.Tensor]]:
        """The nodes that outputs need, named by operator and number; the constants, equal ones once."""
        needed: set[Node] = set()
        stack = [v.node for v in outputs if v.node]
        while stack:
            node = stack.pop()
            if node not in needed:
                needed.add(node)
                stack += [v.node for v in tensors_in(list(node.inputs.values())) if v.node]
        nodes = [n for n in self.nodes if n in needed]
        taken = set(self.state_names) | {v.name for v in self.inputs}
        counts: dict[str, int] = {}

        def fresh(stem: str) -> str:
            while True:
                n = counts.get(stem, 0)
                counts[stem] = n + 1
                name = f"{stem}_{n}" if n else stem
                if name not in taken:
                    taken.add(name)
                    return name
        constants: dict[str, torch.Tensor] = {}
        known: dict[str, str] = {}
        for node in nodes:
            node.name = fresh(node.op)
            for key, value in node.inputs.items():
                for v in tensors_in(value):
                    if v.literal is not None and not v.name:
                        digest = hashlib.sha256(save({"": v.literal})).hexdigest()
                        if digest not in known:
                            known[digest] = fresh("constant_" + (key if node.op != "expand" else "expanded"))
                            constants[known[digest]] = v.literal
                        v.name = known[digest]
        for v in outputs:
            if v.literal is not None and not v.name:
                v.name = fresh("constant_output")
                constants[v.name] = v.literal
        return nodes, constants

    inputs: list[Value] = []


# ------------------------------------------------------------------------------------------------------------ model and its inputs


@dataclass
class Model:
    name: str
    module: torch.nn.Module
    args: tuple
    kwargs: dict[str, Any]
    outputs: list[str] = field(default_factory=list)  # filled while exporting
    left_out: list[str] = field(default_factory=list)


def load(reference: str) -> tuple[torch.nn.Module, Any, str]:
    """Model and example inputs of FILE.py:FUNCTION."""
    path, colon, function = reference.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise Mistake(f"'{reference}': give FILE.py:FUNCTION, a function that returns (model, example_inputs)")
    if not os.path.isfile(path):
        raise Mistake(f"there is no file {path}")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # the user's file may raise anything
        raise Mistake(f"{path} cannot be imported: {where(error, path)}")
    if not callable(getattr(module, function, None)):
        offered = ", ".join(n for n, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == spec.name
                            and not n.startswith("_") and not inspect.signature(f).parameters)
        raise Mistake(f"{path} has no function {function}; it has {offered or 'none'}")
    try:
        result = getattr(module, function)()
    except BaseException as error:
        raise Mistake(f"{path}:{function} failed: {where(error, path)}")
    if not (isinstance(result, (tuple, list)) and len(result) == 2 and isinstance(result[0], torch.nn.Module)):
        kind = f"({', '.join(type(r).__name__ for r in result)})" if isinstance(result, (tuple, list)) else type(result).__name__
        raise Mistake(f"{path}:{function} returns {kind}; it has to return (model, example_inputs): a torch.nn.Module and a tuple or dict of tensors")
    return result[0], result[1], function


def where(error: BaseException, path: str) -> str:
    """An exception in one line, with the line of the user's file that it came from."""
    line, trace = None, error.__traceback__
    while trace:
        if os.path.abspath(trace.tb_frame.f_code.co_filename) == os.path.abspath(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    text = next((t for t in str(error).splitlines() if t.strip()), "")
    return f"{type(error).__name__}: {text}" + (f" ({os.path.basename(path)}:{line})" if line else "")


def arguments(example: Any, reference: str) -> tuple[tuple, dict[str, Any]]:
    """(args, kwargs) of what the function gave as example inputs."""
    if isinstance(example, torch.Tensor):
        args, kwargs = (example,), {}
    elif hasattr(example, "keys"):
        args, kwargs = (), dict(example)
    elif isinstance(example, (tuple, list)) and len(example) == 2 and isinstance(example[0], (tuple, list)) and isinstance(example[1], dict):
        args, kwargs = tuple(example[0]), dict(example[1])
    elif isinstance(example, (tuple, list)):
        args, kwargs = tuple(example), {}
    else:
        raise Mistake(f"{reference}: example_inputs is {type(example).__name__}; give a tuple or a dict of tensors")
    tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    if not tensors:
        raise Mistake(f"{reference}: example_inputs has no tensor")
    if any(t.dim() == 0 for t in tensors) or len({t.shape[0] for t in tensors}) > 1:
        shapes = ", ".join(str(tuple(t.shape)) for t in tensors)
        raise Mistake(f"{reference}: the first extent of every input has to be the number of samples; the examples' shapes are {shapes}")
    for t in tensors:
        if t.dtype not in TYPES:
            raise Mistake(f"{reference}: an input of type {dtype_name(t.dtype)}; inputs are float32, int64, int32 or bool")
    move = lambda t: t.detach().cpu() if isinstance(t, torch.Tensor) else t
    return pytree.tree_map(move, args), pytree.tree_map(move, kwargs)


def with_samples(value: Any, count: int) -> Any:
    """The inputs with `count` samples: rows in turn, from the second round on shifted by one place so that none are equal."""
    def row(t: torch.Tensor, i: int) -> torch.Tensor:
        r = t[i % t.shape[0]]
        return r.flatten().roll(i // t.shape[0]).view(r.shape) if r.numel() else r
    return pytree.tree_map(lambda t: torch.stack([row(t, i) for i in range(count)]) if isinstance(t, torch.Tensor) else t, value)


def primes(avoid: set[int]) -> tuple[int, int]:
    """Two numbers of samples that no extent equals."""
    found = (p for p in range(5, 100000) if all(p % d for d in range(2, math.isqrt(p) + 1)) and p not in avoid)
    return next(found), next(found)


def flat_outputs(model: Model, output: Any) -> list[torch.Tensor]:
    """The tensors of an output, with names; caches and other things that no loss uses are left out."""
    names: list[str] = []
    tensors: list[torch.Tensor] = []

    def take(name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            names.append(name)
            tensors.append(value)
        elif value is None:
            return
        elif name.split(".")[-1] in ("past_key_values", "past_key_value", "cache", "encoder_past_key_values"):
            model.left_out.append(name)
        elif hasattr(value, "_fields"):
            for key in value._fields:
                take(f"{name}.{key}" if name else key, getattr(value, key))
        elif hasattr(value, "items"):
            for key, v in value.items():
                take(f"{name}.{key}" if name else str(key), v)
        elif isinstance(value, (tuple, list)):
            for i, v in enumerate(value):
                take((f"{name}.{i}" if name else "output" + (str(i) if i else "")), v)
        else:
            model.left_out.append(f"{name or 'output'} ({type(value).__name__})")
    take("output" if isinstance(output, torch.Tensor) else "", output)
    model.outputs = names
    return tensors


@contextlib.contextmanager
def bags_as_lookups() -> Iterator[None]:
    """While exporting, embedding_bag over the rows of a matrix is a look-up, then a sum or mean, which have gradients here."""
    functional = torch.nn.functional
    original = functional.embedding_bag

    @functools.wraps(original)
    def embedding_bag(input: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor | None = None, max_norm: float | None = None,
                      norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                      per_sample_weights: torch.Tensor | None = None, include_last_offset: bool = False,
                      padding_idx: int | None = None) -> torch.Tensor:
        if input.dim() != 2 or max_norm is not None or scale_grad_by_freq or padding_idx is not None or mode not in ("sum", "mean"):
            return original(input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse, per_sample_weights,
                            include_last_offset, padding_idx)
        rows = functional.embedding(input, weight)
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.unsqueeze(-1)
        return rows.sum(1) if mode == "sum" else rows.mean(1)
    functional.embedding_bag = embedding_bag
    try:
        yield
    finally:
        functional.embedding_bag = original


def export_program(model: Model, samples: tuple[int, int], reference: str) -> torch.export.ExportedProgram:
    """torch.export of the model as it trains, with any number of samples. What it returns becomes a list of tensors."""
    module = model.module
    if hasattr(getattr(module, "config", None), "use_cache"):
        module.config.use_cache = False  # of keys and values: for generating, not for training
    forward = module.forward

    @functools.wraps(forward)
    def listed(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        model.left_out = []
        return flat_outputs(model, forward(*args, **kwargs))
    module.forward = listed
    args, kwargs = with_samples(model.args, samples[0]), with_samples(model.kwargs, samples[0])
    shapes = torch.export.ShapesCollection()
    for t in pytree.tree_leaves((args, kwargs)):
        if isinstance(t, torch.Tensor):
            shapes[t] = {0: torch.export.Dim.AUTO}
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(), bags_as_lookups():
            logging.disable(logging.CRITICAL)  # what PyTorch says besides the exception
            warnings.simplefilter("ignore")
            program = torch.export.export(module, args, kwargs, dynamic_shapes=shapes.dynamic_shapes(module, args, kwargs), strict=False)
    except Exception as error:  # torch.export raises many kinds
        text = str(error)
        hint = "a model whose control flow depends on the data cannot be exported" if "data-dependent" in text or "GuardOnData" in type(error).__name__ \
            else "torch.export.export(model.train(), inputs) has to accept the model"
        raise Mistake(f"PyTorch cannot export {reference}: {where(error, inspect.getsourcefile(type(module)) or '')}; {hint}")
    finally:
        logging.disable(logging.NOTSET)
        del module.forward
    return program


def input_names(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> list[str]:
    """Names of the leaves of all arguments, in the order of pytree."""
    parameters = [p for p in inspect.signature(module.forward).parameters.values()]
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [positional[i] if i < len(positional) else f"input{i}" for i in range(len(args))]

    def leaves(name: str, value: Any) -> Iterator[str]:
        if isinstance(value, (tuple, list)):
            for i, v in enumerate(value):
                yield from leaves(f"{name}.{i}", v)
        elif isinstance(value, dict):
            for key, v in value.items():
                yield from leaves(f"{name}.{key}", v)
        else:
            yield name
    return [leaf for name, value in [*zip(names, args), *kwargs.items()] for leaf in leaves(name, value)]


def state_of(module: torch.nn.Module) -> tuple[dict[str, dict[str, Any]], dict[str, str], dict[str, torch.Tensor]]:
    """The state_dict described, the first name of every name, and the tensors."""
    described: dict[str, dict[str, Any]] = {}
    first: dict[str, str] = {}
    tensors: dict[str, torch.Tensor] = {}
    seen: dict[int, str] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if not isinstance(tensor, torch.Tensor):
            note(f"left out of the weights: {name}, which is no tensor")
            continue
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
            raise Mistake(f"{name} is {dtype_name(tensor.dtype)}; export the model in float32 (model.float())")
        tensors[name] = tensor.detach()
        first[name] = seen.setdefault(id(tensor), name)
        if first[name] != name:
            described[name] = {"same_as": first[name]}
            continue
        kind = "buffer" if not isinstance(tensor, torch.nn.Parameter) else "parameter" if tensor.requires_grad else "frozen"
        described[name] = {"shape": list(tensor.shape), "type": dtype_name(tensor.dtype), "kind": kind}
    return described, first, tensors


def class_files(module: torch.nn.Module) -> dict[str, str]:
    files = {}
    for part in module.modules():
        kind = type(part)
        try:
            files[f"{kind.__module__}.{kind.__qualname__}"] = inspect.getsourcefile(kind) or ""
        except TypeError:
            pass
    return files


@dataclass
class Exported:
    model: Model
    program: torch.export.ExportedProgram
    exporter: Exporter
    state: dict[str, dict[str, Any]]
    first: dict[str, str]
    tensors: dict[str, torch.Tensor]
    outputs: list[tuple[str, Value]]
    nodes: list[Node]
    constants: dict[str, torch.Tensor]


def mutated(graph: torch.fx.Graph, fx: torch.fx.Node) -> bool:
    """Whether the program changes the tensor of a placeholder, by itself or as running statistics."""
    for user in fx.users:
        schema = getattr(user.target, "_schema", None)
        if schema is None:
            continue
        for i, argument in enumerate(schema.arguments):
            given = user.args[i] if i < len(user.args) else user.kwargs.get(argument.name)
            if given is fx and ((argument.alias_info is not None and argument.alias_info.is_write) or argument.name in ("running_mean", "running_var")):
                return True
    return False


def export(model: Model, reference: str) -> Exported:
    """The program as nodes. Ends with all operators that are refused."""
    model.module.cpu().train()
    state, first, tensors = state_of(model.module)
    avoid = {d for t in [*pytree.tree_leaves((model.args, model.kwargs))] if isinstance(t, torch.Tensor) for d in t.shape[1:]}
    samples = primes(avoid)
    program = export_program(model, samples, reference)
    exporter = Exporter(samples, class_files(model.module))
    exporter.state_names = set(state)
    names = iter(input_names(model.module, model.args, model.kwargs))
    signature = program.graph_signature
    kinds = torch.export.graph_signature.InputKind
    placeholders = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    given: list[tuple[Any, int | None]] = []
    exporter.inputs = []
    for spec in signature.input_specs:
        fx = placeholders.get(spec.arg.name)
        if spec.kind == kinds.USER_INPUT:
            name = next(names)
            if not isinstance(spec.arg, torch.export.graph_signature.TensorArgument):
                given.append((getattr(spec.arg, "value", None), None))
                continue
            fake = fx.meta["val"]
            if not isinstance(fake.shape[0], torch.SymInt) and fx.users:
                raise Mistake(f"{reference}: the model fixes the number of samples of input {name} ({fake.shape[0]}); "
                              "take it from x.shape[0], without int() or a comparison")
            value = Value((Samples(1),) + tuple(int(d) for d in fake.shape[1:]), fake.dtype, name=name)
            exporter.inputs.append(value)
            given.append((value, None))
        elif spec.kind == kinds.PARAMETER or (spec.kind == kinds.BUFFER and spec.target in state and mutated(program.graph, fx)):
            fake = fx.meta["val"]
            given.append((Value(tuple(int(d) for d in fake.shape), fake.dtype, name=first[spec.target]), None))
        elif spec.kind in (kinds.BUFFER, kinds.CONSTANT_TENSOR):
            held = program.state_dict.get(spec.target)
            held = program.constants.get(spec.target) if held is None else held
            given.append((Constant([held.detach().clone(), held.detach().clone()]), None))
        else:
            raise Mistake(f"{reference}: PyTorch gives the exported program an argument of kind {spec.kind}, which is not known here")
    outputs = exporter.run(program.graph_module, given)
    last = next(n for n in program.graph.nodes if n.op == "output")
    values = []
    for name, value in zip(model.outputs, outputs, strict=True):
        if isinstance(value, Constant):
            try:
                value = exporter.literal(value, last)
            except Refused as why:
                exporter.problems.append(("output", "", "", f"{name}: {why}"))
                continue
        values.append((name, value))
    if exporter.problems:
        refuse_all(exporter.problems, reference)
    if not values:
        raise Mistake(f"{reference}: the model returns no tensor")
    nodes, constants = exporter.finish([v for _, v in values])
    for text in model.left_out:
        note(f"left out of the outputs: {text}, which no loss uses")
    used = {v.name for n in nodes for v in tensors_in(list(n.inputs.values()))} | {v.name for _, v in values}
    unused = [n for n, s in state.items() if s.get("kind") == "parameter" and n not in used]
    if unused:
        note(f"{len(unused)} parameters are in no operator and are not trained: {', '.join(unused[:4])}{' …' if len(unused) > 4 else ''}")
    return Exported(model, program, exporter, state, first, tensors, values, nodes, constants)


def refuse_all(problems: list[tuple[str, str, str, str]], reference: str) -> NoReturn:
    groups: dict[tuple[str, str], list[str]] = {}
    for name, module, source, why in problems:
        groups.setdefault((name, why), []).append(f"{module or '(the model itself)'}{f', {source}' if source else ''}")
    lines = [f"{reference} has {len(problems)} operator{'s' if len(problems) > 1 else ''} that HetPipe cannot train:"]
    for (name, why), places in groups.items():
        lines.append(f"  {name}: {why}")
        lines += [f"    {p}" for p in places]
    raise Mistake("\n".join(lines))


# --------------------------------------------------------------------------------------------------------------------------- files


def plain_json(value: Any) -> Any:
    if isinstance(value, Samples):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, (list, tuple)):
        return [plain_json(v) for v in value]
    if isinstance(value, dict):
        return {k: plain_json(v) for k, v in value.items()}
    return value


def node_json(node: Node) -> dict[str, Any]:
    result = {"name": node.name, "op": node.op, "module": node.module, "source": node.source,
              "inputs": {k: each(v, str) for k, v in node.inputs.items()}, "attributes": node.attributes}
    if node.several:
        return result | {"shapes": node.shapes, "types": [dtype_name(t) for t in node.types]}
    return result | {"shape": node.shapes[0], "type": dtype_name(node.types[0])}


def graph_text(exported: Exported) -> str:
    """graph.json: one line for every input, tensor, constant and node."""
    line = lambda v: json.dumps(plain_json(v), ensure_ascii=False)
    tensor = lambda shape, kind: {"shape": list(shape), "type": dtype_name(kind)}

    def rows(items: list[str], ends: str) -> str:
        return ends[0] + "".join("\n  " + i + ("," if n + 1 < len(items) else "") for n, i in enumerate(items)) + ("\n " if items else "") + ends[1]
    keyed = lambda d: rows([f"{json.dumps(k)}: {line(v)}" for k, v in d.items()], "{}")
    parts = {
        "format": '"hetpipe-graph"', "version": str(VERSION), "name": json.dumps(exported.model.name),
        "producer": json.dumps(f"torch {torch.__version__.split('+')[0]}"),
        "inputs": rows([line({"name": v.name} | tensor(v.shape, v.type)) for v in exported.exporter.inputs], "[]"),
        "outputs": rows([line({"name": n, "value": str(v)}) for n, v in exported.outputs], "[]"),
        "state": keyed(exported.state),
        "constants": keyed({n: tensor(t.shape, t.dtype) for n, t in exported.constants.items()}),
        "nodes": rows([line(node_json(n)) for n in exported.nodes], "[]"),
    }
    return "{\n" + ",\n".join(f' "{k}": {v}' for k, v in parts.items()) + "\n}\n"


def write_tensors(tensors: dict[str, torch.Tensor], path: str, facts: dict[str, str] | None = None) -> None:
    """A safetensors file that may be read by whoever may read other new files here."""
    save_file(tensors, path, facts)
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


def write(exported: Exported, folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "graph.json"), "w", encoding="utf-8") as file:
            file.write(graph_text(exported))
        write_tensors({n: t.clone().contiguous() for n, t in exported.tensors.items()}, os.path.join(folder, "weights.safetensors"), {"format": "pt"})
        constants = os.path.join(folder, "constants.safetensors")
        if exported.constants:
            write_tensors(exported.constants, constants, {"format": "pt"})
        elif os.path.exists(constants):
            os.remove(constants)
    except OSError as error:
        raise Mistake(f"cannot write {folder}: {error.strerror or error}")


# ----------------------------------------------------------------------------------------------------------- PyTorch's own numbers

LOSSES = ("auto", "cross-entropy", "mse", "l1", "smooth-l1", "bce", "output")


def switch_dropout_off(exported: Exported) -> None:
    for fx, name, value in exported.exporter.edits:
        for i, argument in enumerate(fx.target._schema.arguments):
            if argument.name == name:  # of p, dropout, dropout_p, other and self, which in-place operators call the same
                if i < len(fx.args):
                    fx.update_arg(i, value)
                else:
                    fx.update_kwarg(name, value)


def in_double(module: torch.fx.GraphModule) -> None:
    """Every float32 that the program names becomes float64."""
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            for fx in list(part.graph.nodes):
                if fx.op == "call_function" and Exporter.operator_name(fx.target) == "_assert_tensor_metadata":
                    part.graph.erase_node(fx)
                    continue
                change = lambda a: torch.float64 if a is torch.float32 else a
                fx.args, fx.kwargs = pytree.tree_map(change, fx.args), pytree.tree_map(change, dict(fx.kwargs))
            part.recompile()


def loss_of(options: argparse.Namespace, outputs: Any, labels: torch.Tensor | None) -> torch.Tensor:
    """Of the first output, and with --auxiliary-weights of those that follow."""
    f = torch.nn.functional
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    if options.loss == "output":
        return outputs[0]
    weight = torch.tensor(options.class_weights, dtype=outputs[0].dtype) if options.class_weights else None
    chosen = {"ignore_index": options.ignore_index, "label_smoothing": options.label_smoothing, "weight": weight}

    def one(output: torch.Tensor) -> torch.Tensor:
        if options.loss == "cross-entropy":
            three = output.dim() == 3
            return f.cross_entropy(output.flatten(0, 1) if three else output, labels.flatten() if three else labels, **chosen)
        return {"mse": f.mse_loss, "l1": f.l1_loss, "smooth-l1": f.smooth_l1_loss,
                "bce": f.binary_cross_entropy_with_logits}[options.loss](output, labels)
    return one(outputs[0]) + sum(w * one(o) for w, o in zip(options.auxiliary_weights, outputs[1:]))


def random_labels(name: str, shape: list[int]) -> torch.Tensor:
    """Labels from a fixed generator. Classes lie along dimension 1, in outputs of three dimensions along the last."""
    generator = torch.Generator().manual_seed(1)
    if name == "cross-entropy":
        classes, rest = (shape[-1], shape[:-1]) if len(shape) == 3 else (shape[1], shape[:1] + shape[2:])
        return torch.randint(classes, rest, generator=generator)
    if name == "bce":
        return torch.randint(2, shape, generator=generator).float()
    return torch.randn(shape, generator=generator)


def reference_run(exported: Exported, batch: dict[str, torch.Tensor], options: argparse.Namespace, double: bool) -> dict[str, torch.Tensor]:
    """Loss, gradients, updated weights and buffers of PyTorch on the one minibatch."""
    module = exported.program.module(check_guards=False)
    if double:
        in_double(module)
        module.double()
    for held in (dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))).items():
        if held[0] in exported.tensors:
            held[1].data = exported.tensors[held[0]].clone().to(held[1].dtype)
    cast = lambda t: t.double() if double and t.is_floating_point() else t
    named = iter(input_names(exported.model.module, exported.model.args, exported.model.kwargs))
    given = lambda leaf: (lambda n: cast(batch[n]) if isinstance(leaf, torch.Tensor) else leaf)(next(named))
    args, kwargs = pytree.tree_map(given, exported.model.args), {k: pytree.tree_map(given, v) for k, v in exported.model.kwargs.items()}
    parameters: dict[str, torch.nn.Parameter] = {}
    for name, p in module.named_parameters(remove_duplicate=False):
        if exported.state[exported.first[name]].get("kind") == "parameter":
            parameters.setdefault(exported.first[name], p)
    labels = batch.get("labels")
    result: dict[str, torch.Tensor] = {}
    losses = []
    velocity = {n: torch.zeros_like(p) for n, p in parameters.items()}
    standard = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if double else standard)
    try:
        for step in range(options.steps):
            outputs = module(*args, **kwargs)
            value = loss_of(options, outputs, cast(labels) if labels is not None else None)
            losses.append(value.detach())
            for p in parameters.values():
                p.grad = None
            value.backward()
            with torch.no_grad():
                # The loss, which may be of the first output alone, may not depend on all parameters.
                parameters = {n: p for n, p in parameters.items() if p.grad is not None}
                for name, p in parameters.items():
                    if step == 0:
                        result[f"gradient/{name}"] = p.grad.clone()
                    velocity[name].mul_(options.momentum).add_(p.grad)
                    p.sub_(velocity[name], alpha=options.learning_rate)
    finally:
        torch.set_default_dtype(standard)
    result["loss"] = torch.stack(losses)
    for name, p in parameters.items():
        result[f"updated/{name}"] = p.detach().clone()
    buffers = dict(module.named_buffers(remove_duplicate=False))
    needed = needed_for_loss(exported, 1 + len(options.auxiliary_weights))
    for name in sorted(exported.exporter.changed & needed):
        result[f"updated/{name}"] = buffers[name].detach().clone()
    return {n: t.float().contiguous() for n, t in result.items()}


def needed_for_loss(exported: Exported, outputs: int) -> set[str]:
    """Names of everything that the first outputs depend on."""
    needed = {str(value).split(":")[0] for _, value in exported.outputs[:outputs]}
    for node in reversed(exported.nodes):
        if node.name in needed:
            needed |= {str(v).split(":")[0] for v in pytree.tree_leaves(node_json(node)["inputs"])}
    return needed


def check_batch(exported: Exported, options: argparse.Namespace) -> dict[str, torch.Tensor]:
    """The minibatch of the check: the example, with at least two samples, and labels. Settles which loss it is."""
    model = exported.model
    leaves = [t for t in pytree.tree_leaves((model.args, model.kwargs)) if isinstance(t, torch.Tensor)]
    count = max(2, leaves[0].shape[0])
    names = input_names(model.module, model.args, model.kwargs)
    batch = {n: with_samples(t, count).contiguous() for n, t in zip(names, pytree.tree_leaves((model.args, model.kwargs))) if isinstance(t, torch.Tensor)}
    shape = [d if isinstance(d, int) else d.factor * count for d in exported.outputs[0][1].shape]
    if options.loss == "auto":
        options.loss = "cross-entropy" if shape else "output"
    loss = options.loss
    if (loss == "output") != (not shape):
        what = "predictions, no single number" if shape else "one number, a loss of the model's own"
        raise Mistake(f"--loss {loss}: the first output, {exported.outputs[0][0]}, is {what}; choose another loss")
    if loss == "output":
        return batch
    if len(options.auxiliary_weights) > len(exported.outputs) - 1:
        raise Mistake(f"--auxiliary-weights: {len(options.auxiliary_weights)} weights, and the model has {len(exported.outputs)} outputs")
    if loss == "cross-entropy" and len(shape) not in (2, 3, 4):
        raise Mistake(f"--loss cross-entropy: the first output, {exported.outputs[0][0]}, has {len(shape)} dimensions; choose another loss")
    batch["labels"] = random_labels(loss, shape)
    if loss == "cross-entropy" and options.ignore_index != -100:  # asked for: every third label is ignored
        batch["labels"].view(-1)[::3] = options.ignore_index
    return batch


@dataclass
class Difference:
    """Between ours and PyTorch's numbers of one group of tensors, each relative to its largest element."""
    largest: float = 0.0
    where: str = ""
    own: float = 0.0  # of PyTorch's float32 to its float64
    rounding: list[str] = field(default_factory=list)  # tensors beyond the tolerance that hold nothing but rounding


def gap_of(a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor) -> float:
    return float((a.double() - b.double()).abs().max()) / max(float(scale.abs().max()), 1e-30) if a.numel() else 0.0


def difference(ours: dict[str, torch.Tensor], single: dict[str, torch.Tensor], double: dict[str, torch.Tensor], names: list[str], tolerance: float) -> Difference:
    """Gradients that ought to be zero (of a bias in front of a norm, of the keys' bias in attention) hold rounding alone. They are
    told by PyTorch itself: where its float32 is as far from its float64 as ours is, within a factor of four, nothing is wrong."""
    found = Difference()
    # What is a ten-millionth of the largest of all, or less, is zero but for rounding.
    least = 1e-7 * max((float(single[n].abs().max()) for n in names if single[n].numel()), default=0.0)
    for name in names:
        scale = single[name].abs().max().clamp_min(least) if single[name].numel() else single[name]
        gap, own = gap_of(ours[name], single[name], scale), gap_of(single[name], double[name], scale)
        if (gap > tolerance or own > 0.1) and gap_of(ours[name], double[name], scale) <= 4 * own:
            found.rounding.append(name)
            continue
        found.own = max(found.own, own)
        if not gap <= found.largest:
            found.largest, found.where = gap, name.partition("/")[2]
    return found


def groups_of(reference: dict[str, torch.Tensor], exported: Exported) -> dict[str, list[str]]:
    updated = [n for n in reference if n.startswith("updated/")]
    weights = [n for n in updated if exported.state[n.removeprefix("updated/")]["kind"] == "parameter"]
    groups = {"loss": ["loss"], "gradients": [n for n in reference if n.startswith("gradient/")], "updated weights": weights,
              "running statistics": [n for n in updated if n not in weights]}
    return {k: v for k, v in groups.items() if v}


def compare(exported: Exported, ours: dict[str, torch.Tensor], single: dict[str, torch.Tensor], double: dict[str, torch.Tensor], tolerance: float) -> bool:
    """Prints the differences; whether all are small enough."""
    missing = [n for n in single if n not in ours or ours[n].shape != single[n].shape]
    if missing:
        print(f"hetpipe gave no {', '.join(missing[:5])}{' …' if len(missing) > 5 else ''}")
        return False
    print(f"Largest difference to PyTorch in float32, relative to the largest element of the tensor (at most {tolerance:g}),\n"
          "and that of PyTorch's float32 to its float64:")
    right = True
    for name, tensors in groups_of(single, exported).items():
        found = difference(ours, single, double, tensors, tolerance)
        right &= found.largest <= tolerance
        print(f"  {name:<19}{found.largest:9.1e}{found.own:9.1e}  {'ok' if found.largest <= tolerance else 'TOO LARGE'}  {found.where}".rstrip())
        if found.rounding:
            print(f"    but for {len(found.rounding)} that hold rounding alone: {', '.join(n.partition('/')[2] for n in found.rounding[:3])}{' …' if len(found.rounding) > 3 else ''}")
    return right


def write_reference(single: dict[str, torch.Tensor], double: dict[str, torch.Tensor] | None, options: argparse.Namespace) -> None:
    """With --double the numbers are those of float64, and `error/NAME` is how far float32 is from each tensor at most."""
    written = dict(double or single)
    for name in double or {}:
        written[f"error/{name}"] = (single[name] - double[name]).abs().max() if single[name].numel() else torch.zeros(())
    settings = {"loss": options.loss, "learning_rate": str(options.learning_rate), "momentum": str(options.momentum), "steps": str(options.steps)}
    write_tensors(written, options.reference, settings)


def loss_arguments(options: argparse.Namespace) -> list[str]:
    """As options of hetpipe."""
    given = ["--loss", options.loss, "--label-smoothing", repr(options.label_smoothing), "--ignore-index", str(options.ignore_index)]
    for name, values in (("--class-weights", options.class_weights), ("--auxiliary-weights", options.auxiliary_weights)):
        given += [name, ",".join(map(repr, values))] if values else []
    return given


def check(exported: Exported, options: argparse.Namespace) -> int:
    """Writes the minibatch and PyTorch's numbers; runs `hetpipe check` and compares."""
    batch = check_batch(exported, options)
    batch_file = os.path.join(options.output, "check.safetensors")
    write_tensors(batch, batch_file, {"loss": options.loss})
    switch_dropout_off(exported)
    try:
        single = reference_run(exported, batch, options, False)
        double = reference_run(exported, batch, options, True) if options.check or options.double else None
    except (RuntimeError, IndexError, ValueError) as error:
        raise Mistake(f"PyTorch cannot run the exported model with loss {options.loss}: {type(error).__name__}: {str(error).splitlines()[0]}")
    if options.reference:
        write_reference(single, double if options.double else None, options)
    if not options.check:
        return 0
    command = shutil.which(options.hetpipe)
    if command is None:
        raise Mistake(f"--check: there is no {options.hetpipe}; put hetpipe on PATH or give --hetpipe PATH")
    with tempfile.TemporaryDirectory() as folder:
        results = os.path.join(folder, "result.safetensors")
        run = subprocess.run([command, "check", "--model", options.output, "--batch", batch_file, "--output", results, *loss_arguments(options),
                              "--learning-rate", repr(options.learning_rate), "--momentum", repr(options.momentum), "--steps", str(options.steps)])
        if run.returncode:
            raise Mistake(f"hetpipe check ended with exit code {run.returncode}")
        ours = load_file(results)
    return 0 if compare(exported, ours, single, double, options.tolerance) else 1


# ------------------------------------------------------------------------------------------------------------------------ command


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hetpipe_export.py", formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("model", metavar="FILE.py:FUNCTION", nargs="?", help="a function that returns (model, example_inputs)")
    parser.add_argument("--output", metavar="DIR", help="the folder to write")
    parser.add_argument("--name", help="the model's name (default: FUNCTION)")
    parser.add_argument("--check", action="store_true", help="train one minibatch in PyTorch and in HetPipe, and compare")
    numbers = lambda text: [float(x) for x in text.split(",")]
    parser.add_argument("--loss", choices=LOSSES, default="auto", help="of --check and --reference, as hetpipe train's; auto: cross-entropy, or the model's own")
    parser.add_argument("--label-smoothing", type=float, default=0.0, metavar="S", help="of cross-entropy")
    parser.add_argument("--ignore-index", type=int, default=-100, metavar="I", help="a label without a loss; every third label of the check is one where this is given")
    parser.add_argument("--class-weights", type=numbers, default=[], metavar="W,...", help="of cross-entropy, one for each class")
    parser.add_argument("--auxiliary-weights", type=numbers, default=[], metavar="W,...", help="of the losses of further outputs, in order")
    parser.add_argument("--hetpipe", metavar="PATH", default="hetpipe", help="the command for --check (default: on PATH)")
    parser.add_argument("--reference", metavar="FILE", help="write PyTorch's numbers of the check, as .safetensors")
    parser.add_argument("--double", action="store_true", help="write PyTorch's numbers in float64, and how far its float32 is from them")
    parser.add_argument("--steps", type=int, default=1, help="steps of SGD on the one minibatch (default: 1)")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--tolerance", type=float, default=1e-4, help="largest relative difference that --check accepts (default: 1e-4)")
    parser.add_argument("--operators", action="store_true", help="list the supported operators and stop")
    options = parser.parse_args(arguments)
    if not options.operators and not (options.model and options.output):
        parser.error("give FILE.py:FUNCTION and --output DIR")
    if options.steps < 1:
        parser.error("--steps: at least 1")
    return options


def main(arguments_: list[str]) -> int:
    options = options_of(arguments_)
    if options.operators:
        for name in sorted(SUPPORTED):
            print(f"{name:<34}{SUPPORTED[name]}".rstrip())
        return 0
    try:
        module, example, function = load(options.model)
        args, kwargs = arguments(example, options.model)
        name = options.name or function
        if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
            raise Mistake(f"--name {name}: letters, digits, '.', '_' and '-' alone")
        exported = export(Model(name, module, args, kwargs), options.model)
        write(exported, options.output)
        parameters = sum(math.prod(s["shape"]) for s in exported.state.values() if s.get("kind") == "parameter")
        print(f"{options.output}: {name}, {len(exported.nodes)} nodes, {parameters} parameters, {len(exported.constants)} constants")
        return check(exported, options) if options.check or options.reference else 0
    except Mistake as mistake:
        note(str(mistake))
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
