// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hetpipe::fault {

// A training of about two seconds on an emulated cluster, in files, with a checkpoint at every
// label. Its speed is modelled, so that moments mean the same on every machine that is not
// overloaded.
enum class Shape {
  one_server,  // HetPipe's ...
  two_servers,
  other_cuts,
  one_worker,
  hosted_servers,
  dapple,     // replicas, micro-batches, two virtual workers; no server, as those below
  spectrain,  // two virtual workers
  xpipe,
  timeprest,
  gpipe,
  pipedream_flush,
  interleaved,
  zero_bubble,
  pipedream,
  pipedream_2bw,
  vanilla,
  data_parallel,
  ssp,
  asp,
  predicted_waves,  // SpecTrain's weights in virtual workers under waves
};
inline constexpr int kShapes = static_cast<int>(Shape::predicted_waves) + 1;
const char* name(Shape shape);
int ranks(Shape shape);
// Whether a run that resumes from a checkpoint ends with the bits of one that was never stopped.
bool goes_on_exactly(Shape shape);

inline constexpr int kSamples = 480;
inline constexpr int kEpochs = 3;
inline constexpr double kExpectedSeconds = 1.5;  // of training, from its first wave

// Writes data, cluster, profile and the plans of all shapes into the folder.
void write_files(const std::filesystem::path& folder);

// "hetpipe train ..." of these files into `output`.
std::vector<std::string> train_words(const std::string& hetpipe,
                                     const std::filesystem::path& folder, Shape shape,
                                     const std::filesystem::path& output, double timeout);

}  // namespace hetpipe::fault
