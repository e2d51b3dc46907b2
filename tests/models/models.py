# SPDX-License-Identifier: Apache-2.0
"""Small networks whose exports are test data: together they use most operators.

  for m in cnn unet gpt2 llama bert swin tagger seq2seq parts; do
    python3 launch/pytorch/hetpipe_export.py tests/models/models.py:$m --output tests/models/$m --steps 3 --reference tests/models/$m/reference.safetensors
  done
  python3 launch/pytorch/hetpipe_export.py tests/models/models.py:own_loss --output tests/models/own_loss --steps 3 --reference tests/models/own_loss/reference.safetensors
  python3 launch/pytorch/hetpipe_export.py tests/models/models.py:counts --output tests/models/counts
  python3 launch/pytorch/hetpipe_export.py tests/models/models.py:two_heads --output tests/models/two_heads --steps 3 --reference tests/models/two_heads/reference.safetensors \
    --ignore-index 2 --class-weights 1,2,1,3 --label-smoothing 0.1 --auxiliary-weights 0.4

Each folder then holds the graph, the weights, a minibatch (check.safetensors) and PyTorch's loss, gradients, and weights and
buffers after three steps (reference.safetensors). Tests compare with these; they need no Python.
"""
import torch
from torch import nn
from torch.nn import functional as F


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.down = nn.Conv2d(channels, 4, 1)
        self.up = nn.Conv2d(4, channels, 1)

    def forward(self, x):
        s = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.up(F.silu(self.down(s))))


class Inverted(nn.Module):
    """Expansion, depthwise convolution, squeeze and excitation, projection, stochastic depth."""

    def __init__(self, channels: int):
        super().__init__()
        from torchvision.ops import StochasticDepth
        wide = 2 * channels
        self.expand = nn.Sequential(nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6())
        self.depthwise = nn.Sequential(nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.Hardswish())
        self.excite = SqueezeExcite(wide)
        self.project = nn.Conv2d(wide, channels, 1)
        self.norm = nn.GroupNorm(2, channels)
        self.drop = StochasticDepth(0.2, "row")
        self.scale = nn.Parameter(torch.full((channels, 1, 1), 0.5))

    def forward(self, x):
        return x + self.drop(self.scale * self.norm(self.project(self.excite(self.depthwise(self.expand(x))))))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.block = Inverted(8)
        self.grouped = nn.Conv2d(8, 12, 3, padding=2, dilation=2, groups=4)
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.average = nn.AvgPool2d(2, padding=1, count_include_pad=False)
        self.flat = nn.Linear(12 * 4, 10)

    def forward(self, x):
        x = self.block(F.leaky_relu(self.stem(x), 0.1))
        x = self.pool(F.elu(self.grouped(x)))
        x = self.average(torch.cat([x[:, 6:], -x[:, :6]], 1))
        return self.flat(F.dropout(x[:, :, 1:, 1:].flatten(1), 0.1, self.training))


def cnn():
    torch.manual_seed(0)
    return Cnn(), (torch.randn(5, 3, 18, 18),)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        conv = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))
        self.down, self.bottom = conv(1, 4), conv(4, 8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.join, self.head = conv(8, 4), nn.Conv2d(4, 3, 1)
        self.side = nn.Conv2d(8, 3, 1)

    def forward(self, x):
        a = self.down(x)
        b = self.bottom(F.max_pool2d(a, 2))
        x = self.head(self.join(torch.cat([self.up(b), a], 1)))
        x = x + F.interpolate(self.side(b), scale_factor=2, mode="bilinear", align_corners=False)
        return x + F.interpolate(self.side(b), scale_factor=2, mode="nearest")


def unet():
    torch.manual_seed(0)
    return UNet(), (torch.randn(3, 1, 8, 12),)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2, use_cache=False))
    return model, (torch.randint(40, (3, 12)),)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=16, use_cache=False)
    return LlamaForCausalLM(config), (torch.randint(40, (3, 12)),)


def bert():
    from transformers import BertConfig, BertForMaskedLM
    torch.manual_seed(0)
    config = BertConfig(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                        max_position_embeddings=16)
    return BertForMaskedLM(config), (torch.randint(40, (3, 12)),)


class WindowAttention(nn.Module):
    """Attention in shifted windows with a relative bias (Liu et al. 2021), by hand."""

    def __init__(self, channels: int, heads: int, window: int, shift: int):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.qkv, self.proj = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.2)
        places = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = places[:, :, None] - places[:, None, :] + window - 1
        self.register_buffer("places", (apart[0] * (2 * window - 1) + apart[1]).flatten())
        self.logit_scale = nn.Parameter(torch.zeros(heads, 1, 1))

    def forward(self, x):
        n, h, w, c = x.shape
        x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        m = self.window
        x = x.view(n, h // m, m, w // m, m, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, m * m, c)
        q, k, v = self.qkv(x).reshape(x.shape[0], m * m, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * self.logit_scale.exp()
        bias = self.table[self.places].view(m * m, m * m, self.heads).permute(2, 0, 1)
        x = ((scores + bias.unsqueeze(0)).softmax(-1) @ v).transpose(1, 2).reshape(-1, m * m, c)
        x = self.proj(x).view(n, h // m, w // m, m, m, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
        return torch.roll(x, (self.shift, self.shift), (1, 2))


class Swin(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 2, stride=2)
        self.norm1, self.attention = nn.LayerNorm(8), WindowAttention(8, 2, 2, 1)
        self.norm2, self.mlp = nn.LayerNorm(8), nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))
        self.merge = nn.Linear(32, 12, bias=False)
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        x = self.patches(x).permute(0, 2, 3, 1)
        x = x + self.attention(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.head(F.mish(self.merge(x)).mean((1, 2)))


def swin():
    torch.manual_seed(0)
    return Swin(), (torch.randn(3, 3, 8, 8),)


class Tagger(nn.Module):
    """Two directions of a GRU, the last states of an LSTM, a class for each token."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 8, padding_idx=0)
        self.gru = nn.GRU(8, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.lstm = nn.LSTM(12, 5, batch_first=True)
        self.head = nn.Linear(17, 4)

    def forward(self, tokens):
        x, _ = self.gru(self.words(tokens))
        _, (last, _) = self.lstm(x)
        return self.head(torch.cat([x, last[-1].unsqueeze(1).expand(-1, x.shape[1], -1)], -1))


def tagger():
    torch.manual_seed(0)
    return Tagger(), (torch.randint(30, (3, 7)),)


class Seq2Seq(nn.Module):
    """An encoder of frames and a decoder of tokens: two inputs, cross attention, norms of another order."""

    def __init__(self):
        super().__init__()
        self.frames = nn.Conv1d(5, 16, 3, stride=2, padding=1)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True)
        self.words = nn.Embedding(30, 16)
        self.decoder = nn.TransformerDecoderLayer(16, 2, 24, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.head = nn.Linear(16, 30)

    def forward(self, frames, tokens):
        memory = self.encoder(F.relu(self.frames(frames)).transpose(1, 2))
        mask = torch.triu(torch.full((6, 6), float("-inf")), 1)
        return self.head(self.decoder(self.words(tokens), memory, tgt_mask=mask))


def seq2seq():
    torch.manual_seed(0)
    return Seq2Seq(), (torch.randn(3, 5, 16), torch.randint(30, (3, 6)))


class OwnLoss(nn.Module):
    """Returns a loss: next tokens of a padded sequence, a class with weights, errors of numbers, a penalty."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 12)
        self.features = nn.Linear(5, 12)
        self.head = nn.Linear(12, 11)
        self.kind = nn.Linear(12, 3)
        self.back = nn.Linear(12, 5)
        self.register_buffer("weights", torch.tensor([1.0, 2.0, 0.5]))

    def forward(self, tokens, features, kind):
        x = torch.tanh(self.words(tokens) + self.features(features)[:, None])
        following = F.pad(tokens, (0, 1), value=-100)[:, 1:]
        loss = F.cross_entropy(self.head(x[:, :-1]).flatten(0, 1), following[:, :-1].flatten(), label_smoothing=0.1)
        mean = x.mean(1)
        loss = loss + 0.5 * F.cross_entropy(self.kind(mean), kind, weight=self.weights) + F.mse_loss(self.back(mean), features) / 2
        loss = loss - 0.1 * F.l1_loss(mean[:, :5], features)
        return loss + 0.3 * F.binary_cross_entropy_with_logits(self.back(mean), torch.sigmoid(features)) + 0.01 * (x ** 2).mean()


def own_loss():
    torch.manual_seed(0)
    return OwnLoss(), (torch.randint(11, (4, 6)), torch.randn(4, 5), torch.randint(3, (4,)))


class Counts(nn.Module):
    """Its gradient by a weight is the mean of that pixel: SGD at rate 1 counts, in two places, how often each was trained on."""

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.zeros(1, 8, 8))
        self.last = nn.Parameter(torch.zeros(1, 8, 8))

    def forward(self, x):
        counted = (x * self.first).sum((1, 2, 3))
        return ((x * self.last).sum((1, 2, 3)) + counted).mean()


def counts():
    return Counts(), (torch.rand(4, 1, 8, 8),)


class TwoHeads(nn.Module):
    """Classes of pixels, twice: as segmentation networks with an auxiliary head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.auxiliary = nn.Conv2d(8, 4, 1)
        self.body = nn.Conv2d(8, 8, 3, padding=2, dilation=2)
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, images):
        x = torch.tanh(self.stem(images))
        return {"out": self.head(torch.tanh(self.body(x))), "aux": self.auxiliary(x)}


def two_heads():
    torch.manual_seed(0)
    return TwoHeads(), (torch.randn(3, 3, 6, 5),)


class Parts(nn.Module):
    """What works on parts of a sample, or on parameters alone: attention and a recurrent network over windows, a bias from a network of
    its own, a convolution with weight norm, frozen parameters, a recurrent network that begins with another's state."""

    def __init__(self):
        super().__init__()
        self.stem = nn.utils.parametrizations.weight_norm(nn.Conv2d(2, 8, 3, padding=1, groups=2))
        self.norm = nn.BatchNorm2d(8)
        for parameter in self.norm.parameters():
            parameter.requires_grad = False
        self.register_buffer("places", torch.randn(9, 2))
        self.bias = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2))
        self.qkv = nn.Linear(8, 24)
        self.rows = nn.LSTM(8, 5, batch_first=True, bidirectional=True)
        self.first = nn.GRU(10, 6, batch_first=True)
        self.then = nn.GRU(10, 6, batch_first=True)
        self.relative = nn.Parameter(torch.randn(4, 3, 6) / 4)
        self.head = nn.Linear(6, 5)

    def forward(self, images):
        x = torch.tanh(self.norm(self.stem(images)))  # (N, 8, 4, 4)
        x = x.unflatten(2, (2, 2)).unflatten(4, (2, 2)).permute(0, 2, 4, 3, 5, 1).reshape(-1, 4, 8)  # windows
        q, k, v = self.qkv(x).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        table = self.bias(self.places)[torch.tensor([[0, 1, 3, 4], [1, 2, 4, 5], [3, 4, 6, 7], [4, 5, 7, 8]])]
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=table.permute(2, 0, 1)[None].sigmoid())
        x, _ = self.rows(x.transpose(1, 2).flatten(2))  # (4 N, 4, 10)
        x = x.unflatten(0, (-1, 4)).flatten(1, 2)  # (N, 16, 10)
        _, state = self.first(x[:, :4])
        x, _ = self.then(x[:, 4:8], state)
        x = x + torch.einsum("ntc,tkc->ntk", x, self.relative).sum(2, keepdim=True)
        return self.head(x[:, -1])


def parts():
    torch.manual_seed(0)
    return Parts(), (torch.randn(3, 2, 4, 4),)
