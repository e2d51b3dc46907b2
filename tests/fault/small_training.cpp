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

const char* system_of(Shape shape) {
  switch (shape) {
    case Shape::dapple:
      return "dapple";
    case Shape::spectrain:
      return "spectrain";
    case Shape::timeprest:
      return "timeprest";
    default:
      return "hetpipe";
  }
}

std::string plan(Shape shape) {
  std::string text = format(
      "format = 1\nsystem = \"%s\"\nmodel = \"mlp\"\nminibatch = 8\nin_flight = 3\n"
      "optimizer = \"sgd-momentum\"\n",
      system_of(shape));
  const std::string worker = "[[virtual_worker]]\n";
  const std::string server = "[parameter_server]\n";
  switch (shape) {
    case Shape::one_server:
    case Shape::two_servers:
      text += worker + stage(0, 3, "n0:0") + stage(3, 7, "n1:0");
      text += worker + stage(0, 4, "n0:1") + stage(4, 7, "n1:1");
      text += server +
              (shape == Shape::one_server ? "nodes = [\"n0\"]\n" : "nodes = [\"n0\", \"n1\"]\n");
      return text + "clock_distance = 0\n";
    case Shape::other_cuts:
      text += worker + stage(0, 5, "n0:0") + stage(5, 7, "n1:0");
      text += worker + stage(0, 2, "n0:1") + stage(2, 7, "n1:1");
      return text + server + "nodes = [\"n1\"]\nclock_distance = 1\n";
    case Shape::one_worker:
      text += worker + stage(0, 2, "n0:0") + stage(2, 4, "n1:0") + stage(4, 7, "n1:1");
      return text + server + "nodes = [\"n0\"]\nclock_distance = 0\n";
    case Shape::hosted_servers:
      text += worker + stage(0, 3, "n0:0") + stage(3, 7, "n1:0");
      text += worker + stage(0, 7, "n0:1");
      return text + server + "nodes = [\"n0\", \"n1\"]\nhosted = true\nclock_distance = 1\n";
    case Shape::dapple:
      text += "micro_batches = 2\n" + worker + stage(0, 3, "n0:0\", \"n0:1") + stage(3, 7, "n1:0");
      return text + worker + stage(0, 7, "n1:1");
    case Shape::spectrain:
      text += worker + stage(0, 3, "n0:0") + stage(3, 7, "n1:0");
      return text + worker + stage(0, 4, "n0:1") + stage(4, 7, "n1:1");
    case Shape::timeprest:
      text += "micro_batches = 2\n" + worker + stage(0, 2, "n0:0") + stage(2, 4, "n1:0");
      return text + stage(4, 7, "n1:1");
  }
  return text;
}

}  // namespace

const char* name(Shape shape) {
  switch (shape) {
    case Shape::one_server:
      return "one-server";
    case Shape::two_servers:
      return "two-servers";
    case Shape::other_cuts:
      return "other-cuts";
    case Shape::one_worker:
      return "one-worker";
    case Shape::hosted_servers:
      return "hosted-servers";
    case Shape::dapple:
    case Shape::spectrain:
    case Shape::timeprest:
      return system_of(shape);
  }
  return "";
}

int ranks(Shape shape) {
  switch (shape) {
    case Shape::one_server:
    case Shape::other_cuts:
      return 5;
    case Shape::two_servers:
      return 6;
    case Shape::one_worker:
      return 4;
    case Shape::hosted_servers:
    case Shape::timeprest:
      return 3;
    case Shape::dapple:
    case Shape::spectrain:
      return 4;
  }
  return 0;
}

void write_files(const fs::path& folder) {
  fs::create_directories(folder / "data");
  write_idx(folder / "data", "train", kSamples);
  write_idx(folder / "data", "t10k", 32);
  write_file(folder / "cluster.toml", kCluster);
  write_file(folder / "profile.toml", kProfile);
  for (const Shape shape : kShapes) {
    write_file(folder / (std::string(name(shape)) + ".toml"), plan(shape));
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
