// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/onednn.h"

#include "base/error.h"
#include "base/text.h"
#include "kernels/cpu/cpu_device.h"

namespace hetpipe {

std::string onednn_version() {
  const dnnl::version_t* v = dnnl::version();
  return format("oneDNN %d.%d.%d", v->major, v->minor, v->patch);
}

void rethrow(const dnnl::error& error, const std::string& during) {
  throw SystemError(format("oneDNN: %s (status %d), %s", error.message,
                           static_cast<int>(error.status), during.c_str()));
}

void Primitive::run(CpuContext& context, Stream& stream, Arguments arguments) const {
  Buffer scratchpad(context.device, stream, scratchpad_.get_size(), MemoryKind::workspace);
  if (scratchpad) {
    arguments.emplace(DNNL_ARG_SCRATCHPAD, view(context, scratchpad_, scratchpad.data()));
  }
  primitive_.execute(context.stream, arguments);
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::memory view(const CpuContext& context, const dnnl::memory::desc& desc, const void* data) {
  return dnnl::memory(desc, context.engine, const_cast<void*>(data));
}

dnnl::memory::desc plain(const dnnl::memory::dims& dims, dnnl::memory::format_tag tag) {
  return {dims, dnnl::memory::data_type::f32, tag};
}

dnnl::memory::desc nhwc(const Shape& shape) {
  return plain({shape[0], shape[3], shape[1], shape[2]}, dnnl::memory::format_tag::nhwc);
}

Reorder::Reorder(const CpuContext& context, const dnnl::memory::desc& from,
                 const dnnl::memory::desc& to)
    : needed_(from != to) {
  if (!needed_) return;
  primitive_ = Primitive(
      dnnl::reorder::primitive_desc(context.engine, from, context.engine, to, attributes()));
}

void Reorder::run(CpuContext& context, Stream& stream, const dnnl::memory& from,
                  dnnl::memory& to) const {
  primitive_.run(context, stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Matrix& a,
              const Matrix& b, float beta, float* c, std::int64_t c_step, float alpha) {
  const dnnl::status status =
      dnnl::sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', rows, columns, inner, alpha,
                  a.data, a.step, b.data, b.step, beta, c, c_step);
  if (status != dnnl::status::success) {
    throw dnnl::error(static_cast<dnnl_status_t>(status), "a product of matrices failed");
  }
}

}  // namespace hetpipe
