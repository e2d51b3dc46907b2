# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of the tables cpu-step and gpu-step: the zoo's networks at PyTorch's best, driven line by line.

On standard input: "run N" answers the seconds of N training steps (forward, backward, update), to the end of the last;
"memory" the bytes that its allocator had in use on a GPU at the peak of the last run; "profile N" the operators that took the time of N
steps; "quit" ends. What is done for it: channels-last images and model, in-place ReLU and add, fused optimizers,
gradients set to None, fused attention; on GPUs cuDNN's search for the fastest algorithms, TF32 or bf16 by autocast with
fp32 parameters, samples that lie on the device. Only the benchmarks need Python.
"""
import argparse
import contextlib
import sys
import time

import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

import torch_models


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--sample", required=True, help="HxWxC, or T tokens")
    parser.add_argument("--classes", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--optimizer", choices=["sgd-momentum", "adam"], default="sgd-momentum")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="fp32")
    parser.add_argument("--mode", default="eager", help="eager, or a mode of torch.compile")
    return parser.parse_args()


def samples(sample, classes, batch, device):
    """Made up, in PyTorch's layout; labels (N) or (N*T)."""
    if len(sample) == 1:
        tokens = torch.randint(classes, (batch, sample[0]), device=device)
        return tokens, torch.arange(batch * sample[0], device=device) % classes
    h, w, c = sample
    images = torch.rand(batch, c, h, w, device=device).contiguous(memory_format=torch.channels_last)
    return images, torch.arange(batch, device=device) % classes


def forward_flops(name, sample, classes):
    """Of the products of one sample's forward; on shapes alone, of two: batch norm refuses a single pixel."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        torch_models.make(name, sample, classes)(samples(sample, classes, 2, "meta")[0])
    return counter.get_total_flops() // 2


def make_step(options, model, inputs, labels):
    if options.optimizer == "adam":
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    bf16 = options.precision == "bf16"

    def loss():
        with torch.autocast(options.device, torch.bfloat16) if bf16 else contextlib.nullcontext():
            return F.cross_entropy(model(inputs), labels)

    if options.mode != "eager":
        loss = torch.compile(loss, mode=options.mode)

    def step():
        optimizer.zero_grad(set_to_none=True)
        if options.mode == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        loss().backward()
        optimizer.step()

    return step


def answer(options, step):
    cuda = options.device == "cuda"
    wait = torch.cuda.synchronize if cuda else lambda: None
    for line in sys.stdin:
        words = line.split()
        if words[0] == "quit":
            return
        if words[0] == "memory":
            print(torch.cuda.max_memory_allocated() if cuda else 0, flush=True)
            continue
        count = int(words[1])
        if words[0] == "run":
            wait()
            if cuda:  # without what cuDNN's search and compiling took
                torch.cuda.reset_peak_memory_stats()
            start = time.perf_counter()
            for _ in range(count):
                step()
            wait()
            print(f"{time.perf_counter() - start:.9f}", flush=True)
        elif words[0] == "profile":
            kinds = [torch.profiler.ProfilerActivity.CUDA if cuda else torch.profiler.ProfilerActivity.CPU]
            with torch.profiler.profile(activities=kinds) as profile:
                for _ in range(count):
                    step()
                wait()
            for event in profile.key_averages():
                spent = event.self_device_time_total if cuda else event.self_cpu_time_total
                print(event.key.replace(" ", "_"), f"{spent * 1e-6 / count:.9f}")
            print("end", flush=True)


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = options.precision != "fp32"
    torch.set_float32_matmul_precision("highest" if options.precision == "fp32" else "high")
    sample = [int(extent) for extent in options.sample.split("x")]
    model = torch_models.make(options.model, sample, options.classes).to(options.device, memory_format=torch.channels_last)
    inputs, labels = samples(sample, options.classes, options.batch, options.device)
    step = make_step(options, model, inputs, labels)
    print("ready", sum(p.numel() for p in model.parameters()), forward_flops(options.model, sample, options.classes),
          "PyTorch", torch.__version__, flush=True)
    answer(options, step)


if __name__ == "__main__":
    main()
