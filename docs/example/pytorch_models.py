# SPDX-License-Identifier: Apache-2.0
"""Models of PyTorch for launch/pytorch/hetpipe_export.py: each function returns (model, example_inputs).

  python3 launch/pytorch/hetpipe_export.py docs/example/pytorch_models.py:resnet18 --output resnet18

The architectures are whole; width, resolution, vocabulary and number of layers are reduced where a CPU needs it. Weights are
random, from a fixed seed. Tried with PyTorch 2.15, torchvision 0.29, timm 1.0 and transformers 5.23."""
from __future__ import annotations

from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional as F

Example = tuple[nn.Module, Any]


def seeded(build: Callable[[], nn.Module]) -> nn.Module:
    """The model with weights that are the same on every call."""
    torch.manual_seed(0)
    return build()


def images(side: int, samples: int = 2) -> tuple[torch.Tensor]:
    return (torch.randn(samples, 3, side, side, generator=torch.Generator().manual_seed(0)),)


def tokens(length: int, vocabulary: int, samples: int = 2, first: int = 0) -> torch.Tensor:
    return torch.randint(first, vocabulary, (samples, length), generator=torch.Generator().manual_seed(0))


def vision(name: str, side: int, **options: Any) -> Example:
    """A model of torchvision, of ten classes unless told otherwise."""
    import torchvision
    build = getattr(torchvision.models, name)
    return seeded(lambda: build(weights=None, **({"num_classes": 10} | options))), images(side)


def timm_model(name: str, side: int, **options: Any) -> Example:
    import timm
    return seeded(lambda: timm.create_model(name, pretrained=False, num_classes=10, **options)), images(side)


def text(kind: str, config: Any, **inputs: torch.Tensor) -> Example:
    """A model of transformers from its configuration alone."""
    import transformers
    return seeded(lambda: getattr(transformers, kind)(config)), inputs


# ------------------------------------------------------------------------------------------------------------------- convolutions


def resnet18() -> Example:
    return vision("resnet18", 64)


def resnet50() -> Example:
    return vision("resnet50", 64)


def resnext50() -> Example:
    return vision("resnext50_32x4d", 64)


def densenet121() -> Example:
    return vision("densenet121", 64)


def inception_v3() -> Example:
    """With its auxiliary output, whose 5 x 5 kernel needs images of at least 299 pixels."""
    return vision("inception_v3", 299, init_weights=False)


def squeezenet() -> Example:
    return vision("squeezenet1_0", 64)


def mobilenet_v2() -> Example:
    return vision("mobilenet_v2", 64)


def mnasnet() -> Example:
    return vision("mnasnet1_0", 64)


def efficientnet_b0() -> Example:
    """With squeeze and excitation, and stochastic depth."""
    return vision("efficientnet_b0", 64)


def efficientnetv2() -> Example:
    """timm's port of the TensorFlow model: paddings that differ by side."""
    return timm_model("tf_efficientnetv2_b0", 64)


def convnext_tiny() -> Example:
    return vision("convnext_tiny", 64)


class Residual(nn.Module):
    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + x


class ConvUnit(nn.Module):
    """Convolution, norm, activation, and a sum with the input: a plain residual network with padding by name."""

    def __init__(self, inputs: int, width: int, padding: int | str, kernel: int = 3):
        super().__init__()
        self.conv = nn.Conv2d(inputs, width, kernel, padding=padding, bias=False)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(self.conv(x)))


class Coat(nn.Module):
    """A residual network of 32 blocks of a depthwise and a pointwise convolution, one stage, as ConvMixer has them."""

    def __init__(self, width: int = 32, depth: int = 32, classes: int = 10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 4, 4, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.ModuleList(nn.ModuleList([
            nn.Sequential(nn.Conv2d(width, width, 5, groups=width, padding="same"), nn.ReLU(), nn.BatchNorm2d(width)),
            nn.Sequential(nn.Conv2d(width, width, 1), nn.ReLU(), nn.BatchNorm2d(width))]) for _ in range(depth))
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for depthwise, pointwise in self.blocks:
            x = pointwise(depthwise(x) + x)
        return self.head(self.dropout(F.adaptive_avg_pool2d(x, 1).flatten(1)))


def coat() -> Example:
    return seeded(Coat), images(64)


class Unet(nn.Module):
    """The usual image segmentation network, with two depths, one resized up and one transposed convolution."""

    def __init__(self, width: int = 16, classes: int = 4):
        super().__init__()
        double = lambda a, b: nn.Sequential(
            nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
            nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True))
        self.down1, self.down2, self.bottom = double(3, width), double(width, 2 * width), double(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.join2, self.join1 = double(4 * width, 2 * width), double(3 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        b = self.join2(torch.cat([self.up2(c), b], 1))
        a = self.join1(torch.cat([F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=False), a], 1))
        return self.head(a)


def unet() -> Example:
    """One class for every pixel."""
    return seeded(Unet), images(32)


# ------------------------------------------------------------------------------------------------------- transformers and the like


def vit_b_16() -> Example:
    """Twelve layers of reduced width. Images of 64 pixels make 16 patches."""
    import torchvision
    build = lambda: torchvision.models.VisionTransformer(
        image_size=64, patch_size=16, num_layers=12, num_heads=4, hidden_dim=128, mlp_dim=256, dropout=0.1, num_classes=10)
    return seeded(build), images(64)


class MixerBlock(nn.Module):
    def __init__(self, places: int, width: int, rate: float):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        mlp = lambda n, hidden: nn.Sequential(nn.Linear(n, hidden), nn.GELU(), nn.Dropout(rate), nn.Linear(hidden, n), nn.Dropout(rate))
        self.tokens, self.channels = mlp(places, places // 2), mlp(width, 4 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, side: int = 64, patch: int = 8, width: int = 64, depth: int = 8, classes: int = 10):
        super().__init__()
        self.stem = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*[MixerBlock((side // patch) ** 2, width, 0.1) for _ in range(depth)])
        self.norm, self.dropout, self.head = nn.LayerNorm(width), nn.Dropout(0.1), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.dropout(self.norm(self.blocks(x)).mean(1)))


def mixer() -> Example:
    return seeded(Mixer), images(64)


def bert() -> Example:
    from transformers import BertConfig
    config = BertConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, max_position_embeddings=64)
    return text("BertForMaskedLM", config, input_ids=tokens(24, 500))


def distilbert() -> Example:
    from transformers import DistilBertConfig
    config = DistilBertConfig(vocab_size=500, dim=64, n_layers=2, n_heads=4, hidden_dim=128, max_position_embeddings=64, num_labels=3)
    return text("DistilBertForSequenceClassification", config, input_ids=tokens(24, 500))


def roberta() -> Example:
    """Positions follow from the tokens, of which number 1 is padding."""
    from transformers import RobertaConfig
    config = RobertaConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, max_position_embeddings=66)
    return text("RobertaForMaskedLM", config, input_ids=tokens(24, 500))


def gpt2() -> Example:
    from transformers import GPT2Config
    config = GPT2Config(vocab_size=500, n_embd=64, n_layer=2, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=0)
    return text("GPT2LMHeadModel", config, input_ids=tokens(24, 500))


def llama() -> Example:
    """Rotary positions, RMS norm, and two queries for every key."""
    from transformers import LlamaConfig
    config = LlamaConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         intermediate_size=128, max_position_embeddings=64)
    return text("LlamaForCausalLM", config, input_ids=tokens(24, 500))


def whisper() -> Example:
    """From spectra to text: an encoder with convolutions, and a decoder with attention across."""
    from transformers import WhisperConfig
    config = WhisperConfig(vocab_size=500, num_mel_bins=16, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                           decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=32, max_target_positions=32,
                           dropout=0.1, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    spectra = torch.randn(2, 16, 64, generator=torch.Generator().manual_seed(0))
    return text("WhisperForConditionalGeneration", config, input_features=spectra, decoder_input_ids=tokens(12, 500))


class Lstm(nn.Module):
    def __init__(self, vocabulary: int = 500, width: int = 64):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(x))[0])


def lstm() -> Example:
    """The next word, from two layers."""
    return seeded(Lstm), (tokens(24, 500),)


# ------------------------------------------------------------------------------------------------------------------------- others


def narrow_head(model: nn.Module, inputs: int) -> nn.Module:
    """The classifier of VGG and AlexNet has most of their weights; here it is 64 wide."""
    model.classifier = nn.Sequential(
        nn.Linear(inputs, 64), nn.ReLU(True), nn.Dropout(), nn.Linear(64, 64), nn.ReLU(True), nn.Dropout(), nn.Linear(64, 10))
    return model


def alexnet() -> Example:
    import torchvision
    return seeded(lambda: narrow_head(torchvision.models.alexnet(weights=None), 256 * 6 * 6)), images(64)


def vgg11_bn() -> Example:
    import torchvision
    return seeded(lambda: narrow_head(torchvision.models.vgg11_bn(weights=None, init_weights=False), 512 * 7 * 7)), images(32)


def googlenet() -> Example:
    """Two auxiliary outputs."""
    return vision("googlenet", 96, init_weights=False)


def mobilenet_v3() -> Example:
    return vision("mobilenet_v3_small", 64)


def shufflenet_v2() -> Example:
    return vision("shufflenet_v2_x0_5", 64)


def regnet() -> Example:
    return vision("regnet_y_400mf", 64)


def swin_t() -> Example:
    """Windows of attention, shifted: rolls, and masks that are constants."""
    import torchvision
    build = lambda: torchvision.models.SwinTransformer(
        patch_size=[4, 4], embed_dim=24, depths=[2, 2, 2, 2], num_heads=[1, 2, 4, 8], window_size=[4, 4], stochastic_depth_prob=0.2, num_classes=10)
    return seeded(build), images(64)


def maxvit() -> Example:
    import torchvision
    build = lambda: torchvision.models.MaxVit(
        input_size=(64, 64), stem_channels=16, partition_size=2, block_channels=[16, 32], block_layers=[1, 2], head_dim=8,
        stochastic_depth_prob=0.2, num_classes=10)
    return seeded(build), images(64)


def fcn_resnet50() -> Example:
    """A class for every pixel, and an auxiliary output, in a dict."""
    import torchvision
    build = lambda: torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=5, aux_loss=True)
    return seeded(build), images(64)


def deeplab() -> Example:
    import torchvision
    build = lambda: torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5)
    return seeded(build), images(64)


def deit() -> Example:
    return timm_model("deit_tiny_patch16_224", 64, img_size=64, drop_path_rate=0.1, embed_dim=96)


def convmixer() -> Example:
    import timm
    return seeded(lambda: timm.models.ConvMixer(dim=32, depth=4, kernel_size=5, patch_size=4, num_classes=10)), images(32)


def t5() -> Example:
    """Positions are a learned bias of the attention."""
    from transformers import T5Config
    config = T5Config(vocab_size=500, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, decoder_start_token_id=0)
    return text("T5ForConditionalGeneration", config, input_ids=tokens(16, 500), decoder_input_ids=tokens(12, 500))


def opt() -> Example:
    from transformers import OPTConfig
    config = OPTConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128, max_position_embeddings=64,
                       word_embed_proj_dim=64, pad_token_id=1, bos_token_id=2, eos_token_id=2)
    return text("OPTForCausalLM", config, input_ids=tokens(24, 500))


def mistral() -> Example:
    from transformers import MistralConfig
    config = MistralConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                           intermediate_size=128, max_position_embeddings=64, sliding_window=8)
    return text("MistralForCausalLM", config, input_ids=tokens(24, 500))


def qwen2() -> Example:
    from transformers import Qwen2Config
    config = Qwen2Config(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         intermediate_size=128, max_position_embeddings=64)
    return text("Qwen2ForCausalLM", config, input_ids=tokens(24, 500))


def qwen2_loss() -> Example:
    """The model computes its own loss: --loss output."""
    model, inputs = qwen2()
    return model, inputs | {"labels": inputs["input_ids"]}


def gpt_neox() -> Example:
    from transformers import GPTNeoXConfig
    config = GPTNeoXConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, max_position_embeddings=64)
    return text("GPTNeoXForCausalLM", config, input_ids=tokens(24, 500))


def bert_padded() -> Example:
    """Sentences of different length: the mask is an input."""
    model, inputs = bert()
    mask = torch.ones_like(inputs["input_ids"])
    mask[1, 17:] = 0
    return model, inputs | {"attention_mask": mask}


def albert() -> Example:
    """One layer's weights, used twice."""
    from transformers import AlbertConfig
    config = AlbertConfig(vocab_size=500, embedding_size=32, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, max_position_embeddings=64)
    return text("AlbertForMaskedLM", config, input_ids=tokens(24, 500))


def electra() -> Example:
    from transformers import ElectraConfig
    config = ElectraConfig(vocab_size=500, embedding_size=32, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, max_position_embeddings=64)
    return text("ElectraForPreTraining", config, input_ids=tokens(24, 500))


def segformer() -> Example:
    from transformers import SegformerConfig
    config = SegformerConfig(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=32, num_labels=5)
    return text("SegformerForSemanticSegmentation", config, pixel_values=images(64)[0])


class DiffusionUnet(nn.Module):
    """Predicts the noise in an image, given the time: group norm, attention in the middle, the time through sines."""

    def __init__(self, width: int = 32):
        super().__init__()
        block = lambda a, b: nn.ModuleDict({
            "norm1": nn.GroupNorm(8, a), "conv1": nn.Conv2d(a, b, 3, padding=1), "time": nn.Linear(4 * width, b),
            "norm2": nn.GroupNorm(8, b), "conv2": nn.Conv2d(b, b, 3, padding=1), "skip": nn.Conv2d(a, b, 1) if a != b else nn.Identity()})
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.stem, self.head = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.down, self.middle, self.up = block(width, width), block(width, 2 * width), block(3 * width, width)
        self.shrink = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.norm, self.attention = nn.GroupNorm(8, 2 * width), nn.MultiheadAttention(2 * width, 4, batch_first=True)

    @staticmethod
    def block(parts: nn.ModuleDict, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = parts["conv1"](F.silu(parts["norm1"](x))) + parts["time"](F.silu(time))[:, :, None, None]
        return parts["conv2"](F.silu(parts["norm2"](y))) + parts["skip"](x)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        frequencies = torch.exp(-9.2 * torch.arange(self.width // 2) / (self.width // 2))
        angles = time[:, None].float() * frequencies
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        x = self.stem(x)
        a = self.block(self.down, x, time)
        b = self.block(self.middle, self.shrink(a), time)
        n, c, h, w = b.shape
        flat = self.norm(b).reshape(n, c, h * w).transpose(1, 2)
        b = b + self.attention(flat, flat, flat, need_weights=False)[0].transpose(1, 2).reshape(n, c, h, w)
        return self.head(F.silu(self.block(self.up, torch.cat([F.interpolate(b, scale_factor=2.0), a], 1), time)))


def diffusion() -> Example:
    """Two inputs; --loss mse."""
    return seeded(DiffusionUnet), images(16) + (torch.tensor([3, 70]),)


class GruTagger(nn.Module):
    def __init__(self, vocabulary: int = 500, width: int = 32, tags: int = 7):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.gru = nn.GRU(width, width, 2, batch_first=True, bidirectional=True, dropout=0.1)
        self.head = nn.Linear(2 * width, tags)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(self.embedding(x))[0])


def gru_tagger() -> Example:
    return seeded(GruTagger), (tokens(24, 500),)


class EncoderClassifier(nn.Module):
    """nn.TransformerEncoder with the sines of the first paper as positions, in a buffer."""

    def __init__(self, vocabulary: int = 500, width: int = 32, length: int = 64):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        angles = torch.arange(length)[:, None] * torch.exp(-9.2 * torch.arange(0, width, 2) / width)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[None])
        layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.embedding(x) + self.positions[:, :x.shape[1]]
        return self.head(self.encoder(y).mean(1))


def transformer_encoder() -> Example:
    return seeded(EncoderClassifier), (tokens(24, 500),)
