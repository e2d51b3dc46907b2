// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/command/subcommand.h"

// The actions of hetpipe data.
namespace hetpipe {

int data_import(const Invocation& how);
int data_show(const Invocation& how);
int data_speed(const Invocation& how);

}  // namespace hetpipe
