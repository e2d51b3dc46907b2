// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/text.h"
#include "runtime/store/hdf5.h"
#include "runtime/store/trace.h"
#include "runtime/store/trace_format.h"

namespace hetpipe {
namespace {

constexpr const char* kTraceRemedy =
    "). Give the file of a rank that ended its run, or the run's master file.";

template <class Value>
std::vector<Value> read_series(hid_t place, const std::string& name, const hdf5::Id& type,
                               const hdf5::Doing& doing) {
  const hdf5::Id series = hdf5::own(H5Dopen2(place, name.c_str(), H5P_DEFAULT), doing);
  const std::vector<hsize_t> shape = hdf5::shape_of(series.get(), doing);
  if (shape.size() != 1) {
    throw SystemError("HDF5: dataset " + name + " of " + doing.path + " is not a series");
  }
  std::vector<Value> values(shape[0]);
  hdf5::check(H5Dread(series.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
              doing);
  return values;
}

void check_format(hid_t place, const std::string& wanted, const hdf5::Doing& doing) {
  const std::string found = hdf5::read_text(place, "format", doing);
  const std::int64_t version = hdf5::read_integer(place, "version", doing);
  if (found != wanted || version != trace_format::kVersion) {
    throw UserError(doing.path, "is '" + found + "' version " + std::to_string(version) +
                                    " (expected: '" + wanted + "' version " +
                                    std::to_string(trace_format::kVersion) + kTraceRemedy);
  }
}

// place: a file, or the link to one in a master file.
Trace read_rank(hid_t place, const hdf5::Doing& doing) {
  check_format(place, trace_format::kFormat, doing);
  Trace trace;
  trace.info.rank = static_cast<int>(hdf5::read_integer(place, "rank", doing));
  trace.info.host = hdf5::read_text(place, "host", doing);
  trace.info.device = hdf5::read_text(place, "device", doing);
  trace.info.virtual_worker = hdf5::read_integer(place, "virtual_worker", doing);
  trace.info.stage = hdf5::read_integer(place, "stage", doing);
  trace.info.replica = hdf5::read_integer(place, "replica", doing);
  trace.clock = {hdf5::read_double(place, "clock_offset_ns", doing),
                 hdf5::read_double(place, "clock_drift", doing),
                 hdf5::read_double(place, "clock_uncertainty_ns", doing)};
  trace.events =
      read_series<TraceEvent>(place, trace_format::kEvents, trace_format::event_type(doing), doing);
  const hdf5::Id metrics = hdf5::own(H5Gopen2(place, trace_format::kMetrics, H5P_DEFAULT), doing);
  for (const std::string& name : hdf5::child_names(metrics.get(), doing)) {
    trace.metrics[name] =
        read_series<MetricPoint>(metrics.get(), name, trace_format::metric_type(doing), doing);
  }
  return trace;
}

// Runs `read` with the file, and says which file was no trace.
template <class Read>
auto read_file_as_trace(const std::filesystem::path& path, Read read) {
  if (!std::filesystem::is_regular_file(path)) {
    throw UserError(path.string(), "does not exist or is not a file. Give the path of a trace.");
  }
  const hdf5::Session session;
  try {
    const hdf5::Id file = hdf5::open_to_read(path.string());
    return read(file.get(), hdf5::Doing{path.string(), "reading"});
  } catch (const SystemError& error) {
    throw UserError(path.string(),
                    std::string("cannot be read as a trace (") + error.what() + kTraceRemedy);
  }
}

}  // namespace

Trace read_trace(const std::filesystem::path& path) { return read_file_as_trace(path, read_rank); }

std::vector<Trace> read_trace_master(const std::filesystem::path& path) {
  return read_file_as_trace(path, [](hid_t file, const hdf5::Doing& doing) {
    check_format(file, trace_format::kMasterFormat, doing);
    const std::int64_t ranks = hdf5::read_integer(file, "ranks", doing);
    std::vector<Trace> traces;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::string link = "rank" + std::to_string(rank);
      const hdf5::Doing here{doing.path, "following link " + link};
      const hdf5::Id place = hdf5::own(H5Gopen2(file, link.c_str(), H5P_DEFAULT), here);
      traces.push_back(read_rank(place.get(), here));
    }
    return traces;
  });
}

}  // namespace hetpipe
