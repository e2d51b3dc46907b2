# SPDX-License-Identifier: Apache-2.0
"""Modules of PyTorch for five of the built-in models, with the names that `hetpipe checkpoint export` writes.

  python3 pytorch_zoo.py MODEL EXPORTED.npz DATA    loads the file (strict=True) and evaluates it on DATA's test split
  python3 pytorch_zoo.py MODEL --names              prints names and shapes of the module's state_dict

DATA: a folder of IDX files of 28 x 28 grey images in 10 classes, or text:FILE,T=64. Of bert-tiny the masked tokens are
predicted, those of HetPipe's own evaluations (docs/data.md). Deep ResNets, VGG and Inception-v3 have torchvision's names, and its
models load them. Tried with PyTorch 2.15."""
import gzip
import os
import struct
import sys

import numpy as np
import torch
import torchvision
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from sample_order import M64, permuted, philox, random_key


class LenetBn(nn.Module):
    def __init__(self, channels, classes, side):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, 16, 5, padding=2, bias=False), nn.BatchNorm2d(16)
        self.conv2, self.bn2 = nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.linear1, self.bn3 = nn.Linear(32 * (side // 4) ** 2, 128, bias=False), nn.BatchNorm1d(128)
        self.linear2 = nn.Linear(128, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        x = F.relu(self.bn3(self.linear1(x.flatten(1))))
        return self.linear2(x)


def of_torchvision(build, channels, classes):
    model = build(num_classes=classes)
    model.conv1 = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
    return model


class Attention(nn.Module):
    def __init__(self, d, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (y.view(n, t, self.heads, d // self.heads).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.proj(y.transpose(1, 2).reshape(n, t, d))


class Mlp(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc, self.proj = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        return self.proj(F.gelu(self.fc(x), approximate="tanh"))


class Gpt2Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.ln1, self.attn, self.ln2, self.mlp = nn.LayerNorm(d), Attention(d, heads, True), nn.LayerNorm(d), Mlp(d)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Gpt2(nn.Module):
    def __init__(self, vocabulary, positions, d=64, heads=4, layers=4):
        super().__init__()
        self.wte, self.wpe, self.ln = nn.Embedding(vocabulary, d), nn.Embedding(positions, d), nn.LayerNorm(d)
        self.layers = layers
        for i in range(layers):
            self.add_module(f"h{i}", Gpt2Block(d, heads))

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for i in range(self.layers):
            x = getattr(self, f"h{i}")(x)
        return self.ln(x) @ self.wte.weight.T


class BertBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.attn, self.mlp = Attention(d, heads, False), Mlp(d)
        self.attn.ln, self.mlp.ln = nn.LayerNorm(d, eps=1e-12), nn.LayerNorm(d, eps=1e-12)

    def forward(self, x):
        x = self.attn.ln(x + self.attn(x))
        return self.mlp.ln(x + self.mlp(x))


class Bert(nn.Module):
    def __init__(self, vocabulary, positions, d=64, heads=4, layers=2):
        super().__init__()
        self.words, self.positions, self.ln = nn.Embedding(vocabulary, d), nn.Embedding(positions, d), nn.LayerNorm(d, eps=1e-12)
        self.layers = layers
        for i in range(layers):
            self.add_module(f"h{i}", BertBlock(d, heads))
        self.head = nn.Module()
        self.head.dense, self.head.ln = nn.Linear(d, d), nn.LayerNorm(d, eps=1e-12)
        self.head.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens):
        x = self.ln(self.words(tokens) + self.positions.weight[:tokens.shape[1]])
        for i in range(self.layers):
            x = getattr(self, f"h{i}")(x)
        x = self.head.ln(F.gelu(self.head.dense(x), approximate="tanh"))
        return x @ self.words.weight.T + self.head.bias


def image_model(name):
    return {"lenet-bn": lambda: LenetBn(1, 10, 28),
            "resnet-18": lambda: of_torchvision(torchvision.models.resnet18, 1, 10),
            "resnet-50": lambda: of_torchvision(torchvision.models.resnet50, 1, 10)}[name]()


def text_model(name, vocabulary, positions):
    return {"gpt2-tiny": Gpt2, "bert-tiny": Bert}[name](vocabulary, positions)


def read_idx(path):
    zipped = os.path.exists(path + ".gz")
    with gzip.open(path + ".gz") if zipped else open(path, "rb") as file:
        data = file.read()
    rank = data[3]
    shape = struct.unpack(f">{rank}I", data[4:4 + 4 * rank])
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape).copy())


def images(folder):
    x = read_idx(folder + "/t10k-images-idx3-ubyte").float() / 255
    return x[:, None], read_idx(folder + "/t10k-labels-idx1-ubyte").long()


def text(spec):
    path, length = spec.removeprefix("text:").rsplit(",T=", 1)
    length = int(length)
    vocabulary, tokens = np.unique(np.fromfile(path, np.uint8), return_inverse=True)
    test = torch.from_numpy(tokens[len(tokens) * 9 // 10:].astype(np.int64))
    count = (len(test) - 1) // length * length
    return len(vocabulary), length, test[:count].view(-1, length), test[1:count + 1].view(-1, length)


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & M64
    return value


def masked(tokens, mask):
    """What evaluations hide of samples (N, T), and as labels the tokens that they hid, elsewhere -100."""
    x, y = tokens.clone(), torch.full_like(tokens, -100)
    length = tokens.shape[1]
    for i in range(len(tokens)):
        key = random_key(0, fnv1a("masked tokens"), 0, i)
        uniform = lambda n: np.float32((philox(key, (n // 4, 0, 0, 0))[n % 4] >> 8) / 2**24)
        for j in range(max(1, (15 * length + 50) // 100)):
            place = permuted(key, length, j)
            y[i, place] = tokens[i, place]
            if uniform(2 * j) < np.float32(0.8):
                x[i, place] = mask
            elif uniform(2 * j) < np.float32(0.9):
                x[i, place] = int(np.float32(uniform(2 * j + 1) * np.float32(mask)))
    return x, y


def main():
    name, file, *data = sys.argv[1:]
    if file == "--names":
        model = text_model(name, 66 if name == "bert-tiny" else 65, 64) if name.endswith("-tiny") else image_model(name)
        for key, tensor in model.state_dict().items():
            print(key, list(tensor.shape))
        return
    if data[0].startswith("text:"):
        vocabulary, length, x, y = text(data[0])
        if name == "bert-tiny":
            x, y = masked(x, vocabulary)
            vocabulary += 1  # the mask
        model = text_model(name, vocabulary, length)
    else:
        x, y = images(data[0])
        model = image_model(name)
    model.load_state_dict({k: torch.from_numpy(v) for k, v in np.load(file).items()}, strict=True)
    model.eval()
    with torch.no_grad():
        out = torch.cat([model(batch) for batch in x.split(50)])
    right = (out.argmax(-1) == y).sum().item()
    loss = F.cross_entropy(out.flatten(0, -2), y.flatten()).item()  # leaves -100 out
    print(f"{name}: test loss {loss:.4f}, {right} of {(y != -100).sum().item()} right")


main()
