// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/model/model.h"

// Builders of the zoo's larger image models. Each appends every layer but the loss to an empty
// model; the sizes of samples that the zoo promises are checked before. Weights begin with He's
// uniform values unless stated otherwise.
namespace hetpipe {

// Simonyan & Zisserman, "Very deep convolutional networks" (2014), configurations D (depth 16) and
// E (19): five stages of 3x3 convolutions with bias, each halved by a max pool, then two hidden
// layers of 4096 with dropout, named as torchvision's. The first of them takes what the features
// leave (7x7x512 of a 224x224 sample, 512 of a 32x32 one), where torchvision first pools to 7x7:
// the same for samples of 224x224, fewer parameters for smaller ones.
void build_vgg(Model& model, int depth);

// He et al., "Deep residual learning for image recognition" (2015), table 1, as trained today: the
// stride of a bottleneck sits on its 3x3 convolution (torchvision's ResNet "v1.5"), shortcuts that
// change shape are 1x1 convolutions with batch norm. Names are torchvision's. Depths 18 (basic
// blocks), 50, 101, 152 (bottlenecks).
void build_deep_resnet(Model& model, int depth);

// Szegedy et al., "Rethinking the Inception architecture" (2015), as in torchvision (average pools
// count padding as zeros, batch norm's epsilon 0.001) without the auxiliary head, which training
// without it leaves out too.
void build_inception_v3(Model& model);

// Szegedy et al., "Inception-v4, Inception-ResNet and the impact of residual connections" (2016),
// figures 3 to 9, as in timm (average pools of the image alone, epsilon 0.001), dropout 0.2.
void build_inception_v4(Model& model);

// AmoebaNet-D (Real et al., "Regularized evolution for image classifier architecture search", 2018)
// in the form that GPipe trained (Huang et al. 2018, table 1): `cells` normal cells in three groups
// and four reduction cells, of which two belong to the stem; `filters` is four times the channels
// of the stem's convolution. States 0 and 1 of a cell are the two cells before. A normal cell joins
// its states 0, 3, 4 and 6, as the TensorFlow program that GPipe used does (the paper says 4, 5,
// 6): the sizes are torchgpipe's to the last parameter. Its 3x3 max pools are max pools, as in the
// paper, where torchgpipe averages; the stem's convolution sees the samples without a ReLU, which
// changes nothing for samples from 0 on. cells must be a multiple of 3, filters of 16. UserError
// unless rows and columns are multiples of 32: states of one cell are halved by different windows,
// which must agree.
void build_amoebanet(Model& model, int cells, int filters);

const MaxPool kHalving{.kernel = 3, .stride = 2};

// What these builders share: convolutions without bias, each followed by a batch norm.
class ConvolutionUnits {
 public:
  ConvolutionUnits(Model& model, float epsilon) : model_(model), epsilon_(epsilon) {}

  // A convolution and its batch norm by these names: returns the latter. "NAME.conv", "NAME.bn".
  int normalized(const std::string& conv, const std::string& norm, int input,
                 Convolution spec) const;
  int normalized(const std::string& name, int input, Convolution spec) const {
    return normalized(name + ".conv", name + ".bn", input, spec);
  }
  // Then "NAME.relu".
  int rectified(const std::string& name, int input, Convolution spec) const;
  // One rectified unit after the other, "NAME1", "NAME2" and so on.
  int chain(const std::string& name, int input, const std::vector<Convolution>& specs) const;

 private:
  Model& model_;
  float epsilon_;
};

// Convolutions by channels and kernel: padded so that stride 1 keeps the size, or not padded.
Convolution same(int channels, Sides kernel, int stride = 1);
Convolution valid(int channels, Sides kernel, int stride = 1);

}  // namespace hetpipe
