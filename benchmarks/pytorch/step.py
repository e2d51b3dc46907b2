# SPDX-License-Identifier: Apache-2.0
"""Times a training step of exported models beside PyTorch's eager one, in turns, on the same CPU threads or GPU.

  python3 benchmarks/pytorch/step.py --hetpipe build/release/bin/hetpipe [--threads 1] [--rounds 3] [NAME ...]
  python3 benchmarks/pytorch/step.py --hetpipe ... --device cuda [--precision bf16] [NAME ...]

Needs torch, torchvision, transformers, safetensors. A step is forward, backward and SGD with momentum, dropout off, batch norm
in training mode. Every round runs both, HetPipe first; the figure of each is the fastest step of all rounds, the spread that of
the rounds. PyTorch runs with its default memory format and with channels_last, and the faster one counts. On a GPU models have
their usual width, PyTorch's bf16 is autocast's, and a step includes the way of the minibatch to the card on both sides.
"""
from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def resnet50():
    import torchvision
    return torchvision.models.resnet50(num_classes=100), (torch.randn(4, 3, 128, 128),)


def mobilenet_v2():
    import torchvision
    return torchvision.models.mobilenet_v2(num_classes=100), (torch.randn(8, 3, 128, 128),)


def vit_b_16():
    import torchvision
    return torchvision.models.vit_b_16(num_classes=100), (torch.randn(2, 3, 224, 224),)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(vocab_size=2000, n_positions=256, n_embd=256, n_layer=12, n_head=8, use_cache=False)
    return GPT2LMHeadModel(config), (torch.randint(2000, (4, 128)),)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(vocab_size=2000, hidden_size=256, intermediate_size=688, num_hidden_layers=6, num_attention_heads=8,
                         num_key_value_heads=4, max_position_embeddings=256, use_cache=False)
    return LlamaForCausalLM(config), (torch.randint(2000, (4, 128)),)


def unet():
    sys.path.insert(0, os.path.join(ROOT, "docs", "example"))
    import pytorch_models
    model, _ = pytorch_models.unet()
    return model, (torch.randn(4, 3, 128, 128),)


MODELS = [resnet50, mobilenet_v2, vit_b_16, gpt2, unet, llama]


def on_gpu(build):
    """The same networks as a GPU trains them: of their usual width, more samples."""
    import torchvision
    name = build.__name__
    if name == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel
        return GPT2LMHeadModel(GPT2Config(use_cache=False)), (torch.randint(50257, (8, 1024)),)
    if name == "llama":
        from transformers import LlamaConfig, LlamaForCausalLM
        config = LlamaConfig(vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
                             num_key_value_heads=4, max_position_embeddings=1024, use_cache=False)
        return LlamaForCausalLM(config), (torch.randint(32000, (8, 1024)),)
    if name == "unet":
        return build()[0], (torch.randn(32, 3, 256, 256),)
    return getattr(torchvision.models, name)(), (torch.randn(64, 3, 224, 224),)


def without_dropout(model: nn.Module) -> nn.Module:
    """Nothing is left to chance: neither dropout nor stochastic depth."""
    for part in model.modules():
        if isinstance(part, (nn.Dropout, nn.Dropout2d)):
            part.p = 0.0
        if type(part).__name__ == "StochasticDepth":  # torchvision's
            part.p = 0.0
        for name in ("attention_dropout", "dropout", "drop_prob"):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)
    return model.train()


def first_output(outputs) -> torch.Tensor:
    if isinstance(outputs, torch.Tensor):
        return outputs
    return outputs.logits if hasattr(outputs, "logits") else next(iter(outputs.values())) if isinstance(outputs, dict) else outputs[0]


def export(build, folder: str, output: str, gpu: bool = False) -> None:
    """The model of one of these functions, dropout off, as a folder; `folder` takes what that needs."""
    made = f"step.on_gpu(step.{build.__name__})" if gpu else f"step.{build.__name__}()"
    path = os.path.join(folder, "model.py")
    with open(path, "w") as file:
        file.write(f"import sys, torch\nsys.path.insert(0, {HERE!r})\nimport step\n"
                   f"def {build.__name__}():\n    torch.manual_seed(0)\n    m, i = {made}\n"
                   "    return step.without_dropout(m), i\n")
    exporter = os.path.join(ROOT, "launch", "pytorch", "hetpipe_export.py")
    subprocess.run([sys.executable, exporter, f"{path}:{build.__name__}", "--output", output], check=True, stdout=subprocess.DEVNULL)


def torch_step(model: nn.Module, inputs: tuple, labels: torch.Tensor, seconds: float, device: str, precision: str) -> float:
    bf16 = precision == "bf16"
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    fastest, until = float("inf"), time.perf_counter() + seconds
    steps = 0
    while steps < 4 or time.perf_counter() < until:
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            output = first_output(model(*(i.to(device) for i in inputs)))
            output = output.flatten(0, 1) if output.dim() == 3 else output
            loss = nn.functional.cross_entropy(output, labels.to(device))
        loss.backward()
        optimizer.step()
        loss.item()
        took = time.perf_counter() - begin
        fastest = min(fastest, took) if steps > 1 else fastest
        steps += 1
    return fastest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--hetpipe", default="hetpipe")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4, help="of each turn")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="fp32")
    options = parser.parse_args()
    gpu = options.device == "cuda"
    torch.set_num_threads(options.threads)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = options.precision != "fp32"
    where = f"{torch.cuda.get_device_name()}, {options.precision}" if gpu else f"{options.threads} thread(s)"
    print(f"PyTorch {torch.__version__}, {where}")
    for build in MODELS:
        if options.names and build.__name__ not in options.names:
            continue
        torch.manual_seed(0)
        model, inputs = on_gpu(build) if gpu else build()
        model = without_dropout(model).to(options.device)
        with tempfile.TemporaryDirectory() as folder:
            from safetensors.torch import save_file
            export(build, folder, f"{folder}/m", gpu)
            with torch.no_grad():
                output = first_output(model(*(i.to(options.device) for i in inputs)))
            classes = output.shape[-1] if output.dim() < 4 else output.shape[1]
            shape = output.shape[:-1] if output.dim() < 4 else (output.shape[0], *output.shape[2:])
            labels = torch.randint(classes, shape)
            import json
            with open(f"{folder}/m/graph.json") as file:
                name = json.load(file)["inputs"][0]["name"]
            save_file({name: inputs[0].contiguous(), "labels": labels}, f"{folder}/batch.safetensors")
            ours, theirs, formats = [], [], {}
            image = inputs[0].dim() == 4
            labels = labels.flatten() if output.dim() == 3 else labels
            steps = 6
            for _ in range(options.rounds):
                text = subprocess.run([options.hetpipe, "check", "--model", f"{folder}/m", "--batch", f"{folder}/batch.safetensors",
                                       "--steps", str(steps), "--threads", str(options.threads), "--learning-rate", "0.001",
                                       "--device", options.device, "--precision", options.precision],
                                      check=True, capture_output=True, text=True).stdout
                value, unit = re.search(r"fastest step ([\d.]+) (\w+)", text).groups()
                ours.append(float(value) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit])
                steps = max(6, int(options.seconds / ours[-1]))
                turn = []
                for channels_last in ([False, True] if image else [False]):
                    memory = torch.channels_last if channels_last else torch.contiguous_format
                    moved = model.to(memory_format=memory) if image else model
                    data = tuple(i.to(memory_format=memory) if image else i for i in inputs)
                    turn.append(torch_step(moved, data, labels, options.seconds, options.device, options.precision))
                formats[turn.index(min(turn))] = formats.get(turn.index(min(turn)), 0) + 1
                theirs.append(min(turn))
            spread = lambda times: f"{min(times) * 1e3:8.1f} ({max(times) / min(times) - 1:4.0%})"
            print(f"{build.__name__:14} HetPipe {spread(ours)} ms   PyTorch {spread(theirs)} ms   ratio {min(ours) / min(theirs):.2f}", flush=True)


if __name__ == "__main__":
    main()
