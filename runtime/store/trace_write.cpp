// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "runtime/store/hdf5.h"
#include "runtime/store/trace.h"
#include "runtime/store/trace_format.h"

namespace hetpipe {
namespace {

constexpr hsize_t kEventsPerChunk = 1024;
constexpr hsize_t kPointsPerChunk = 256;
constexpr unsigned kDeflateLevel = 1;  // most of a trace's redundancy at a tenth of the time
// Beyond the values themselves: chunks that are rewritten, indices, new datasets.
constexpr std::int64_t kRoomForMetadata = 1 << 18;  // bytes

}  // namespace

// The file behind a writer. Space is reserved before HDF5 writes: HDF5 1.10 does not recover from a
// full disk (its files stay half open until the process ends).
class TraceWriter::File {
 public:
  File(const std::string& path, const TraceInfo& info) : path_(path) {
    const hdf5::Session session;
    file_ = hdf5::create_file(path);
    fd_ = OpenFile(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd_) throw SystemError("cannot open " + path + ": " + std::strerror(errno));
    reserve(0);
    const hdf5::Doing doing{path, "writing"};
    hdf5::write_attribute(file_.get(), "format", std::string(trace_format::kFormat), doing);
    hdf5::write_attribute(file_.get(), "version", trace_format::kVersion, doing);
    hdf5::write_attribute(file_.get(), "rank", std::int64_t{info.rank}, doing);
    hdf5::write_attribute(file_.get(), "host", info.host, doing);
    hdf5::write_attribute(file_.get(), "device", info.device, doing);
    hdf5::write_attribute(file_.get(), "virtual_worker", info.virtual_worker, doing);
    hdf5::write_attribute(file_.get(), "stage", info.stage, doing);
    hdf5::write_attribute(file_.get(), "replica", info.replica, doing);
    write_clock({.uncertainty_ns = -1});
    event_type_ = trace_format::event_type(doing);
    metric_type_ = trace_format::metric_type(doing);
    events_ = create_series(trace_format::kEvents, event_type_.get(), kEventsPerChunk);
    hdf5::own(
        H5Gcreate2(file_.get(), trace_format::kMetrics, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
        doing);
    synchronize();
  }

  ~File() {
    const hdf5::Session session;
    const hssize_t used = used_bytes();
    series_.clear();
    events_.reset();
    file_.reset();
    // Gives back what was reserved and not used.
    if (used > 0 && ::ftruncate(fd_.get(), used) != 0) {
      std::fprintf(stderr, "%s: cannot truncate: %s\n", path_.c_str(), std::strerror(errno));
    }
  }

  void write_clock(const ClockEstimate& clock) {
    const hdf5::Doing doing{path_, "writing"};
    const std::pair<const char*, double> values[] = {
        {"clock_offset_ns", clock.offset_ns},
        {"clock_drift", clock.drift},
        {"clock_uncertainty_ns", clock.uncertainty_ns}};
    for (const auto& [name, value] : values) {
      if (hdf5::has_attribute(file_.get(), name, doing)) {
        hdf5::check(H5Adelete(file_.get(), name), doing);
      }
      hdf5::write_attribute(file_.get(), name, value, doing);
    }
  }

  void append(const std::vector<TraceEvent>& events) {
    append(events_.get(), event_type_.get(), events.data(), events.size());
  }

  void append(const std::string& name, const std::vector<MetricPoint>& points) {
    hdf5::Id& series = series_[name];
    if (!series) {
      series = create_series(std::string(trace_format::kMetrics) + "/" + name, metric_type_.get(),
                             kPointsPerChunk);
    }
    append(series.get(), metric_type_.get(), points.data(), points.size());
  }

  // Makes room for so many bytes of values, or throws before HDF5 has seen any of them.
  void reserve(std::int64_t bytes) {
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0) {
      throw SystemError("cannot examine " + path_ + ": " + std::strerror(errno));
    }
    const std::int64_t end = used_bytes() + bytes + kRoomForMetadata;
    if (end <= status.st_size) return;
    const int error = ::posix_fallocate(fd_.get(), status.st_size, end - status.st_size);
    if (error != 0) {
      throw SystemError("cannot extend " + path_ + ": " + std::strerror(error));
    }
  }

  void synchronize() { hdf5::check(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), {path_, "flushing"}); }

 private:
  hssize_t used_bytes() const {
    hsize_t bytes = 0;
    return H5Fget_filesize(file_.get(), &bytes) < 0 ? 0 : static_cast<hssize_t>(bytes);
  }

  hdf5::Id create_series(const std::string& name, hid_t memory_type, hsize_t chunk) {
    const hdf5::Doing doing{path_, "creation of dataset " + name};
    const hdf5::Id type = hdf5::own(H5Tcopy(memory_type), doing);
    hdf5::check(H5Tpack(type.get()), doing);  // no padding in the file
    const hsize_t none = 0;
    const hsize_t unlimited = H5S_UNLIMITED;
    const hdf5::Id space = hdf5::own(H5Screate_simple(1, &none, &unlimited), doing);
    const hdf5::Id layout = hdf5::own(H5Pcreate(H5P_DATASET_CREATE), doing);
    hdf5::check(H5Pset_chunk(layout.get(), 1, &chunk), doing);
    hdf5::check(H5Pset_shuffle(layout.get()), doing);
    hdf5::check(H5Pset_deflate(layout.get(), kDeflateLevel), doing);
    return hdf5::own(H5Dcreate2(file_.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT,
                                layout.get(), H5P_DEFAULT),
                     doing);
  }

  void append(hid_t series, hid_t type, const void* values, std::size_t count) {
    if (count == 0) return;
    const hdf5::Doing doing{path_, "appending"};
    const hsize_t start = hdf5::shape_of(series, doing).at(0);
    const hsize_t added = count;
    const hsize_t end = start + added;
    hdf5::check(H5Dset_extent(series, &end), doing);
    const hdf5::Id to = hdf5::own(H5Dget_space(series), doing);
    hdf5::check(H5Sselect_hyperslab(to.get(), H5S_SELECT_SET, &start, nullptr, &added, nullptr),
                doing);
    const hdf5::Id from = hdf5::own(H5Screate_simple(1, &added, nullptr), doing);
    hdf5::check(H5Dwrite(series, type, from.get(), to.get(), H5P_DEFAULT, values), doing);
  }

  std::string path_;
  OpenFile fd_;
  hdf5::Id file_;
  hdf5::Id event_type_;
  hdf5::Id metric_type_;
  hdf5::Id events_;
  std::map<std::string, hdf5::Id> series_;
};

TraceWriter::TraceWriter(const std::filesystem::path& path, const TraceInfo& info,
                         std::size_t capacity)
    : file_(std::make_unique<File>(path.string(), info)), capacity_(capacity) {}

TraceWriter::~TraceWriter() {
  try {
    flush(IfBusy::wait);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the end of a trace is lost: %s\n", error.what());
  }
}

bool TraceWriter::failed() const { return file_ == nullptr; }

void TraceWriter::record(const TraceEvent& event) {
  if (failed()) return;
  events_.push_back(event);
  ++waiting_;
  flush_when_full();
}

void TraceWriter::metric(const std::string& name, Wave wave, double value) {
  ensure(!name.empty() && name.find('/') == std::string::npos, "trace: name of a metric");
  if (failed()) return;
  metrics_[name].push_back({wave, value});
  ++waiting_;
  flush_when_full();
}

void TraceWriter::set_clock(const ClockEstimate& clock) {
  if (failed()) return;
  const hdf5::Session session;
  file_->write_clock(clock);
}

void TraceWriter::flush_when_full() {
  if (waiting_ < capacity_) return;
  flush(waiting_ < kMostBuffers * capacity_ ? IfBusy::skip : IfBusy::wait);
}

void TraceWriter::flush(IfBusy if_busy) {
  if (failed()) return;
  const std::optional<hdf5::Session> session =
      if_busy == IfBusy::wait ? hdf5::Session() : hdf5::Session::try_begin();
  if (!session) return;
  const std::vector<TraceEvent> events = std::exchange(events_, {});
  const std::map<std::string, std::vector<MetricPoint>> metrics = std::exchange(metrics_, {});
  const std::size_t waiting = std::exchange(waiting_, 0);
  try {
    file_->reserve(static_cast<std::int64_t>(waiting * sizeof(TraceEvent)));
    file_->append(events);
    for (const auto& [name, points] : metrics) file_->append(name, points);
    file_->synchronize();
  } catch (...) {
    file_.reset();
    throw;
  }
}

void write_trace_master(const std::filesystem::path& path,
                        const std::vector<std::filesystem::path>& rank_files) {
  const hdf5::Session session;
  const std::string name = path.string();
  const hdf5::Doing doing{name, "writing"};
  const hdf5::Id file = hdf5::create_file(name);
  hdf5::write_attribute(file.get(), "format", std::string(trace_format::kMasterFormat), doing);
  hdf5::write_attribute(file.get(), "version", trace_format::kVersion, doing);
  hdf5::write_attribute(file.get(), "ranks", static_cast<std::int64_t>(rank_files.size()), doing);
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  for (std::size_t rank = 0; rank < rank_files.size(); ++rank) {
    const std::string link = "rank" + std::to_string(rank);
    const std::filesystem::path target =
        std::filesystem::absolute(rank_files[rank]).lexically_relative(folder);
    hdf5::check(
        H5Lcreate_external(target.c_str(), "/", file.get(), link.c_str(), H5P_DEFAULT, H5P_DEFAULT),
        {name, "linking " + link});
  }
  hdf5::check(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), doing);
}

}  // namespace hetpipe
