// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "partitioner/cluster/cluster.h"
#include "partitioner/planners/search.h"

namespace hetpipe {

// What a search considered, how far its plan can be from the best, and which devices it leaves idle
// at what cost, as text.
std::string search_text(const SearchResult& result, const Cluster& cluster);

}  // namespace hetpipe
