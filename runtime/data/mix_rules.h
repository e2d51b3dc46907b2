// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/fields.h"

namespace hetpipe {

// With what training mixes each sample: mixup (Zhang et al. 2018, arXiv 1710.09412), CutMix (Yun et
// al. 2019, arXiv 1905.04899), or either with probability 1/2. Shares are drawn from
// Beta(alpha, alpha); an alpha of 0: not by this one.
struct MixRules {
  double mixup_alpha = 0, cutmix_alpha = 0;

  bool any() const { return mixup_alpha > 0 || cutmix_alpha > 0; }
  // That asks for it, for messages.
  const char* option() const { return mixup_alpha > 0 ? "--mixup-alpha" : "--cutmix-alpha"; }
  bool operator==(const MixRules&) const = default;
};
constexpr auto fields_of(Type<MixRules>) {
  return fields<&MixRules::mixup_alpha, &MixRules::cutmix_alpha>;
}

}  // namespace hetpipe
