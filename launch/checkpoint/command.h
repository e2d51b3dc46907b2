// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/command/subcommand.h"

// The actions of `hetpipe checkpoint`: one function each.
namespace hetpipe {

int checkpoint_info(const Invocation& how);
int checkpoint_verify(const Invocation& how);
int checkpoint_diff(const Invocation& how);
int checkpoint_export(const Invocation& how);

}  // namespace hetpipe
