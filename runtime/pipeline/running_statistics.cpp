// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/running_statistics.h"

#include "base/index.h"

namespace hetpipe {

RunningStatistics::RunningStatistics(std::vector<Stage*> chunks, const std::vector<float>& initial,
                                     RankService& service, WorkQueue& work)
    : chunks_(std::move(chunks)),
      service_(service),
      work_(work),
      values_(chunks_.front()->device(), chunks_.front()->stream(), initial.size() * sizeof(float),
              MemoryKind::weights) {
  if (initial.empty()) return;
  Device& device = chunks_.front()->device();
  device.copy(chunks_.front()->stream(), values_.data(),
              reinterpret_cast<const std::byte*>(initial.data()), values_.bytes());
  service_.settle(chunks_.front()->stream(),
                  [&] { return "initial statistics on " + device.description(); });
}

float* RunningStatistics::of_chunk(int chunk) const {
  float* values = values_.as<float>();
  for (int c = 0; c < chunk; ++c) values += chunks_[at(c)]->statistics().count();
  return values;
}

std::vector<float> RunningStatistics::download() const {
  Device& device = chunks_.front()->device();
  std::vector<float> values(values_.bytes() / sizeof(float));
  device.copy(chunks_.front()->stream(), reinterpret_cast<std::byte*>(values.data()),
              values_.data(), values_.bytes());
  service_.settle(chunks_.front()->stream(),
                  [&] { return "running statistics on " + device.description(); });
  return values;
}

void RunningStatistics::keep(Wave wave) {
  if (none()) return;
  Device& device = chunks_.front()->device();
  work_.begin();
  std::byte* const copied = work_.lend(values_.bytes());
  device.copy(chunks_.front()->stream(), copied, values_.data(), values_.bytes());
  work_.end(WorkQueue::Work::brief, "running statistics on " + device.description(),
            [this, copied, wave](const WorkQueue::Span&) {
              const auto* const values = reinterpret_cast<const float*>(copied);
              of_wave_[wave].assign(values, values + values_.bytes() / sizeof(float));
            });
}

const std::vector<float>& RunningStatistics::of_wave(Wave wave) {
  if (!none() && !of_wave_.contains(wave)) work_.finish();
  return of_wave_[wave];
}

const std::vector<float>& RunningStatistics::average(Label label, Synchronizer& synchronizer) {
  if (!none() && averaged_label_ != label) {
    averaged_ = download();
    synchronizer.average_statistics(averaged_);
    averaged_label_ = label;
  }
  return averaged_;
}

}  // namespace hetpipe
