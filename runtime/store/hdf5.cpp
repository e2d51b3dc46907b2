// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/hdf5.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe::hdf5 {
namespace {

std::recursive_mutex& mutex() {
  static std::recursive_mutex one;
  return one;
}

herr_t keep_message(unsigned, const H5E_error2_t* error, void* data) {
  auto& messages = *static_cast<std::vector<std::string>*>(data);
  if (error->desc == nullptr || *error->desc == '\0') return 0;
  std::string text = error->desc;
  std::erase(text, '\n');  // behind the time in what it says of failed writes
  messages.push_back(std::move(text));
  return 0;
}

}  // namespace

Session::Session() : Session(std::unique_lock(mutex())) {}

Session::Session(std::unique_lock<std::recursive_mutex> lock) : lock_(std::move(lock)) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

std::optional<Session> Session::try_begin() {
  std::unique_lock lock(mutex(), std::try_to_lock);
  if (!lock) return std::nullopt;
  return Session(std::move(lock));
}

void IdTraits::close(Handle id) noexcept {
  if (H5Idec_ref(id) < 0) {
    std::fprintf(stderr, "HDF5: closing an object failed: %s\n", error_text().c_str());
  }
}

std::string error_text() {
  std::vector<std::string> messages;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_message, &messages);
  if (messages.empty()) return "no message";
  if (messages.size() == 1) return messages.front();
  return messages.back() + ": " + messages.front();
}

void fail(const Doing& doing) {
  throw SystemError("HDF5: " + doing.operation + " of " + doing.path + " failed: " + error_text());
}

Id own(hid_t id, const Doing& doing) { return Id(check(id, doing)); }

Id file_access(const std::string& path) {
  const Doing doing{path, "set-up of access"};
  Id access = own(H5Pcreate(H5P_FILE_ACCESS), doing);
  check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18), doing);
  check(H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG), doing);
  check(H5Pset_file_locking(access.get(), false, true), doing);
  // Rows of one chunk are read one after another.
  check(H5Pset_cache(access.get(), 0, 521, std::size_t{16} << 20, 0.75), doing);
  return access;
}

Id open_to_read(const std::string& path) {
  const Id access = file_access(path);
  return own(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), {path, "opening"});
}

namespace {

std::string descriptor_path(int fd) { return format("/proc/self/fd/%d", fd); }

// By the C library's streams: HDF5's other drivers look up the real path, which a file without a
// name has not.
Id descriptor_access(const Doing& doing) {
  Id access = file_access(doing.path);
  check(H5Pset_fapl_stdio(access.get()), doing);
  return access;
}

}  // namespace

Id open_descriptor(int fd, const Doing& doing) {
  const Id access = descriptor_access(doing);
  return own(H5Fopen(descriptor_path(fd).c_str(), H5F_ACC_RDONLY, access.get()), doing);
}

Id create_in_descriptor(int fd, hid_t creation, hsize_t metadata_block, const Doing& doing) {
  const Id access = descriptor_access(doing);
  check(H5Pset_meta_block_size(access.get(), metadata_block), doing);
  return own(H5Fcreate(descriptor_path(fd).c_str(), H5F_ACC_TRUNC, creation, access.get()), doing);
}

Id create_file(const std::string& path) {
  const Id access = file_access(path);
  return own(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), {path, "creation"});
}

bool has_link(hid_t place, const std::string& name) {
  for (std::size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
    const std::string part = name.substr(0, end);
    if (part != "/" && H5Lexists(place, part.c_str(), H5P_DEFAULT) <= 0) return false;
    if (end == std::string::npos) return true;
  }
}

bool has_attribute(hid_t place, const std::string& name, const Doing& doing) {
  return check(H5Aexists(place, name.c_str()), {doing.path, "looking for attribute " + name}) > 0;
}

std::vector<std::string> child_names(hid_t group, const Doing& doing) {
  H5G_info_t info{};
  check(H5Gget_info(group, &info), doing);
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const auto name = [&](char* text, std::size_t size) {
      return check(
          H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, text, size, H5P_DEFAULT),
          doing);
    };
    std::string text(static_cast<std::size_t>(name(nullptr, 0)), '\0');
    name(text.data(), text.size() + 1);
    names.push_back(std::move(text));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> attribute_names(hid_t place, const Doing& doing) {
  std::vector<std::string> names;
  const auto keep = [](hid_t, const char* name, const H5A_info_t*, void* data) -> herr_t {
    static_cast<std::vector<std::string>*>(data)->emplace_back(name);
    return 0;
  };
  check(H5Aiterate2(place, H5_INDEX_NAME, H5_ITER_INC, nullptr, keep, &names), doing);
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

// One more word for the message.
Doing attribute_of(const Doing& doing, const std::string& name) {
  return {doing.path, doing.operation + ", attribute " + name};
}

// Of variable length, which h5py hands out as str and not as bytes.
Id text_type(const Doing& doing) {
  Id type = own(H5Tcopy(H5T_C_S1), doing);
  check(H5Tset_size(type.get(), H5T_VARIABLE), doing);
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), doing);
  return type;
}

void write_value(hid_t place, const std::string& name, hid_t file_type, hid_t memory_type,
                 const void* value, const Doing& doing) {
  const Doing here = attribute_of(doing, name);
  const Id space = own(H5Screate(H5S_SCALAR), here);
  const Id attribute =
      own(H5Acreate2(place, name.c_str(), file_type, space.get(), H5P_DEFAULT, H5P_DEFAULT), here);
  check(H5Awrite(attribute.get(), memory_type, value), here);
}

// A scalar attribute of the class that is needed.
Id open_value(hid_t place, const std::string& name, H5T_class_t wanted, const Doing& doing) {
  if (!has_attribute(place, name, doing)) {
    throw SystemError("HDF5: " + doing.operation + " of " + doing.path + ": no attribute " + name);
  }
  Id attribute = own(H5Aopen(place, name.c_str(), H5P_DEFAULT), doing);
  const Id type = own(H5Aget_type(attribute.get()), doing);
  const Id space = own(H5Aget_space(attribute.get()), doing);
  if (H5Tget_class(type.get()) != wanted || H5Sget_simple_extent_npoints(space.get()) != 1) {
    throw SystemError("HDF5: " + doing.operation + " of " + doing.path + ": attribute " + name +
                      " has the wrong type");
  }
  return attribute;
}

}  // namespace

void write_attribute(hid_t place, const std::string& name, const std::string& value,
                     const Doing& doing) {
  const Id type = text_type(doing);
  const char* text = value.c_str();
  write_value(place, name, type.get(), type.get(), &text, doing);
}

void write_attribute(hid_t place, const std::string& name, std::int64_t value, const Doing& doing) {
  write_value(place, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value, doing);
}

void write_attribute(hid_t place, const std::string& name, std::uint64_t value,
                     const Doing& doing) {
  write_value(place, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, &value, doing);
}

void write_attribute(hid_t place, const std::string& name, double value, const Doing& doing) {
  write_value(place, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value, doing);
}

std::string read_text(hid_t place, const std::string& name, const Doing& doing) {
  const Doing here = attribute_of(doing, name);
  const Id attribute = open_value(place, name, H5T_STRING, here);
  const Id stored = own(H5Aget_type(attribute.get()), here);
  if (check(H5Tis_variable_str(stored.get()), here) == 0) {
    throw SystemError("HDF5: " + here.operation + " of " + here.path +
                      ": a string of variable length is needed");
  }
  const Id type = text_type(here);
  char* text = nullptr;
  check(H5Aread(attribute.get(), type.get(), &text), here);
  std::string value = text == nullptr ? "" : text;
  H5free_memory(text);
  return value;
}

std::int64_t read_integer(hid_t place, const std::string& name, const Doing& doing) {
  const Id attribute = open_value(place, name, H5T_INTEGER, doing);
  std::int64_t value = 0;
  check(H5Aread(attribute.get(), H5T_NATIVE_INT64, &value), attribute_of(doing, name));
  return value;
}

std::uint64_t read_unsigned(hid_t place, const std::string& name, const Doing& doing) {
  const Id attribute = open_value(place, name, H5T_INTEGER, doing);
  std::uint64_t value = 0;
  check(H5Aread(attribute.get(), H5T_NATIVE_UINT64, &value), attribute_of(doing, name));
  return value;
}

double read_double(hid_t place, const std::string& name, const Doing& doing) {
  const Id attribute = open_value(place, name, H5T_FLOAT, doing);
  double value = 0;
  check(H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, &value), attribute_of(doing, name));
  return value;
}

std::vector<hsize_t> shape_of(hid_t dataset, const Doing& doing) {
  const Id space = own(H5Dget_space(dataset), doing);
  const int rank = check(H5Sget_simple_extent_ndims(space.get()), doing);
  std::vector<hsize_t> shape(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr), doing);
  return shape;
}

std::string shape_text(const std::vector<hsize_t>& shape) {
  std::vector<std::string> sides;
  for (hsize_t side : shape) sides.push_back(std::to_string(side));
  return "(" + join(sides, ", ") + ")";
}

Id creating_parents(const Doing& doing) {
  Id list = own(H5Pcreate(H5P_LINK_CREATE), doing);
  check(H5Pset_create_intermediate_group(list.get(), 1), doing);
  return list;
}

void read_rows(hid_t dataset, Rows rows, hid_t type, void* out, const Doing& doing) {
  std::vector<hsize_t> part = shape_of(dataset, doing);
  std::vector<hsize_t> start(part.size(), 0);
  start[0] = static_cast<hsize_t>(rows.first);
  part[0] = static_cast<hsize_t>(rows.count);
  const Id from = own(H5Dget_space(dataset), doing);
  check(
      H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, start.data(), nullptr, part.data(), nullptr),
      doing);
  const Id to = own(H5Screate_simple(static_cast<int>(part.size()), part.data(), nullptr), doing);
  check(H5Dread(dataset, type, to.get(), from.get(), H5P_DEFAULT, out), doing);
}

void look_up_chunks(hid_t dataset, const Doing& doing) {
  hsize_t chunks = 0;
  const Id layout = own(H5Dget_create_plist(dataset), doing);
  if (H5Pget_layout(layout.get()) != H5D_CHUNKED) return;
  check(H5Dget_num_chunks(dataset, H5S_ALL, &chunks), doing);
}

}  // namespace hetpipe::hdf5
