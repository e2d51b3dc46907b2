// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/precision.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/profile/matrices.h"

// The costs of each layer of a model on each device type. A plain value, read from and written to
// a profile file (docs/files.md). Times are seconds per call with `batch` samples.
namespace hetpipe {

class Json;

struct ProfileLayer {
  std::string name;
  std::vector<int> inputs;  // producers; empty for a source (reads the samples)
  std::int64_t parameter_bytes = 0;
  double forward_flops = 0;   // per sample; 0: not given
  double backward_flops = 0;  // per sample
  double input_bytes = 0;     // per sample
  double output_bytes = 0;    // per sample, fp32; only for estimates where nothing was measured
  double stash_bytes = 0;     // per sample, fp32; likewise
  std::string shares;         // owner of its parameters, or empty
  bool output = false;  // a result of the network that no layer reads, beside the last layer's
  // Its output is kept for the backward of layers that read it alone: a stage without any of these
  // does not keep it, though it is in the stash bytes.
  bool kept_for_readers = false;
  // Its backward writes the gradients of its inputs beside that of its output; otherwise into its
  // place, as far as is known.
  bool gradients_apart = false;
  std::vector<MatrixSides> matrices{};  // of its parameters, its own that change
  int operations = 1;  // that its forward pass launches; for estimates, as the next
  // Per sample and pass, fp32: what the GPUs of a group all-reduce among themselves. In measured
  // times it is included.
  double group_all_reduce_bytes = 0;
  bool operator==(const ProfileLayer&) const = default;
};

struct Measurement {
  std::string device;  // a kind of device; "cpu" is the machine that emulated kinds run on
  int batch = 0;       // samples per call, i.e. of a micro-batch
  std::vector<double> forward{};
  std::vector<double> backward{};
  std::vector<double> update{};  // may be empty
  std::vector<std::int64_t> output_bytes{};
  std::vector<std::int64_t> stash_bytes{};  // kept from forward to backward
  // That kernels take for themselves in a layer's backward, the most; may be empty.
  std::vector<std::int64_t> scratch_bytes{};
  std::string estimate = {};  // how it was estimated ("from ..."); empty: it was measured
  std::vector<double> weight_gradient{};  // its part of backward; may be empty
  // Updates whose changes of matrices are damped, or made orthogonal; may be empty.
  std::vector<double> damped_update{}, orthogonal_update{};
  std::optional<Precision> precision{};  // of a GPU; absent: the one that is planned for
  // Whether each number of `update` is the time of the whole optimizer step; absent: see below.
  std::optional<bool> update_is_step{};
  bool operator==(const Measurement&) const = default;
};

struct Profile {
  std::string model;
  std::vector<ProfileLayer> layers;  // in topological order
  std::vector<Measurement> measurements;
  bool operator==(const Profile&) const = default;
};

Profile parse_profile(std::string_view text, const std::string& file);

// What a profile in PipeDream's format (graph_txt.h) lacks and the user has to give.
struct ProfileOrigin {
  std::optional<std::string> device;  // the kind it was measured on
  std::optional<int> batch;           // samples per call; absent: from the file's name or layers
};

// Whether each layer's `update` is the time of the whole step, as the profiler of
// Megatron-DeepSpeed records it. Where the measurement does not say: if all layers have one and the
// same time though their parameters differ, which no times of layers do.
bool update_is_step(const Profile& profile, const Measurement& measurement);

struct LoadedProfile {
  Profile profile;
  std::string note;  // what had to be derived, as text; usually empty
};

// A profile file or a graph.txt, distinguished by their content. UserError with all problems; also
// when graph.txt comes without a device, or a profile file with an origin, which it has itself.
LoadedProfile read_profile(const std::filesystem::path& path, const ProfileOrigin& origin = {});
Profile load_profile(const std::filesystem::path& path, const ProfileOrigin& origin = {});
std::string to_toml(const Profile& profile);
// By way of that text.
Json to_json(const Profile& profile);
void from_json(const Json& json, Profile& profile);

// One device kind's costs at one micro-batch size, scaled from the stored measurements.
struct LayerCosts {
  std::vector<double> forward;
  std::vector<double> backward;
  std::vector<double> update;
  std::vector<std::int64_t> output_bytes{};
  std::vector<std::int64_t> stash_bytes{};
  std::vector<std::int64_t> scratch_bytes{};  // empty: not known
  bool estimated = false;                     // from a measurement that is an estimate (estimate.h)
  std::vector<double> weight_gradient;       // part of backward; where not measured, half of it for
                                             // layers with parameters
  bool own_memory = false;                   // of the device: it is not the host's, as a CPU's is
  std::vector<std::int64_t> update_bytes{};  // scratch of the update; empty: none
  bool update_is_step = false;  // update was divided among the layers: its sum was recorded
};

// What a kind's costs are scaled from, by batch: its own measurements, or those of Emulation::of
// for an emulated kind without any. Points into `profile`.
std::vector<const Measurement*> measurements_for(const Profile& profile, const DeviceKind& kind);

// Costs on `kind` with `batch` samples per call. Takes the kind's own measurements, used as they
// are; an emulated kind without its own takes those of "cpu" times its slowdown. Between two
// measured batches a layer's time lies on the line through them. Outside, on the line through the
// two nearest (a fixed part and a part per sample), with two exceptions that keep times positive
// and from falling as the batch grows: a fixed part below zero gives way to proportion, a falling
// line to the nearest measurement's own time. With one measured batch, time is in proportion. Bytes
// scale with the batch. Damped and orthogonal updates that were not measured take as long as plain
// ones. An `update` that is the whole step (update_is_step) is divided among the layers in
// proportion to their parameters.
// UserError when nothing covers the kind, naming the command that measures it.
LayerCosts costs_on(const Profile& profile, const DeviceKind& kind, int batch,
                    Updates updates = Updates::plain);

}  // namespace hetpipe
