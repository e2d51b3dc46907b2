# SPDX-License-Identifier: Apache-2.0
"""PipeDream's published optimizer and ours on the same profiles, in turns; prints a table.

pipedream_published.py CHECKOUT OURS PROFILES RAW.json
  CHECKOUT  a checkout of github.com/msr-fiddle/pipedream (its Python needs numpy)
  OURS      build/release/bin/bench_pipedream_optimizer
  PROFILES  a folder with vgg16.txt, alexnet.txt, resnet50.txt, resnet101.txt, gnmt.txt
Both sides are timed from the profile's file to the cut, warm: start of the program and imports left out,
and ours, a process of its own each time, has done the same once before.
"""
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import time
import types

CASES = [
    ("vgg16", [(4, 1e9)]),
    ("vgg16", [(16, 1.25e9)]),
    ("vgg16", [(4, 1e10), (4, 1.25e9)]),
    ("alexnet", [(16, 1.25e9)]),
    ("resnet50", [(16, 1.25e9)]),
    ("resnet101", [(16, 1.25e9)]),
    ("gnmt", [(16, 1.25e9)]),
    ("gnmt", [(4, 1e10), (4, 1.25e9)]),
]


def published(optimizer, profile, levels):
    start, worked = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        objective, _ = optimizer.main([g for g, _ in levels], profile, [b for _, b in levels], 16e9,
                                      False, False, False, 1.0, None, False, False)
    return objective, time.perf_counter() - start, time.process_time() - worked


def ours(program, profile, levels):
    words = [program, profile] + [f"{v:.17g}" for level in levels for v in level]
    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return [float(word) for word in out.split()]


def spread(ratios):
    return f"{statistics.median(ratios):.0f} ({min(ratios):.0f} .. {max(ratios):.0f})"


def main(checkout, program, profiles, raw):
    os.chdir(os.path.join(checkout, "optimizer"))
    sys.path.insert(0, os.getcwd())
    sys.modules.setdefault("graphviz", types.ModuleType("graphviz"))  # it only draws
    import optimizer_graph_hierarchical as optimizer
    # Values that its command line sets as globals of the module.
    optimizer.straight_pipeline = False
    optimizer.use_memory_constraint = False
    optimizer.use_fewer_machines = False
    optimizer.activation_compression_ratio = 1.0  # transfers of activations count
    optimizer.memory_size = 16e9
    rounds = int(os.environ.get("REPETITIONS", "5"))
    values = {}
    print("| profile | devices | published, objective s | ours, s | published, time s | ours, ms | ratio | of CPU time |")
    print("|---|---|---|---|---|---|---|---|")
    for model, levels in CASES[:int(os.environ.get("CASES", len(CASES)))]:
        profile = os.path.join(profiles, model + ".txt")
        theirs, mine = [], []  # (objective, seconds, CPU seconds) of each round
        for _ in range(rounds):
            theirs.append(published(optimizer, profile, levels))
            mine.append(ours(program, profile, levels))
        devices = " x ".join(f"{g} at {b / 1e9:g} GB/s" for g, b in levels)
        values[f"{model} {devices}"] = {"columns": ["objective", "seconds", "cpu seconds"],
                                        "published": theirs, "ours": mine}
        wall, cpu = ([a[i] / b[i] for a, b in zip(theirs, mine)] for i in (1, 2))
        print(f"| {model} | {devices} | {theirs[0][0]:.9f} | {mine[0][0]:.9f} | "
              f"{statistics.median(t[1] for t in theirs):.3f} | "
              f"{1e3 * statistics.median(t[1] for t in mine):.2f} | {spread(wall)} | {spread(cpu)} |",
              flush=True)
    with open(raw, "w", encoding="utf-8") as out:
        json.dump(values, out, indent=1)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*(os.path.abspath(a) for a in sys.argv[1:]))
