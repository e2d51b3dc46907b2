#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images per second of hetpipe data speed beside PyTorch's DataLoader with torchvision, in turns: data_speed.py HETPIPE [--threads N] [--rounds N].

Both decode JPEGs of 500 x 375 pixels, crop and resize them at random to 224 x 224 and mirror half of them. PyTorch's loader has as many
worker processes as HetPipe has threads, without the conversion to floats, which HetPipe leaves to the device."""
import argparse
import os
import re
import subprocess
import tempfile
import time

import numpy
import torch
import torchvision
from PIL import Image
from torchvision import transforms


def make_images(folder, count):
    draw = numpy.random.default_rng(1)
    for n in range(count):
        place = os.path.join(folder, "train", f"class{n % 4}")
        os.makedirs(place, exist_ok=True)
        # Coarse shapes, finer ones on them, and grain: files of about 60 kB, as photographs have.
        picture = sum(
            size * numpy.asarray(Image.fromarray(draw.integers(0, 256, (rows, rows * 4 // 3, 3), dtype=numpy.uint8)).resize((500, 375), Image.BICUBIC), dtype=float)
            for rows, size in ((6, 0.5), (24, 0.3), (96, 0.2))
        ) + draw.normal(0, 4, (375, 500, 3))
        Image.fromarray(picture.clip(0, 255).astype(numpy.uint8)).save(os.path.join(place, f"{n:05}.jpg"), quality=90)


def of_pytorch(folder, threads, seconds):
    torch.set_num_threads(1)
    steps = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.PILToTensor()])
    data = torchvision.datasets.ImageFolder(os.path.join(folder, "train"), steps)
    loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True, num_workers=threads, persistent_workers=True, prefetch_factor=4)
    count, start = 0, None
    while start is None or time.monotonic() - start < seconds:
        for images, _ in loader:
            if start is None:  # the first minibatches were made while the processes started
                count -= 8 * len(images)
                start = time.monotonic()
            count += len(images)
    return count / (time.monotonic() - start)


def of_hetpipe(program, folder, threads, seconds):
    said = subprocess.run(
        [program, "data", "speed", "--data", folder, "--train-transforms", "RandomResizedCrop(224), RandomHorizontalFlip", "--data-threads", str(threads),
         "--seconds", str(seconds)], check=True, capture_output=True, text=True).stdout
    return float(re.match(r"(\d+) samples/s", said)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hetpipe")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_images(folder, 800)
        sizes = [os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(folder) for f in files]
        print(f"{len(sizes)} files of {sum(sizes) / len(sizes) / 1e3:.0f} kB; torch {torch.__version__}, torchvision {torchvision.__version__}, "
              f"Pillow {Image.__version__}; {given.threads} threads or worker processes")
        print("| round | HetPipe, images/s | PyTorch, images/s | ratio |\n|---|---|---|---|")
        for n in range(given.rounds):
            own, peer = of_hetpipe(given.hetpipe, folder, given.threads, given.seconds), of_pytorch(folder, given.threads, given.seconds)
            print(f"| {n + 1} | {own:.0f} | {peer:.0f} | {own / peer:.2f} |", flush=True)


if __name__ == "__main__":
    main()
