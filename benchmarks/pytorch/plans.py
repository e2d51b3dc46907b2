# SPDX-License-Identifier: Apache-2.0
"""Plans for exported transformers on the pools of cluster-configs: what the default planner does, and other plans beside it.

  python3 benchmarks/pytorch/plans.py --hetpipe build/release/bin/hetpipe [NAME ...]

Times are estimated (hetpipe profile --estimate); on emulated pools gpt2_256 is measured on this machine's CPU. A pool on which nothing
fits has no row. Needs torch, transformers, safetensors.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import tomllib
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "docs", "example"))
from pytorch_models import Example, text, tokens  # noqa: E402


def gpt2(tokens_of: int, **config: Any) -> Example:
    """Its word embedding is its head's weight too."""
    from transformers import GPT2Config
    config = GPT2Config(n_positions=tokens_of, bos_token_id=0, eos_token_id=0, **config)
    return text("GPT2LMHeadModel", config, input_ids=tokens(tokens_of, config.vocab_size))


def gpt2_256() -> Example:
    return gpt2(128, n_embd=256, n_layer=12, n_head=4, vocab_size=2000)


def gpt2_124m() -> Example:
    return gpt2(1024)


def llama(layers: int) -> Example:
    from transformers import LlamaConfig
    config = LlamaConfig(vocab_size=2000, hidden_size=256, num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2,
                         intermediate_size=512, max_position_embeddings=128)
    return text("LlamaForCausalLM", config, input_ids=tokens(128, 2000))


def llama_4() -> Example:
    """216 nodes, 64 layers."""
    return llama(4)


def llama_14() -> Example:
    """736 nodes, 214 layers."""
    return llama(14)


NAMES = ["gpt2_256", "gpt2_124m", "llama_4", "llama_14"]
OPTIONS = {"gpt2_124m": ["--minibatch", "4"]}  # its activations fill a GPU with 8 samples


def devices_of(pool: str) -> int:
    count = 0
    with open(pool, "rb") as file:
        for node in tomllib.load(file)["node"]:
            span = re.search(r"\[(\d+)-(\d+)\]", node["name"])
            count += len(node["devices"]) * (int(span[2]) - int(span[1]) + 1 if span else 1)
    return count


def plan(options: argparse.Namespace, pool: str, profile: str, *more: str) -> tuple[dict[str, Any] | None, float]:
    """The plan, and the seconds of CPU time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    run = subprocess.run([options.hetpipe, "plan", "--cluster", pool, "--profile", profile, "--output", profile + ".plan", "--json", *more],
                         capture_output=True, text=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    return (json.loads(run.stdout) if run.returncode == 0 else None), seconds


def said(of: dict[str, Any] | None) -> str:
    return f"{of['predicted']['throughput']:.4g}" if of else "-"


def shape(of: dict[str, Any]) -> str:
    lengths = [len(worker["stage"]) for worker in of["virtual_worker"]]
    return f"{len(lengths)} of {' or '.join(str(n) for n in sorted(set(lengths)))}, Nm = {of['in_flight']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--hetpipe", default="hetpipe")
    parser.add_argument("--pools", nargs="*", help="names of cluster-configs; default: all but the one of 1,024 GPUs")
    options = parser.parse_args()
    configs = os.path.join(ROOT, "cluster-configs")
    pools = options.pools or sorted(f[:-5] for f in os.listdir(configs) if f.endswith(".toml") and "1024" not in f)
    for name in options.names:
        with tempfile.TemporaryDirectory() as folder:
            exporter = os.path.join(ROOT, "launch", "pytorch", "hetpipe_export.py")
            subprocess.run([sys.executable, exporter, f"{os.path.abspath(__file__)}:{name}", "--output", f"{folder}/model"], check=True, stdout=subprocess.DEVNULL)
            profiles = {"": f"{folder}/estimated.toml"}
            subprocess.run([options.hetpipe, "profile", "--model", f"{folder}/model", "--estimate", "--output", profiles[""]], check=True, stdout=subprocess.DEVNULL)
            if name == "gpt2_256":
                profiles["emulated"] = f"{folder}/measured.toml"
                subprocess.run([options.hetpipe, "profile", "--model", f"{folder}/model", "--minibatch", "2,8,32", "--output", profiles["emulated"]], check=True, stdout=subprocess.DEVNULL)
            print(f"\n{name}\n\n| pool | GPUs | default plan: virtual workers of stages | samples/s | planned in, CPU s | data parallelism | one stage each, servers | search, hetpipe | seconds |\n"
                  "|---|---|---|---|---|---|---|---|---|")
            for of in pools:
                pool = os.path.join(configs, of + ".toml")
                with open(pool) as file:
                    emulated = "emulate =" in file.read()
                if emulated and "emulated" not in profiles:
                    continue
                profile = profiles["emulated" if emulated else ""]
                count = devices_of(pool)
                more = OPTIONS.get(name, [])
                usual, seconds = plan(options, pool, profile, *more)
                if usual is None:
                    continue
                each = int(more[1]) if more else 32
                flat = [plan(options, pool, profile, "--system", "data-parallel", *wanted)[0] for wanted in ([], ["--minibatch", str(count * each)])]
                flat = max((p for p in flat if p), key=lambda p: p["predicted"]["throughput"], default=None)
                single = plan(options, pool, profile, "--virtual-workers", str(count), *more)[0]
                searched, long = plan(options, pool, profile, "--policy", "search", "--system", "hetpipe", *more)
                print(f"| {of} | {count} | {shape(usual)} | {said(usual)} | {seconds:.2f} | {said(flat)} | {said(single)} | "
                      f"{said(searched)} ({shape(searched) if searched else '-'}) | {long:.2f} |", flush=True)


if __name__ == "__main__":
    main()
