// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_device.h"
#include "kernels/joint_loss.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/own/convert.h"
#include "kernels/cuda/own/damping.h"
#include "kernels/cuda/own/flat.h"
#include "kernels/cuda/own/optimizer.h"
#include "kernels/cuda/own_kernels.h"

namespace hetpipe::cuda {
namespace {

// A layer's calls on its own GPU, and failures with the layer's name.
class GuardedKernel final : public LayerKernel {
 public:
  GuardedKernel(std::unique_ptr<LayerKernel> kernel, int device, std::string name)
      : kernel_(std::move(kernel)), device_(device), name_(std::move(name)) {}

  void adjust(LayerShapes& shapes) const override { kernel_->adjust(shapes); }
  void prepare(bool input_gradients) override {
    guarded("preparation", [&] { kernel_->prepare(input_gradients); });
  }
  void forward(Stream& stream, const ForwardArguments& a) override {
    guarded("forward", [&] { kernel_->forward(stream, a); });
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    guarded("backward", [&] { kernel_->backward(stream, a); });
  }

 private:
  template <class Call>
  void guarded(const char* pass, const Call& call) const {
    use_gpu(device_);
    try {
      call();
    } catch (const OutOfMemory&) {
      throw;
    } catch (const SystemError& error) {
      throw SystemError(format("%s, in the %s of %s", error.what(), pass, name_.c_str()));
    }
  }

  std::unique_ptr<LayerKernel> kernel_;
  int device_;
  std::string name_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(GpuInfo gpu, Precision precision, std::unique_ptr<Context> libraries)
      : gpu_(std::move(gpu)),
        precision_(precision),
        memory_(gpu_.index),
        libraries_(std::move(libraries)),
        tables_(gpu_.index),
        layers_{*this, *libraries_, precision, tables_} {}

  const std::string& kind() const override { return kind_; }
  std::string description() const override {
    return gpu_.name + " (" + gpu_.uuid + "), " + to_string(precision_);
  }
  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<CudaStream>(gpu_.index);
  }
  Precision precision() const override { return precision_; }
  MemoryAccount& memory() override { return account_; }
  bool host_memory() const override { return false; }
  int index() const { return gpu_.index; }

  std::byte* allocate(Stream& stream, std::size_t bytes, MemoryKind kind) override {
    account_.take(bytes, kind);
    std::byte* const memory = memory_.take(handle(stream), bytes);
    if (memory != nullptr) return memory;
    account_.give_back(bytes, kind);
    std::size_t free = 0, total = 0;
    use_gpu(gpu_.index);
    check(cudaMemGetInfo(&free, &total), "asking for a GPU's free memory");
    throw OutOfMemory(format(
        "%s: no %s of memory left for %s (%s of %s free; others may use the card too). In use "
        "here:\n%s",
        gpu_.name.c_str(), format_bytes(static_cast<double>(bytes)).c_str(), to_string(kind),
        format_bytes(static_cast<double>(free)).c_str(),
        format_bytes(static_cast<double>(total)).c_str(), account_.ledger().c_str()));
  }
  void release(Stream& stream, std::byte* memory, std::size_t bytes,
               MemoryKind kind) noexcept override {
    memory_.give_back(handle(stream), memory);
    account_.give_back(bytes, kind);
  }
  std::byte* allocate_host(std::size_t bytes) override {
    use_gpu(gpu_.index);
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable),
          format("locking %s of host memory", format_bytes(static_cast<double>(bytes)).c_str()));
    return static_cast<std::byte*>(memory);
  }
  void release_host(std::byte* memory, std::size_t) noexcept override { cudaFreeHost(memory); }

  void copy(Stream& stream, std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (bytes == 0) return;
    use_gpu(gpu_.index);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, handle(stream)), "copying");
  }

  std::unique_ptr<LayerKernel> make_kernel(const LayerSpec& spec, const std::vector<Shape>& inputs,
                                           std::uint64_t key) override {
    infer_shapes(spec, inputs);  // refuses what does not fit together
    if (const auto* joint = std::get_if<JointLoss>(&spec)) {
      return make_joint_loss(*this, *joint, inputs);
    }
    use_gpu(gpu_.index);
    std::unique_ptr<LayerKernel> kernel =
        std::visit([&](const auto& layer) { return make(layer, inputs, key); }, spec);
    return std::make_unique<GuardedKernel>(std::move(kernel), gpu_.index,
                                           to_string(spec) + " on " + to_string(inputs[0]));
  }

  void load_code() override {
    use_gpu(gpu_.index);
    load_own_kernels();
  }

  std::unique_ptr<LayerKernel> fuse(std::span<const ChainedLayer> chain) override {
    use_gpu(gpu_.index);
    std::unique_ptr<LayerKernel> kernel = fuse_layers(layers_, chain);
    if (kernel == nullptr) return nullptr;
    return std::make_unique<GuardedKernel>(
        std::move(kernel), gpu_.index,
        to_string(chain) + " on " + to_string(chain.front().inputs[0]));
  }

  void accumulate(Stream& stream, std::byte* y, const std::byte* x, std::int64_t count) override {
    use_gpu(gpu_.index);
    switch (element_type()) {
      case ElementType::fp32:
        return cuda::add(as<float>(y), as<float>(x), count, handle(stream));
      case ElementType::bf16:
        return cuda::add(as<Bf16>(y), as<Bf16>(x), count, handle(stream));
      case ElementType::fp16:
        return cuda::add(as<Fp16>(y), as<Fp16>(x), count, handle(stream));
    }
  }
  void convert(Stream& stream, std::byte* to, ElementType to_type, const std::byte* from,
               ElementType from_type, std::int64_t count) override {
    use_gpu(gpu_.index);
    switch (from_type) {
      case ElementType::fp32:
        return convert_from<float>(stream, to, to_type, from, count);
      case ElementType::bf16:
        return convert_from<Bf16>(stream, to, to_type, from, count);
      case ElementType::fp16:
        return convert_from<Fp16>(stream, to, to_type, from, count);
    }
  }
  void unpack(Stream& stream, std::byte* to, ElementType to_type, const std::byte* from,
              SampleType from_type, std::int64_t count, const PixelScale& scale) override {
    use_gpu(gpu_.index);
    switch (to_type) {
      case ElementType::fp32:
        return unpack_to<float>(stream, to, from, from_type, count, scale);
      case ElementType::bf16:
        return unpack_to<Bf16>(stream, to, from, from_type, count, scale);
      case ElementType::fp16:
        return unpack_to<Fp16>(stream, to, from, from_type, count, scale);
    }
  }

  void fill(Stream& stream, float* x, float value, std::int64_t count) override {
    use_gpu(gpu_.index);
    cuda::fill(x, value, count, handle(stream));
  }
  void add(Stream& stream, float* y, const float* x, std::int64_t count) override {
    use_gpu(gpu_.index);
    cuda::add(y, x, count, handle(stream));
  }
  void sum(Stream& stream, float* z, const float* x, const float* y, std::int64_t count) override {
    use_gpu(gpu_.index);
    cuda::sum(z, x, y, count, handle(stream));
  }
  void scale(Stream& stream, float* y, float factor, std::int64_t count) override {
    use_gpu(gpu_.index);
    cuda::scale(y, factor, count, handle(stream));
  }
  void sum_of_squares(Stream& stream, double* sum, const float* x, std::int64_t count) override {
    use_gpu(gpu_.index);
    const Workspace<double> scratch(layers_, stream, squares_scratch(count));
    cuda::sum_of_squares(sum, x, count, scratch.get(), doubles_of(gpu_.major, gpu_.minor),
                         handle(stream));
  }
  void limit_norm(Stream& stream, float* y, const double* squares, std::int64_t parts,
                  double max_norm, std::int64_t count) override {
    use_gpu(gpu_.index);
    const Workspace<float> factor(layers_, stream, 1);
    cuda::limit_norm(y, squares, parts, max_norm, count, factor.get(), handle(stream));
  }
  void sgd(Stream& stream, float* delta, float* velocity, const float* gradient,
           const float* weights, const SgdOptions& options, std::int64_t count) override {
    use_gpu(gpu_.index);
    ensure(velocity != nullptr || options.momentum == 0, "momentum needs a velocity");
    cuda::sgd(delta, velocity, gradient, weights, options, count, handle(stream));
  }
  void adam(Stream& stream, float* delta, float* first, float* second, const float* gradient,
            const float* weights, const AdamOptions& options, std::int64_t step,
            std::int64_t count) override {
    use_gpu(gpu_.index);
    ensure(step >= 1, "Adam's steps count from 1");
    cuda::adam(delta, first, second, gradient, weights, options, step, count, handle(stream));
  }
  void rmsprop(Stream& stream, float* delta, float* second, const float* gradient,
               const float* weights, const RmspropOptions& options, std::int64_t count) override {
    use_gpu(gpu_.index);
    cuda::rmsprop(delta, second, gradient, weights, options, count, handle(stream));
  }
  void scale_by_trust(Stream& stream, float* update, const double* squares, float rate,
                      std::int64_t count) override {
    use_gpu(gpu_.index);
    const Workspace<float> factor(layers_, stream, 1);
    cuda::scale_by_trust(update, squares, rate, count, factor.get(), handle(stream));
  }
  void damp(Stream& stream, float* d, const DampedMatrix& matrix,
            const DampOptions& options) override {
    use_gpu(gpu_.index);
    const Workspace<double> squares(layers_, stream, 1 + squares_scratch(matrix.inputs()));
    const Workspace<float> scratch(layers_, stream, damp_scratch(matrix));
    cuda::damp(d, matrix, options, squares.get(), scratch.get(), handle(stream));
  }
  void look_ahead(Stream& stream, float* ahead, const float* weights, const float* x, float factor,
                  std::int64_t count) override {
    use_gpu(gpu_.index);
    cuda::look_ahead(ahead, weights, x, factor, count, handle(stream));
  }
  void look_ahead_adam(Stream& stream, float* ahead, const float* weights, const float* first,
                       const float* second, const AdamOptions& options, std::int64_t step,
                       float factor, std::int64_t count) override {
    use_gpu(gpu_.index);
    ensure(step >= 1, "Adam's steps count from 1");
    cuda::look_ahead_adam(ahead, weights, first, second, options, step, factor, count,
                          handle(stream));
  }

 private:
  using Inputs = std::vector<Shape>;

  template <class From>
  static void convert_from(Stream& stream, std::byte* to, ElementType to_type,
                           const std::byte* from, std::int64_t count) {
    switch (to_type) {
      case ElementType::fp32:
        return cuda::convert(as<From>(from), as<float>(to), count, handle(stream));
      case ElementType::bf16:
        return cuda::convert(as<From>(from), as<Bf16>(to), count, handle(stream));
      case ElementType::fp16:
        return cuda::convert(as<From>(from), as<Fp16>(to), count, handle(stream));
    }
  }
  template <class To>
  static void unpack_to(Stream& stream, std::byte* to, const std::byte* from, SampleType from_type,
                        std::int64_t count, const PixelScale& scale) {
    switch (from_type) {
      case SampleType::pixels:
        return cuda::pixels(as<std::uint8_t>(from), as<To>(to), count, scale, handle(stream));
      case SampleType::tokens:
        return cuda::tokens(as<std::uint16_t>(from), as<To>(to), count, handle(stream));
      case SampleType::floats:
        return cuda::convert(as<float>(from), as<To>(to), count, handle(stream));
    }
  }

  LayerMaker make(const Convolution& l, const Inputs& in, std::uint64_t) {
    return make_convolution(layers_, l, in[0]);
  }
  LayerMaker make(const Linear& l, const Inputs& in, std::uint64_t) {
    return make_linear(layers_, l, in[0]);
  }
  LayerMaker make(const BatchNorm& l, const Inputs& in, std::uint64_t) {
    return make_batch_norm(layers_, l, {}, in[0]);
  }
  template <Elementwise Layer>
  LayerMaker make(const Layer& l, const Inputs& in, std::uint64_t) {
    return make_elementwise(layers_, l, in[0]);
  }
  template <class Layer>
  requires std::is_same_v<Layer, MaxPool> || std::is_same_v<Layer, AveragePool> ||
      std::is_same_v<Layer, GlobalAveragePool>
          LayerMaker make(const Layer& l, const Inputs& in, std::uint64_t) {
    return make_pooling(layers_, l, in[0]);
  }
  template <class Layer>
  requires std::is_same_v<Layer, Dropout> || std::is_same_v<Layer, AlphaDropout> LayerMaker
  make(const Layer& l, const Inputs& in, std::uint64_t key) {
    return make_dropout(layers_, l, in[0], key);
  }
  LayerMaker make(const Add&, const Inputs& in, std::uint64_t) { return make_add(layers_, in[0]); }
  LayerMaker make(const Flatten&, const Inputs& in, std::uint64_t) {
    return make_flatten(layers_, in[0]);
  }
  LayerMaker make(const Concat&, const Inputs& in, std::uint64_t) {
    return make_concat(layers_, in);
  }
  LayerMaker make(const Shift& l, const Inputs& in, std::uint64_t) {
    return make_shift(layers_, l, in[0]);
  }
  LayerMaker make(const Embedding& l, const Inputs& in, std::uint64_t) {
    return make_embedding(layers_, l, in[0]);
  }
  LayerMaker make(const PositionEmbedding& l, const Inputs& in, std::uint64_t) {
    return make_positions(layers_, l, in[0]);
  }
  LayerMaker make(const LayerNorm& l, const Inputs& in, std::uint64_t) {
    return make_layer_norm(layers_, l, in[0]);
  }
  LayerMaker make(const SelfAttention& l, const Inputs& in, std::uint64_t) {
    return make_attention(layers_, l, in[0]);
  }
  LayerMaker make(const Lstm& l, const Inputs& in, std::uint64_t) {
    return make_lstm(layers_, l, in[0]);
  }
  LayerMaker make(const TransposedConvolution& l, const Inputs& in, std::uint64_t) {
    return make_transposed_convolution(layers_, l, in[0]);
  }
  LayerMaker make(const Resize& l, const Inputs& in, std::uint64_t) {
    return make_resize(layers_, l, in[0]);
  }
  LayerMaker make(const AdaptivePool& l, const Inputs& in, std::uint64_t) {
    return make_pooling(layers_, l, in[0]);
  }
  LayerMaker make(const RmsNorm& l, const Inputs& in, std::uint64_t) {
    return make_rms_norm(layers_, l, in[0]);
  }
  LayerMaker make(const GroupNorm& l, const Inputs& in, std::uint64_t) {
    return make_group_norm(layers_, l, in[0]);
  }
  template <class Layer>
  requires OneOf<Layer, RegressionLoss, OutputLoss> LayerMaker make(const Layer& l,
                                                                    const Inputs& in,
                                                                    std::uint64_t) {
    return make_loss(layers_, l, in[0]);
  }
  LayerMaker make(const SoftmaxCrossEntropy& l, const Inputs& in, std::uint64_t) {
    return make_loss(layers_, l, in[0]);
  }

  LayerMaker make(const JointLoss&, const Inputs&, std::uint64_t) {
    ensure(false, "a joint loss is made of kernels of this device");
    return nullptr;
  }

  LayerMaker make(const Pointwise& l, const Inputs& in, std::uint64_t) {
    return make_pointwise(layers_, l, in);
  }
  LayerMaker make(const Move& l, const Inputs& in, std::uint64_t) {
    return make_move(layers_, l, in);
  }
  LayerMaker make(const Reduce& l, const Inputs& in, std::uint64_t) {
    return make_reduce(layers_, l, in[0]);
  }
  LayerMaker make(const Softmax& l, const Inputs& in, std::uint64_t) {
    return make_softmax(layers_, l, in[0]);
  }
  LayerMaker make(const CumulativeSum&, const Inputs& in, std::uint64_t) {
    return make_cumulative_sum(layers_, in[0]);
  }
  LayerMaker make(const hetpipe::Product& l, const Inputs& in, std::uint64_t) {
    return make_product(layers_, l, in);
  }
  LayerMaker make(const Attention& l, const Inputs& in, std::uint64_t key) {
    return make_attention(layers_, l, in, key);
  }
  LayerMaker make(const Recurrent& l, const Inputs& in, std::uint64_t) {
    return make_recurrent(layers_, l, in[0]);
  }

  std::string kind_ = "cuda";
  GpuInfo gpu_;
  Precision precision_;
  CudaMemory memory_;
  MemoryAccount account_;
  std::unique_ptr<Context> libraries_;
  CudaStream tables_;
  LayerContext layers_;
};

void check_precision(const GpuInfo& gpu, Precision precision) {
  const bool bf16 = gpu.major >= 8, tf32 = gpu.major >= 8, fp16 = gpu.major >= 6;
  if (precision == Precision::fp32 || (precision == Precision::bf16 && bf16) ||
      (precision == Precision::tf32 && tf32) || (precision == Precision::fp16 && fp16)) {
    return;
  }
  throw UserError("--precision " + to_string(precision),
                  format("is not supported by %s (compute capability %d.%d). Give %sfp32.",
                         gpu.name.c_str(), gpu.major, gpu.minor, fp16 ? "fp16 or " : ""));
}

}  // namespace

int index_of(const Device& device) { return dynamic_cast<const CudaDevice&>(device).index(); }

std::unique_ptr<Device> make_cuda_device(const GpuOptions& options) {
  const std::vector<GpuInfo> gpus = find_gpus();
  if (options.index < 0 || options.index >= static_cast<int>(gpus.size())) {
    throw UserError("", format("GPU %d does not exist (CUDA lists %zu). Give a smaller number.",
                               options.index, gpus.size()));
  }
  const GpuInfo& gpu = gpus[static_cast<std::size_t>(options.index)];
  if (!gpu.why_not.empty()) throw SystemError(gpu.why_not);
  const Precision precision = options.precision.value_or(usual_precision(gpu));
  check_precision(gpu, precision);
  use_gpu(gpu.index);
  PlanOptions plans;
  plans.cache_file = options.plan_cache;
  plans.workspace = options.workspace > 0 ? options.workspace : workspace_of_card(gpu.memory);
  plans.warn = [said = std::set<std::string>()](const std::string& text) mutable {
    if (said.insert(text).second) std::fprintf(stderr, "note: %s\n", text.c_str());
  };
  return std::make_unique<CudaDevice>(gpu, precision, Context::on_device(std::move(plans)));
}

}  // namespace hetpipe::cuda
