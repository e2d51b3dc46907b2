// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// Layers by name, as tables print them and plan files may give them: "conv1", or a module with
// layers inside, "layer3.4".
namespace hetpipe {

struct Profile;

// "conv1..relu4_1" of layers [first, end), or the only one's name.
std::string layer_range(const Profile& profile, int first, int end);

enum class EndOfModule { first, last };
// The number of the layer of that name or, where there is none, of the first or last layer inside
// the module. UserError without a place: the nearest known name.
int layer_named(const Profile& profile, const std::string& name, EndOfModule which);

}  // namespace hetpipe
