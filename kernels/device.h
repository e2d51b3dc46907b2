// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/sample_type.h"
#include "kernels/chain.h"
#include "kernels/damping.h"
#include "kernels/element.h"
#include "kernels/layer.h"
#include "kernels/memory_account.h"
#include "kernels/shape.h"

// The work of one device. It is asynchronous by stream and event on every device: a kernel is
// enqueued on a stream, an event recorded behind it, and whoever needs the result waits for (or
// polls) the event. The CPU devices' streams run inline, so callers need no second way.
namespace hetpipe {

inline constexpr std::int64_t kSquaresBlock = 4096;

// A point in a stream's work.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool done() const = 0;  // never blocks
  // Of one from record_time() that is done: when it was, on the host's clock (base/time.h), to
  // some microseconds.
  virtual std::int64_t done_ns() const = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual std::unique_ptr<Event> record() = 0;  // done once all work enqueued so far is
  virtual std::unique_ptr<Event> record_time() { return record(); }  // which also notes when
  virtual void wait(const Event& event) = 0;  // later work waits for it (on the device)
  virtual void synchronize() = 0;             // the caller waits; tests and shutdown only
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const std::string& kind() const = 0;  // "cpu", "reference", "cuda"
  virtual std::string description() const = 0;  // "CPU device (oneDNN 2.6.3), 1 thread"
  virtual std::unique_ptr<Stream> make_stream() = 0;
  // The type of activations and their gradients, and how they are multiplied.
  virtual Precision precision() const { return Precision::fp32; }
  ElementType element_type() const { return element_of(precision()); }

  // Memory of this device, to be used and given back in the order of the stream's work. Counted by
  // kind against the budget (MemoryAccount): OutOfMemory when it does not fit, with the account as
  // a ledger. Prefer Buffer (kernels/buffer.h).
  virtual std::byte* allocate(Stream& stream, std::size_t bytes, MemoryKind kind) = 0;
  virtual void release(Stream& stream, std::byte* memory, std::size_t bytes,
                       MemoryKind kind) noexcept = 0;
  virtual MemoryAccount& memory() = 0;
  // Whether the host, and so any transport, may read and write this device's memory.
  virtual bool host_memory() const { return true; }
  // Host memory that copies of this device reach without a detour (page-locked, where that is a
  // thing). Not counted. SystemError where there is none.
  virtual std::byte* allocate_host(std::size_t bytes) = 0;
  virtual void release_host(std::byte* memory, std::size_t bytes) noexcept = 0;

  // Copies in stream order. Host memory may be any memory of the caller's that stays alive until
  // the stream is done.
  virtual void copy(Stream& stream, std::byte* to, const std::byte* from, std::size_t bytes) = 0;

  // The layer's kernel for these input shapes on this device. `key` names the layer's random draws
  // (dropout).
  virtual std::unique_ptr<LayerKernel> make_kernel(const LayerSpec& spec,
                                                   const std::vector<Shape>& inputs,
                                                   std::uint64_t key) = 0;
  // Brings to the device the code of everything of this program's own that it may be asked to
  // compute. Without it first uses do, and may then wait for all that the device is doing.
  virtual void load_code() {}
  // One kernel for all layers of a chain; null where this device computes them one by one. Its
  // inputs are outside_inputs(), its output the last layer's, parameters and statistics and their
  // gradients those of all layers in order. Backward is given what infer_shapes() of the chain, and
  // adjust() after it, say: no output in between, so what it needs of those is in its stash.
  virtual std::unique_ptr<LayerKernel> fuse(std::span<const ChainedLayer> /*chain*/) {
    return nullptr;
  }

  // Activations and their gradients: y += x of element_type(), and from one type to another (to the
  // nearest value, ties to even).
  virtual void accumulate(Stream& stream, std::byte* y, const std::byte* x, std::int64_t count) = 0;
  virtual void convert(Stream& stream, std::byte* to, ElementType to_type, const std::byte* from,
                       ElementType from_type, std::int64_t count) = 0;
  // Samples as they are stored, as layers read them: pixels by their scale, computed in fp32,
  // tokens and floats as they are; each to the nearest value of to_type, ties to even. `from`
  // begins with a pixel's first channel.
  virtual void unpack(Stream& stream, std::byte* to, ElementType to_type, const std::byte* from,
                      SampleType from_type, std::int64_t count, const PixelScale& scale) = 0;

  // Elementwise work on flat float arrays, in index order without contraction: the same bits on
  // every device.
  virtual void fill(Stream& stream, float* x, float value, std::int64_t count) = 0;
  virtual void add(Stream& stream, float* y, const float* x, std::int64_t count) = 0;  // y += x
  virtual void sum(Stream& stream, float* z, const float* x, const float* y,
                   std::int64_t count) = 0;  // z = x + y
  virtual void scale(Stream& stream, float* y, float factor,
                     std::int64_t count) = 0;  // y *= factor

  // The sum of squares of x in double, written to device memory: index order inside blocks of
  // kSquaresBlock elements, then the blocks in order; so the same bits on every device, and work
  // for as many threads as there are blocks.
  virtual void sum_of_squares(Stream& stream, double* sum, const float* x, std::int64_t count) = 0;
  // Clips y to a norm of at most max_norm: y *= clip_factor(squares, max_norm) of
  // kernels/clip_step.h, for the `parts` sums of squares at `squares` (device memory).
  virtual void limit_norm(Stream& stream, float* y, const double* squares, std::int64_t parts,
                          double max_norm, std::int64_t count) = 0;

  // Optimizers write the *applied weight change* delta, which the caller adds to the weights it
  // keeps. SGD with momentum and weight decay:  g' = g + decay*w;  v = momentum*v + g';  delta =
  // -(rate*v), and with Nesterov's momentum -(rate*(g' + momentum*v)), the form of PyTorch
  // (Sutskever et al. 2013). velocity may be null when momentum is 0.
  virtual void sgd(Stream& stream, float* delta, float* velocity, const float* gradient,
                   const float* weights, const SgdOptions& options, std::int64_t count) = 0;
  // Adam (Kingma & Ba 2015, algorithm 1; decay as L2 like g' = g + decay*w), step counts from 1:
  // delta = -(rate*m^/(sqrt(v^) + epsilon)). Decoupled (AdamW: arXiv 1711.05101, algorithm 2, with
  // the rate as its schedule multiplier): g' = g, and
  // delta = -(rate*m^/(sqrt(v^) + epsilon) + (rate*decay)*w). With nu below 1, nu*m^ + (1 - nu)*g'
  // stands in place of m^ (quasi-hyperbolic: arXiv 1810.06801).
  virtual void adam(Stream& stream, float* delta, float* first, float* second,
                    const float* gradient, const float* weights, const AdamOptions& options,
                    std::int64_t step, std::int64_t count) = 0;
  // RMSprop (Hinton's lecture 6e, in PyTorch's form, neither centred nor with momentum):
  // g' = g + decay*w;  v = alpha*v + (1 - alpha)*g'^2;  delta = -(rate*g'/(sqrt(v) + epsilon)).
  virtual void rmsprop(Stream& stream, float* delta, float* second, const float* gradient,
                       const float* weights, const RmspropOptions& options, std::int64_t count) = 0;
  // LAMB's layer-wise step: update *= trust_factor(squares, rate) of kernels/optimizer_step.h, for
  // the sums of squares of a parameter and of its update (device memory).
  virtual void scale_by_trust(Stream& stream, float* update, const double* squares, float rate,
                              std::int64_t count) = 0;

  // Makes the change d of a weight matrix smaller in directions near its largest singular values,
  // DampOptions::directions_of one after the other: with y = d s (s: damp_start over the inputs),
  // the unit vector x along d^T y (one step of the power iteration) and z = d x,
  //   d = d - (factor * z) x^T.
  // Nothing happens where d^T y = 0. Sums as kernels/damping.h says, x's squares as above.
  virtual void damp(Stream& stream, float* d, const DampedMatrix& matrix,
                    const DampOptions& options) = 0;

  // Weights some steps ahead, along the update that was applied last. With its direction x:
  // ahead = weights - factor*x.
  virtual void look_ahead(Stream& stream, float* ahead, const float* weights, const float* x,
                          float factor, std::int64_t count) = 0;
  // With Adam's moments after `step` updates: x = m/(1 - beta1^step) / (sqrt(v/(1 - beta2^step)) +
  // epsilon), computed as factor * (m/bias1) / (sqrt(v/bias2) + epsilon). Decoupled decay is part
  // of the direction, at these weights: ahead = weights - (factor*x + (factor*decay)*weights).
  virtual void look_ahead_adam(Stream& stream, float* ahead, const float* weights,
                               const float* first, const float* second, const AdamOptions& options,
                               std::int64_t step, float factor, std::int64_t count) = 0;
};

}  // namespace hetpipe
