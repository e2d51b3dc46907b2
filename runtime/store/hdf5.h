// SPDX-License-Identifier: Apache-2.0
#pragma once

// Private to this folder: the only place that sees HDF5's header. Ids are owned, every call is
// checked, and the library's error stack becomes the text of an exception.

#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/unique_handle.h"

namespace hetpipe::hdf5 {

// Held by every public function of the store while it talks to HDF5: ranks may be threads of one
// process. Silences the printing of errors too, which HDF5 keeps per thread.
class Session {
 public:
  Session();
  static std::optional<Session> try_begin();  // nothing while another thread talks to HDF5

 private:
  explicit Session(std::unique_lock<std::recursive_mutex> lock);
  std::unique_lock<std::recursive_mutex> lock_;
};

// Any kind of id: file, group, dataset, dataspace, datatype, attribute, property list.
struct IdTraits {
  using Handle = hid_t;
  static Handle empty() { return H5I_INVALID_HID; }
  static void close(Handle id) noexcept;
};
using Id = UniqueHandle<IdTraits>;

// The innermost message of HDF5's error stack, and the outermost.
std::string error_text();

// Context of a failure: the file and the operation.
struct Doing {
  std::string path;
  std::string operation;  // "create dataset model/conv1/weight"
};

[[noreturn]] void fail(const Doing& doing);  // SystemError

// Passes a result on; a negative one (HDF5's error) throws SystemError.
template <class Result>
Result check(Result result, const Doing& doing) {
  static_assert(std::is_signed_v<Result>);
  if (result < 0) fail(doing);
  return result;
}

Id own(hid_t id, const Doing& doing);  // checked

// File access of every file here: format of HDF5 1.8, whose metadata carry checksums; no file
// locks, which some network file systems lack (a run directory is locked as a whole).
Id file_access(const std::string& path);
Id open_to_read(const std::string& path);  // SystemError; the caller says what it means
// An open file by its descriptor, whatever its current name.
Id open_descriptor(int fd, const Doing& doing);
Id create_in_descriptor(int fd, hid_t creation, hsize_t metadata_block, const Doing& doing);
Id create_file(const std::string& path);              // replaces an existing one
bool has_link(hid_t place, const std::string& name);  // false too when a parent is missing
bool has_attribute(hid_t place, const std::string& name, const Doing& doing);
std::vector<std::string> child_names(hid_t group, const Doing& doing);      // sorted
std::vector<std::string> attribute_names(hid_t place, const Doing& doing);  // sorted

void write_attribute(hid_t place, const std::string& name, const std::string& value,
                     const Doing& doing);
void write_attribute(hid_t place, const std::string& name, std::int64_t value, const Doing& doing);
void write_attribute(hid_t place, const std::string& name, std::uint64_t value, const Doing& doing);
void write_attribute(hid_t place, const std::string& name, double value, const Doing& doing);
// The attribute must exist and be of that kind; SystemError otherwise.
std::string read_text(hid_t place, const std::string& name, const Doing& doing);
std::int64_t read_integer(hid_t place, const std::string& name, const Doing& doing);
std::uint64_t read_unsigned(hid_t place, const std::string& name, const Doing& doing);

double read_double(hid_t place, const std::string& name, const Doing& doing);

std::vector<hsize_t> shape_of(hid_t dataset, const Doing& doing);
std::string shape_text(const std::vector<hsize_t>& shape);  // "(60000, 28, 28, 1)"
struct Rows {                                               // of a dataset: [first, first + count)
  std::int64_t first = 0;
  std::int64_t count = 0;
};
// As elements of `type`.
void read_rows(hid_t dataset, Rows rows, hid_t type, void* out, const Doing& doing);
// Looks up where every chunk of a dataset lies.
void look_up_chunks(hid_t dataset, const Doing& doing);
// Property list that creates missing groups on the way to a name.
Id creating_parents(const Doing& doing);

}  // namespace hetpipe::hdf5
