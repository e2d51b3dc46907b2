// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/trace_format.h"

#include <cstddef>

namespace hetpipe::trace_format {

hdf5::Id event_type(const hdf5::Doing& doing) {
  hdf5::Id type = hdf5::own(H5Tcreate(H5T_COMPOUND, sizeof(TraceEvent)), doing);
  const hdf5::Id letter = hdf5::own(H5Tcopy(H5T_C_S1), doing);  // h5py: b'F'
  hdf5::check(H5Tset_strpad(letter.get(), H5T_STR_NULLPAD), doing);
  const auto add = [&](const char* name, std::size_t offset, hid_t member) {
    hdf5::check(H5Tinsert(type.get(), name, offset, member), doing);
  };
  add("start_ns", offsetof(TraceEvent, start_ns), H5T_NATIVE_INT64);
  add("end_ns", offsetof(TraceEvent, end_ns), H5T_NATIVE_INT64);
  add("kind", offsetof(TraceEvent, kind), letter.get());
  add("minibatch", offsetof(TraceEvent, minibatch), H5T_NATIVE_INT64);
  add("micro_batch", offsetof(TraceEvent, micro_batch), H5T_NATIVE_INT32);
  add("chunk", offsetof(TraceEvent, chunk), H5T_NATIVE_INT32);
  add("version", offsetof(TraceEvent, version), H5T_NATIVE_INT64);
  add("bytes", offsetof(TraceEvent, bytes), H5T_NATIVE_INT64);
  add("samples", offsetof(TraceEvent, samples), H5T_NATIVE_INT32);
  return type;
}

hdf5::Id metric_type(const hdf5::Doing& doing) {
  hdf5::Id type = hdf5::own(H5Tcreate(H5T_COMPOUND, sizeof(MetricPoint)), doing);
  hdf5::check(H5Tinsert(type.get(), "wave", offsetof(MetricPoint, wave), H5T_NATIVE_INT64), doing);
  hdf5::check(H5Tinsert(type.get(), "value", offsetof(MetricPoint, value), H5T_NATIVE_DOUBLE),
              doing);
  return type;
}

}  // namespace hetpipe::trace_format
