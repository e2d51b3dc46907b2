// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/time_updates.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <tuple>

#include "base/index.h"
#include "base/time.h"
#include "kernels/buffer.h"
#include "runtime/model/parameters.h"
#include "runtime/pipeline/orthogonal.h"
#include "runtime/pipeline/parameter_rules.h"

namespace hetpipe {
namespace {

static_assert(kDampRows == kDampingRows);  // what is damped, and what planners know of it

constexpr std::int64_t kFirstSide = 256;  // at most, of what is timed first
constexpr double kLongEnough = 0.005;     // s
constexpr std::int64_t kGrowth = 2;       // of the sides, until it takes long enough
constexpr int kRepetitions = 3;

DampedMatrix with_sides_up_to(const DampedMatrix& matrix, std::int64_t most) {
  const double by = static_cast<double>(most) /
                    static_cast<double>(std::max({matrix.rows, matrix.columns, most}));
  const auto side = [&](std::int64_t of) {
    return std::max<std::int64_t>(2, std::llround(by * static_cast<double>(of)));
  };
  return {side(matrix.rows), side(matrix.columns), matrix.inputs_first};
}

// Of one kind of change; `work` says what it amounts to, in any unit.
class MatrixTimer {
 public:
  using Change = std::function<void(Stream& stream, const DampedMatrix& matrix, float* change)>;
  using Work = double (*)(const MatrixSides&);

  MatrixTimer(Device& device, const std::function<std::int64_t()>& clock)
      : device_(device), clock_(clock), stream_(device.make_stream()) {}

  double seconds(const DampedMatrix& matrix, const Change& change, Work work) {
    const auto [at, fresh] =
        known_.try_emplace({matrix.rows, matrix.columns, matrix.inputs_first}, 0.0);
    for (std::int64_t side = kFirstSide; fresh; side *= kGrowth) {
      const DampedMatrix timed = with_sides_up_to(matrix, side);
      const double seconds = time(timed, change);
      const auto of = [&](const DampedMatrix& m) { return work({m.rows, m.columns}); };
      at->second = seconds * of(matrix) / of(timed);
      if (timed.rows == matrix.rows && timed.columns == matrix.columns) break;
      if (seconds >= kLongEnough) break;
    }
    return at->second;
  }

 private:
  // The median.
  double time(const DampedMatrix& matrix, const Change& change) {
    const std::int64_t count = matrix.rows * matrix.columns;
    Buffer values(device_, *stream_, at(count) * sizeof(float), MemoryKind::workspace);
    std::vector<double> times;
    for (int i = 0; i <= kRepetitions; ++i) {  // the first one touches new memory
      device_.fill(*stream_, values.as<float>(), 1, count);
      stream_->synchronize();
      const std::int64_t start = clock_();
      change(*stream_, matrix, values.as<float>());
      stream_->synchronize();
      if (i > 0) times.push_back(seconds_between(start, clock_()));
    }
    std::nth_element(times.begin(), times.begin() + kRepetitions / 2, times.end());
    return times[kRepetitions / 2];
  }

  Device& device_;
  const std::function<std::int64_t()>& clock_;
  std::unique_ptr<Stream> stream_;
  std::map<std::tuple<std::int64_t, std::int64_t, bool>, double> known_;
};

constexpr DampOptions kDamping{.factor = 0.5f, .directions = kUsualDirections};

// A small matrix of the same form may have fewer directions that are damped.
double damping_work(const MatrixSides& matrix) {
  return static_cast<double>(matrix.rows) * static_cast<double>(matrix.columns) *
         kDamping.directions_of({matrix.rows, matrix.columns});
}

}  // namespace

std::vector<DampedMatrix> matrices_of(const Model& model, int layer) {
  std::vector<DampedMatrix> matrices;
  const ParameterLayout layout = ParameterLayout::parameters(model, layer, layer + 1);
  for (const OptimizedParameter& of : optimized_parameters(layout, true, {})) {
    if (of.matrix.rows > 0 && !of.frozen) matrices.push_back(of.matrix);
  }
  return matrices;
}

MatrixTimes time_matrices(const Model& model, Device& device,
                          const std::function<std::int64_t()>& clock) {
  MatrixTimer damped(device, clock), orthogonal(device, clock);
  const auto damp = [&](Stream& stream, const DampedMatrix& matrix, float* change) {
    device.damp(stream, change, matrix, kDamping);
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Orthogonalizer> made;  // by sides
  const auto straighten = [&](Stream& stream, const DampedMatrix& matrix, float* change) {
    made.try_emplace({matrix.rows, matrix.columns}, device, stream, matrix.rows, matrix.columns)
        .first->second.apply(change, 1);
  };
  MatrixTimes times;
  for (int l = 0; l < model.layer_count(); ++l) {
    times.damped.push_back(0);
    times.orthogonal.push_back(0);
    for (const DampedMatrix& matrix : matrices_of(model, l)) {
      times.damped.back() += damped.seconds(matrix, damp, damping_work);
      times.orthogonal.back() += orthogonal.seconds(matrix, straighten, orthogonal_flops);
    }
  }
  return times;
}

}  // namespace hetpipe
