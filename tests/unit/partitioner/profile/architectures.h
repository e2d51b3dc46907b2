// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partitioner/profile/profile.h"

// Networks of the field, layer by layer as their papers and torchvision define them, with the
// parameters, flops and bytes that follow; nothing is measured. Images of 3 x 224 x 224, fp32.
// cluster-configs/profiles/ holds what vgg19 and resnet152 make.
namespace hetpipe::test {

Profile vgg19();  // Simonyan and Zisserman, arXiv 1409.1556, column E
// He et al., arXiv 1512.03385; a block's stride sits in its 3 x 3 layer, as in torchvision.
Profile resnet50();
Profile resnet101();
Profile resnet152();

}  // namespace hetpipe::test
