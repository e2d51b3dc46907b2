// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hetpipe {

// A host's name without its domain, by which hosts and nodes of files are compared.
inline std::string short_name(const std::string& host) { return host.substr(0, host.find('.')); }

}  // namespace hetpipe
