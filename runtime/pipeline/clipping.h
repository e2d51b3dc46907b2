// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "kernels/buffer.h"
#include "partitioner/plan/system.h"
#include "runtime/model/parameters.h"

// Clipping by norm: a longer gradient is scaled down to the norm. The norm is that of PyTorch's
// clip_grad_norm_: over all parameters together, weight decay not yet in the gradient.
//
//   global   the gradient of a minibatch over all stages. Exact, whatever the cut: squares are
//            summed per parameter and added in layer order.
//   stage    each stage's own part of that gradient, by itself.
//   wave     each stage's part of a wave's push, to max_norm times the sum of the wave's learning
//            rates: the mean of its gradients, for plain SGD. The updates inside the wave stay as
//            they are until the next gate, where the sums take their place.
namespace hetpipe {

class Json;

enum class ClipScope { global, stage, wave };
std::vector<std::string> clip_scope_names();
std::string_view to_string(ClipScope scope);
std::optional<ClipScope> try_parse_clip_scope(std::string_view name);
Json to_json(ClipScope scope);
void from_json(const Json& json, ClipScope& scope);

struct Clipping {
  double max_norm = 0;  // 0: nothing is clipped
  ClipScope scope = ClipScope::stage;
  bool at(ClipScope where) const { return max_norm > 0 && scope == where; }
};
constexpr auto fields_of(Type<Clipping>) { return fields<&Clipping::max_norm, &Clipping::scope>; }

// global if the system flushes its pipeline, else stage.
ClipScope usual_clip_scope(const System& system);
// "what (why it is one). What to do." if the system cannot clip this way; else empty.
std::string why_not_clip(ClipScope scope, const System& system);

// Squares of every parameter of one stage, on its device.
class EntrySquares {
 public:
  // counts: elements of each parameter, one after another in the flat arrays.
  EntrySquares(Device& device, Stream& stream, std::vector<std::int64_t> counts);

  void measure(const float* flat);            // enqueues; in the layout's order
  std::span<double> download();               // enqueues a copy to the host
  void limit(Buffer& flat, double max_norm);  // measure, then scale: enqueues

 private:
  Device& device_;
  Stream& stream_;
  std::vector<std::int64_t> counts_;
  std::int64_t count_ = 0;
  Buffer squares_;
  std::vector<double> host_;
};

// The factor of global clipping: squares of every parameter of the model, stage after stage, each
// as EntrySquares has them.
float clip_factor_of(std::span<const std::vector<double>> squares_of_stages, double max_norm);

}  // namespace hetpipe
