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
  one_server,
  two_servers,
  other_cuts,
  one_worker,
  hosted_servers,
  dapple,     // replicas, micro-batches, no server
  spectrain,  // two virtual workers without a server
  timeprest,
};
inline constexpr Shape kShapes[] = {Shape::one_server, Shape::two_servers,    Shape::other_cuts,
                                    Shape::one_worker, Shape::hosted_servers, Shape::dapple,
                                    Shape::spectrain,  Shape::timeprest};
const char* name(Shape shape);
int ranks(Shape shape);

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
