// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/error.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/toml_file.h"

// One device type of a cluster file, both ways (docs/files.md).
namespace hetpipe {

// The table [device.NAME]. What it leaves out is taken from the catalogue's entry that it names
// (`catalogue = "a100-sxm-80gb"`), else from the one of its own name. Its problems are added.
DeviceKind read_device(const TomlValue& table, const std::string& name, const std::string& file,
                       Problems& problems);

// That table as text; reads back as the same value.
std::string device_lines(const DeviceKind& kind);

}  // namespace hetpipe
