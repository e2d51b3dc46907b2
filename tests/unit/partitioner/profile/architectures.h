// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partitioner/profile/profile.h"

// Two networks of the field, layer by layer as their papers and torchvision define them, with the
// parameters, flops and bytes that follow; nothing is measured. Images of 3 x 224 x 224, fp32.
// cluster-configs/profiles/ holds what these make, and a test that it still does.
namespace hetpipe::test {

Profile vgg19();      // Simonyan and Zisserman, arXiv 1409.1556, column E
Profile resnet152();  // He et al., arXiv 1512.03385; a block's stride sits in its 3 x 3 layer

}  // namespace hetpipe::test
