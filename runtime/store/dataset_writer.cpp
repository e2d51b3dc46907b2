// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/dataset_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/temporary_file.h"
#include "runtime/store/hdf5.h"
#include "runtime/store/name_list.h"

namespace hetpipe {
namespace {

constexpr std::size_t kImageBytes = std::size_t{1} << 24;  // images are written in pieces

[[noreturn]] void failed(const std::filesystem::path& path, const char* step) {
  const int error = errno;
  throw SystemError("cannot write " + path.string() + ": " + step + ": " + std::strerror(error));
}

void sync(const std::filesystem::path& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) failed(path, "open");
  const bool synced = ::fsync(fd) == 0 || errno == EINVAL;  // folders of some network file systems
  const int error = errno;
  ::close(fd);
  errno = error;
  if (!synced) failed(path, "fsync");
}

// Groups and data sets without times.
hdf5::Id without_times(hid_t kind, const hdf5::Doing& doing) {
  hdf5::Id list = hdf5::own(H5Pcreate(kind), doing);
  hdf5::check(H5Pset_obj_track_times(list.get(), false), doing);
  return list;
}

hdf5::Id create_dataset(hid_t place, const char* name, hid_t type,
                        const std::vector<hsize_t>& shape, const hdf5::Doing& doing) {
  const hdf5::Id space =
      hdf5::own(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), doing);
  const hdf5::Id creation = without_times(H5P_DATASET_CREATE, doing);
  return hdf5::own(
      H5Dcreate2(place, name, type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), doing);
}

}  // namespace

struct DatasetWriter::State {
  explicit State(const std::filesystem::path& to)
      : path(to), temporary(temporary_name(to.string())) {}

  std::filesystem::path path;
  TemporaryFile temporary;
  hdf5::Id file, group, images;
  std::vector<hsize_t> shape;  // of the present split's images
  std::size_t image_bytes = 0;
  hsize_t written = 0;                // images
  std::vector<std::uint8_t> waiting;  // whole images

  hdf5::Doing doing(const char* what) const { return {temporary.path(), what}; }

  void flush() {
    if (waiting.empty()) return;
    std::vector<hsize_t> start(shape.size(), 0), count = shape;
    start[0] = written;
    count[0] = waiting.size() / image_bytes;
    const hdf5::Doing writing = doing("writing images");
    const hdf5::Id to = hdf5::own(H5Dget_space(images.get()), writing);
    hdf5::check(
        H5Sselect_hyperslab(to.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
        writing);
    const hdf5::Id from =
        hdf5::own(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), writing);
    hdf5::check(
        H5Dwrite(images.get(), H5T_NATIVE_UINT8, from.get(), to.get(), H5P_DEFAULT, waiting.data()),
        writing);
    written += count[0];
    waiting.clear();
  }
  void end_split() {
    flush();
    ensure(shape.empty() || written == shape[0], "a split holds as many images as labels");
    images.reset();
    group.reset();
    written = 0;
    shape.clear();
  }
};

DatasetWriter::DatasetWriter(const std::filesystem::path& path) : state_(new State(path)) {
  const hdf5::Session session;
  const int empty = state_->temporary.create();
  if (empty < 0) failed(state_->temporary.path(), "open");
  ::close(empty);  // HDF5 opens it by its name
  state_->file = hdf5::create_file(state_->temporary.path());
}

DatasetWriter::~DatasetWriter() {
  const hdf5::Session session;
  state_->images.reset();
  state_->group.reset();
  state_->file.reset();
}

void DatasetWriter::begin(Split split, int height, int width, int channels,
                          std::span<const std::int32_t> labels) {
  const hdf5::Session session;
  State& s = *state_;
  s.end_split();
  const hdf5::Doing creating = s.doing("creating a split");
  const hdf5::Id creation = without_times(H5P_GROUP_CREATE, creating);
  s.group = hdf5::own(
      H5Gcreate2(s.file.get(), split_name(split), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
      creating);
  s.shape = {labels.size(), static_cast<hsize_t>(height), static_cast<hsize_t>(width),
             static_cast<hsize_t>(channels)};
  s.image_bytes = static_cast<std::size_t>(s.shape[1] * s.shape[2] * s.shape[3]);
  s.images = create_dataset(s.group.get(), "images", H5T_STD_U8LE, s.shape, creating);
  hdf5::write_attribute(s.images.get(), "layout", "NHWC", creating);
  const hdf5::Id stored =
      create_dataset(s.group.get(), "labels", H5T_STD_I32LE, {labels.size()}, creating);
  hdf5::check(
      H5Dwrite(stored.get(), H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, labels.data()),
      s.doing("writing labels"));
}

void DatasetWriter::append(std::span<const std::uint8_t> image) {
  State& s = *state_;
  ensure(!s.shape.empty() && image.size() == s.image_bytes, "an image of the split's shape");
  s.waiting.insert(s.waiting.end(), image.begin(), image.end());
  if (s.waiting.size() < kImageBytes) return;
  const hdf5::Session session;
  s.flush();
}

void DatasetWriter::commit(std::span<const std::string> class_names) {
  State& s = *state_;
  {
    const hdf5::Session session;
    s.end_split();
    if (!class_names.empty()) {
      hdf5::write_name_list(s.file.get(), hdf5::kClassNames, class_names,
                            s.doing("writing class names"));
    }
    const hdf5::Doing closing = s.doing("closing");
    hdf5::check(H5Fflush(s.file.get(), H5F_SCOPE_GLOBAL), closing);
    hdf5::check(H5Fclose(s.file.release()), closing);
  }
  sync(s.temporary.path(), O_RDONLY);
  if (!s.temporary.becomes(s.path.string())) failed(s.path, "rename");
  sync(s.path.has_parent_path() ? s.path.parent_path() : ".", O_RDONLY | O_DIRECTORY);
}

}  // namespace hetpipe
