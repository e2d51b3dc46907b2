# SPDX-License-Identifier: Apache-2.0
"""Writes pytorch_values.h: what PyTorch computes of layers whose rules are subtle.

    python3 tests/unit/kernels/pytorch_values.py > tests/unit/kernels/pytorch_values.h

Inputs, parameters and gradients are numbers(seed, count) of pytorch_values_test.cpp.
"""
import torch
import torch.nn.functional as F
from torch import nn

torch.set_default_dtype(torch.float64)


def numbers(seed, *shape):
    count = torch.Size(shape).numel()
    i = torch.arange(count)
    return (((i * 37 + seed * 11) % 23 - 11) / 8).double().reshape(shape)


def text(tensor):
    return "{" + ", ".join("%.9g" % v for v in tensor.flatten().tolist()) + "}"


def case(spec, shape, function, parameters=(), image=True):
    """function(x, parameters) of an image (N, C, H, W), or of x as it is; shape is (N, H, W, C)."""
    x = numbers(1, *shape).requires_grad_()
    weights = [numbers(2 + k, *p).requires_grad_() for k, p in enumerate(parameters)]
    y = function(x.permute(0, 3, 1, 2) if image else x, weights)
    y = y.permute(0, 2, 3, 1) if image else y
    dy = numbers(9, *y.shape)
    y.backward(dy)
    print("    {%s,\n     {%s},\n     %s,\n     %s,\n     {%s}}," % (
        spec, ", ".join(map(str, shape)), text(y), text(x.grad),
        ", ".join(text(w.grad) for w in weights)))


print("""// SPDX-License-Identifier: Apache-2.0
#pragma once

// Written by pytorch_values.py with PyTorch %s: spec, shape of the input, output, gradient of the
// input, gradients of the parameters.
// clang-format off
inline const std::vector<PyTorchCase> kPyTorchCases = {""" % torch.__version__.split("+")[0])

# Convolutions.
case("Convolution{.output_channels = 4, .kernel = 3, .padding = 1, .groups = 2}", (1, 3, 4, 4),
     lambda x, w: F.conv2d(x, w[0], w[1], padding=1, groups=2), [(4, 2, 3, 3), (4,)])
case("Convolution{.output_channels = 3, .kernel = 3, .stride = {2, 1}, .padding = 1, .bias = false, .groups = 3}",
     (1, 4, 3, 3), lambda x, w: F.conv2d(x, w[0], None, (2, 1), 1, groups=3), [(3, 1, 3, 3)])
case("Convolution{.output_channels = 2, .kernel = {2, 4}, .padding = {0, 1}, .bias = false, .padding_end = Sides{1, 2}}",
     (1, 3, 4, 1), lambda x, w: F.conv2d(x, w[0], padding="same"), [(2, 1, 2, 4)])
case("Convolution{.output_channels = 1, .kernel = 2, .padding = 1, .bias = false, .dilation = 3, .padding_end = Sides{2}}",
     (1, 4, 3, 2), lambda x, w: F.conv2d(x, w[0], padding="same", dilation=3), [(1, 2, 2, 2)])
case("TransposedConvolution{.output_channels = 2, .kernel = 3, .stride = {2, 1}, .padding = 1, .output_padding = {1, 0}}",
     (1, 2, 3, 2), lambda x, w: F.conv_transpose2d(x, w[0], w[1], (2, 1), 1, (1, 0)),
     [(2, 2, 3, 3), (2,)])
case("TransposedConvolution{.output_channels = 4, .kernel = 2, .stride = 2, .dilation = 2, .groups = 2, .bias = false}",
     (1, 2, 2, 2), lambda x, w: F.conv_transpose2d(x, w[0], None, 2, groups=2, dilation=2),
     [(2, 2, 2, 2)])

# Pools.
for ceil in ("true", "false"):
    for pads in ("true", "false"):
        case("AveragePool{.kernel = 3, .stride = 2, .padding = 1, .count_padding = %s, .ceil_mode = %s}" % (pads, ceil),
             (1, 6, 4, 1), lambda x, w: F.avg_pool2d(x, 3, 2, 1, ceil == "true", pads == "true"))
# Its last window would start behind the image: left out.
case("AveragePool{.kernel = 2, .stride = 3, .padding = 1, .ceil_mode = true}", (1, 5, 4, 1),
     lambda x, w: F.avg_pool2d(x, 2, 3, 1, True))
case("AveragePool{.kernel = {3, 2}, .stride = {2, 3}, .ceil_mode = true}", (1, 6, 6, 1),
     lambda x, w: F.avg_pool2d(x, (3, 2), (2, 3), ceil_mode=True))
case("MaxPool{.kernel = 3, .stride = {2, 3}, .padding = {1, 0}, .ceil_mode = true}", (1, 6, 5, 1),
     lambda x, w: F.max_pool2d(x, 3, (2, 3), (1, 0), ceil_mode=True))
case("MaxPool{.kernel = 2, .stride = 1, .padding = 1, .ceil_mode = false, .dilation = {2, 1}}", (1, 4, 3, 2),
     lambda x, w: F.max_pool2d(x, 2, 1, 1, (2, 1)))
case("AdaptivePool{.rows = 3, .columns = 2}", (1, 5, 7, 1), lambda x, w: F.adaptive_avg_pool2d(x, (3, 2)))
case("AdaptivePool{.rows = 4, .columns = 3}", (1, 3, 5, 1), lambda x, w: F.adaptive_avg_pool2d(x, (4, 3)))
case("AdaptivePool{.maximum = true, .rows = 3, .columns = 2}", (1, 5, 7, 1),
     lambda x, w: F.adaptive_max_pool2d(x, (3, 2)))

# Resizing: steps are input / output, or (input - 1) / (output - 1), unless a scale is given.
case("Resize{Resize::Kind::nearest, 5, 7, 3.0 / 5, 3.0 / 7}", (1, 3, 3, 1),
     lambda x, w: F.interpolate(x, (5, 7), mode="nearest"))
case("Resize{Resize::Kind::nearest, 4, 2, 1 / 1.5, 1 / 0.7}", (1, 3, 3, 1),
     lambda x, w: F.interpolate(x, scale_factor=(1.5, 0.7), mode="nearest", recompute_scale_factor=False))
case("Resize{Resize::Kind::bilinear, 5, 2, 3.0 / 5, 4.0 / 2}", (1, 3, 4, 1),
     lambda x, w: F.interpolate(x, (5, 2), mode="bilinear"))
case("Resize{Resize::Kind::bilinear, 4, 7, 1 / 1.4, 1 / 1.8}", (1, 3, 4, 1),
     lambda x, w: F.interpolate(x, scale_factor=(1.4, 1.8), mode="bilinear", recompute_scale_factor=False))
case("Resize{Resize::Kind::bilinear_aligned, 5, 2, 2.0 / 4, 3.0 / 1}", (1, 3, 4, 1),
     lambda x, w: F.interpolate(x, (5, 2), mode="bilinear", align_corners=True))
case("Resize{Resize::Kind::bilinear_aligned, 6, 1, 2.0 / 5, 0}", (1, 3, 4, 1),
     lambda x, w: F.interpolate(x, (6, 1), mode="bilinear", align_corners=True))

# Norms.
case("GroupNorm{2, 1e-3f}", (2, 2, 2, 4), lambda x, w: F.group_norm(x, 2, w[0], w[1], 1e-3), [(4,), (4,)])
case("GroupNorm{3, 1e-5f, false}", (1, 2, 1, 6), lambda x, w: F.group_norm(x, 3))
case("RmsNorm{1e-3f}", (2, 2, 3), lambda x, w: F.rms_norm(x, (3,), w[0], 1e-3), [(3,)], image=False)
case("LayerNorm{1e-3f, true, false}", (2, 2, 3), lambda x, w: F.layer_norm(x, (3,), w[0], None, 1e-3), [(3,)],
     image=False)
case("LayerNorm{1e-3f, false, false}", (1, 2, 1, 3), lambda x, w: F.layer_norm(x, (3,), None, None, 1e-3),
     image=False)
case("BatchNorm{.epsilon = 1e-3f, .affine = false, .tracked = false}", (2, 2, 3),
     lambda x, w: F.batch_norm(x.transpose(1, 2), None, None, training=True, eps=1e-3).transpose(1, 2), image=False)


# Recurrent layers.
def recurrent(make, reverse):
    def function(x, w):
        layer = make(3, 2, batch_first=True)
        y = torch.func.functional_call(
            layer, dict(zip(("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"), w)),
            (x.flip(1) if reverse else x,))[0]
        return y.flip(1) if reverse else y
    return function


for name, make, gates in (("lstm", nn.LSTM, 8), ("gru", nn.GRU, 6)):
    for reverse in ("false", "true"):
        case("Recurrent{Recurrent::Kind::%s, 2, true, %s}" % (name, reverse), (2, 3, 3),
             recurrent(make, reverse == "true"), [(gates, 3), (gates, 2), (gates,), (gates,)], image=False)

print("};\n// clang-format on")
