// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/store/hdf5.h"
#include "runtime/store/trace.h"

// What writer and reader of a trace have in common. Private to this folder.
namespace hetpipe::trace_format {

inline constexpr const char* kFormat = "hetpipe-trace";
inline constexpr const char* kMasterFormat = "hetpipe-trace-master";
inline constexpr std::int64_t kVersion = 1;
inline constexpr const char* kEvents = "events";
inline constexpr const char* kMetrics = "metrics";

// Compound types as they lie in memory.
hdf5::Id event_type(const hdf5::Doing& doing);
hdf5::Id metric_type(const hdf5::Doing& doing);

}  // namespace hetpipe::trace_format
