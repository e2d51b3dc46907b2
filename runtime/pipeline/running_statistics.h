// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/synchronizer.h"
#include "runtime/pipeline/work_queue.h"

namespace hetpipe {

// A rank's running statistics, flat, chunk after chunk: on the device, and what of them the host
// passes on.
class RunningStatistics {
 public:
  // All outlive this.
  RunningStatistics(std::vector<Stage*> chunks, const std::vector<float>& initial,
                    RankService& service, WorkQueue& work);

  bool none() const { return values_.bytes() == 0; }
  std::size_t bytes() const { return values_.bytes(); }
  float* of_chunk(int chunk) const;
  std::vector<float> download() const;

  // As they are behind what has been enqueued: those of the wave.
  void keep(Wave wave);
  const std::vector<float>& of_wave(Wave wave);  // empty where there are none
  void forget(Wave wave) { of_wave_.erase(wave); }

  // Without a server: the mean over virtual workers and replicas at a label, made once.
  const std::vector<float>& average(Label label, Synchronizer& synchronizer);

 private:
  std::vector<Stage*> chunks_;
  RankService& service_;
  WorkQueue& work_;
  Buffer values_;
  std::map<Wave, std::vector<float>> of_wave_;
  std::vector<float> averaged_;
  Label averaged_label_ = -1;
};

}  // namespace hetpipe
