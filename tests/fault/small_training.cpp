// SPDX-License-Identifier: Apache-2.0
#include "small_training.h"

#include "base/file.h"
#include "base/random.h"
#include "base/text.h"

namespace hetpipe::fault {
namespace {

namespace fs = std::filesystem;

void append_number(std::string& bytes, std::uint32_t number) {  // big-endian, as IDX has it
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>((number >> shift) & 255u));
  }
}

// 10x10 images of four classes: a bright row each, in noise.
void write_idx(const fs::path& folder, const std::string& split, std::uint32_t size) {
  std::string images;
  std::string labels;
  append_number(images, 0x803);
  append_number(labels, 0x801);
  for (const std::uint32_t number : {size, 10u, 10u}) append_number(images, number);
  append_number(labels, size);
  const std::uint64_t key = random_key({size});
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::uint32_t label = i % 4;
    labels.push_back(static_cast<char>(label));
    for (std::uint32_t v = 0; v < 100; ++v) {
      const std::uint32_t noise = random_bits(key, std::uint64_t{i} * 100 + v) % 128;
      images.push_back(static_cast<char>(v / 10 == 2 * label ? 127 + noise : noise));
    }
  }
  write_file(folder / (split + "-images-idx3-ubyte"), images);
  write_file(folder / (split + "-labels-idx1-ubyte"), labels);
}

constexpr char kCluster[] = R"(format = 1
[device.small]
memory = 1_000_000_000
emulate = { slowdown = 1.0 }
[[node]]
name = "n0"
devices = ["small", "small"]
[[node]]
name = "n1"
devices = ["small", "small"]
[link.intra_node]
bandwidth = 10e9
[link.inter_node]
bandwidth = 1e9
)";

// The model of these images, with times made up so that a minibatch takes some milliseconds.
constexpr char kProfile[] = R"(format = 1
model = "mlp"
[[layer]]
name = "flatten"
parameter_bytes = 0
[[layer]]
name = "linear1"
parameter_bytes = 103424
[[layer]]
name = "relu1"
parameter_bytes = 0
[[layer]]
name = "linear2"
parameter_bytes = 131584
[[layer]]
name = "relu2"
parameter_bytes = 0
[[layer]]
name = "linear3"
parameter_bytes = 2064
[[layer]]
name = "loss"
parameter_bytes = 0
[[measurement]]
device = "cpu"
batch = 8
forward = [0, 3e-3, 1e-3, 3e-3, 1e-3, 1e-3, 1e-3]
backward = [0, 6e-3, 2e-3, 6e-3, 2e-3, 2e-3, 2e-3]
output_bytes = [3200, 8192, 8192, 4096, 4096, 128, 32]
stash_bytes = [3200, 8192, 8192, 4096, 4096, 128, 160]
)";

// `devices`: one, or several quoted ones.
std::string stage(int first, int end, const std::string& devices) {
  return format("[[virtual_worker.stage]]\nlayers = [%d, %d]\ndevices = [\"%s\"]\n", first, end,
                devices.c_str());
}

struct ShapeRow {
  const char* name;
  const char* system;
  int ranks;
  bool exact;
  std::string parts;  // of the plan
};

std::string waves(int in_flight) { return format("in_flight = %d\n", in_flight); }
std::string slices(int micro_batches) {
  return format("in_flight = 1\nmicro_batches = %d\n", micro_batches);
}
std::string server(const std::string& keys) { return "[parameter_server]\n" + keys; }

const std::vector<ShapeRow>& rows() {
  const std::string worker = "[[virtual_worker]]\n";
  const std::string three =
      worker + stage(0, 2, "n0:0") + stage(2, 4, "n1:0") + stage(4, 7, "n1:1");
  const std::string two = worker + stage(0, 3, "n0:0") + stage(3, 7, "n1:0") + worker +
                          stage(0, 4, "n0:1") + stage(4, 7, "n1:1");
  const std::string chunks = worker + stage(0, 2, "n0:0") + stage(2, 3, "n1:0") +
                             stage(3, 4, "n0:0") + stage(4, 7, "n1:0");
  const std::string single = worker + stage(0, 7, "n0:0") + worker + stage(0, 7, "n1:0");
  static const std::vector<ShapeRow> all = {
      {"one-server", "hetpipe", 5, true,
       waves(3) + two + server("nodes = [\"n0\"]\nclock_distance = 0\n")},
      {"two-servers", "hetpipe", 6, true,
       waves(3) + two + server("nodes = [\"n0\", \"n1\"]\nclock_distance = 0\n")},
      {"other-cuts", "hetpipe", 5, true,
       waves(3) + worker + stage(0, 5, "n0:0") + stage(5, 7, "n1:0") + worker +
           stage(0, 2, "n0:1") + stage(2, 7, "n1:1") +
           server("nodes = [\"n1\"]\nclock_distance = 1\npull = \"bound\"\n")},
      {"one-worker", "hetpipe", 4, true,
       waves(3) + three + server("nodes = [\"n0\"]\nclock_distance = 0\n")},
      {"hosted-servers", "hetpipe", 3, true,
       waves(3) + worker + stage(0, 3, "n0:0") + stage(3, 7, "n1:0") + worker +
           stage(0, 7, "n0:1") +
           server(
               "nodes = [\"n0\", \"n1\"]\nhosted = true\nclock_distance = 1\npull = \"bound\"\n")},
      {"dapple", "dapple", 4, true,
       slices(2) + worker + stage(0, 3, "n0:0\", \"n0:1") + stage(3, 7, "n1:0") + worker +
           stage(0, 7, "n1:1")},
      {"spectrain", "spectrain", 4, false, waves(3) + two},
      {"xpipe", "xpipe", 3, false, slices(2) + three},
      {"timeprest", "timeprest", 3, false, slices(2) + three},
      {"gpipe", "gpipe", 3, true, slices(4) + three},
      {"pipedream-flush", "pipedream-flush", 3, true, slices(4) + three},
      {"interleaved", "pipedream-flush", 2, true,
       "schedule = \"interleaved-1f1b\"\n" + slices(2) + chunks},
      {"zero-bubble", "zero-bubble", 3, true, slices(4) + three},
      {"pipedream", "pipedream", 3, false, waves(3) + three},
      {"pipedream-2bw", "pipedream-2bw", 3, false, waves(3) + three},
      {"vanilla", "vanilla", 3, false, waves(3) + three},
      {"data-parallel", "data-parallel", 2, true,
       slices(1) + worker + stage(0, 7, "n0:0\", \"n1:0")},
      {"ssp", "ssp", 3, true,
       waves(1) + single + server("nodes = [\"n0\"]\nclock_distance = 1\npull = \"bound\"\n")},
      {"asp", "asp", 3, false, waves(1) + single + server("nodes = [\"n0\"]\n")},
      {"predicted-waves", "spectrain", 5, false,
       "sync = \"wsp\"\n" + waves(3) + two +
           server("nodes = [\"n0\"]\nclock_distance = 1\npull = \"bound\"\n")},
  };
  return all;
}

const ShapeRow& row(Shape shape) { return rows()[static_cast<std::size_t>(shape)]; }

std::string plan(const ShapeRow& shape) {
  return format("format = 1\nsystem = \"%s\"\nmodel = \"mlp\"\nminibatch = 8\n", shape.system) +
         "optimizer = \"sgd-momentum\"\n" + shape.parts;
}

}  // namespace

const char* name(Shape shape) { return row(shape).name; }
int ranks(Shape shape) { return row(shape).ranks; }
bool goes_on_exactly(Shape shape) { return row(shape).exact; }

void write_files(const fs::path& folder) {
  fs::create_directories(folder / "data");
  write_idx(folder / "data", "train", kSamples);
  write_idx(folder / "data", "t10k", 32);
  write_file(folder / "cluster.toml", kCluster);
  write_file(folder / "profile.toml", kProfile);
  for (const ShapeRow& shape : rows()) {
    write_file(folder / (std::string(shape.name) + ".toml"), plan(shape));
  }
}

std::vector<std::string> train_words(const std::string& hetpipe, const fs::path& folder,
                                     Shape shape, const fs::path& output, double timeout) {
  return {hetpipe,
          "train",
          "--plan",
          folder / (std::string(name(shape)) + ".toml"),
          "--cluster",
          folder / "cluster.toml",
          "--profile",
          folder / "profile.toml",
          "--data",
          folder / "data",
          "--epochs",
          std::to_string(kEpochs),
          "--learning-rate",
          "0.02",
          "--checkpoint-every",
          "1",
          "--timeout",
          format("%g", timeout),
          "--output",
          output};
}

}  // namespace hetpipe::fault
