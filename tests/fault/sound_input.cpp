// SPDX-License-Identifier: Apache-2.0
#include "tests/fault/sound_input.h"

#include <algorithm>
#include <cstdlib>

namespace hetpipe::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCluster = R"(format = 1
[device.fast]
memory = 2_000_000_000
peak_flops = 1e12
memory_bandwidth = 1e11
gpus = 1
emulate = { slowdown = 1.0 }
[device.slow]
memory = 1_000_000_000
emulate = { slowdown = 2.0 }
[[node]]
name = "n0"
devices = ["fast", "slow"]
[[node]]
name = "s0"
devices = []
[link.intra_node]
bandwidth = 1e9
latency = 1e-6
[link.inter_node]
bandwidth = 1e9
latency = 1e-6
[[link.between]]
kinds = ["fast", "slow"]
bandwidth = 5e8
latency = 2e-6
)";

constexpr const char* kProfile = R"(format = 1
model = "mlp"
[[layer]]
name = "flatten"
inputs = []
parameter_bytes = 0
forward_flops = 10
backward_flops = 20
input_bytes = 256
[[layer]]
name = "linear1"
inputs = [0]
parameter_bytes = 66560
[[layer]]
name = "relu1"
[[layer]]
name = "linear2"
parameter_bytes = 131584
[[layer]]
name = "relu2"
[[layer]]
name = "linear3"
parameter_bytes = 2064
[[layer]]
name = "loss"
[[measurement]]
device = "cpu"
batch = 16
forward = [1e-6, 5e-6, 1e-6, 5e-6, 1e-6, 1e-6, 1e-6]
backward = [1e-6, 9e-6, 1e-6, 9e-6, 1e-6, 1e-6, 1e-6]
update = [1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6]
output_bytes = [4096, 16384, 16384, 8192, 8192, 256, 64]
stash_bytes = [4096, 16384, 16384, 8192, 8192, 256, 320]
)";

constexpr const char* kPlanFile = R"(format = 1
system = "hetpipe"
model = "mlp"
minibatch = 16
micro_batches = 1
in_flight = 2
optimizer = "sgd-momentum"
[[virtual_worker]]
[[virtual_worker.stage]]
layers = [0, 3]
devices = ["n0:0"]
[[virtual_worker.stage]]
layers = [3, 7]
devices = ["n0:1"]
[parameter_server]
nodes = ["s0"]
clock_distance = 0
[predicted]
throughput = 530.0
bottleneck = 0.0603
)";

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t times = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++times;
  }
  return times;
}

}  // namespace

std::string idx_images(int samples, int side) {
  std::string text = big_endian(0x803) + big_endian(static_cast<std::uint32_t>(samples)) +
                     big_endian(static_cast<std::uint32_t>(side)) +
                     big_endian(static_cast<std::uint32_t>(side));
  for (int i = 0; i < samples * side * side; ++i) text += static_cast<char>(i * 37 % 251);
  return text;
}

std::string idx_labels(int samples, int classes) {
  std::string text = big_endian(0x801) + big_endian(static_cast<std::uint32_t>(samples));
  for (int i = 0; i < samples; ++i) text += static_cast<char>(i % classes);
  return text;
}

SoundInput::SoundInput() {
  char name[] = "/tmp/fault.XXXXXX";
  folder_ = ::mkdtemp(name);
  write(file("cluster.toml"), kCluster);
  write(file("profile.toml"), kProfile);
  write(file("plan.toml"), kPlanFile);
  fs::create_directory(file("data"));
  write(file("data/train-images-idx3-ubyte"), idx_images(64));
  write(file("data/train-labels-idx1-ubyte"), idx_labels(64));
  write(file("data/t10k-images-idx3-ubyte"), idx_images(16));
  write(file("data/t10k-labels-idx1-ubyte"), idx_labels(16));
}

SoundInput::~SoundInput() {
  std::error_code error;
  fs::remove_all(folder_, error);
}

void SoundInput::spoil(const std::string& name, const std::string& from, const std::string& to) {
  std::string text = read(file(name));
  ASSERT_EQ(count(text, from), 1u) << name << ": " << from;
  text.replace(text.find(from), from.size(), to);
  write(file(name), text);
}

int SoundInput::line_of(const std::string& name, const std::string& text) const {
  const std::string all = read(file(name));
  const std::size_t at = all.find(text);
  EXPECT_NE(at, std::string::npos) << name << ": " << text;
  return 1 + static_cast<int>(std::count(all.begin(), all.begin() + static_cast<long>(at), '\n'));
}

Ran SoundInput::hetpipe(const std::string& arguments) const {
  std::vector<std::string> words = words_of(arguments);
  words.insert(words.begin(), HETPIPE_COMMAND);
  return run(folder_, words, {.seconds = 10, .memory = std::size_t{3} << 30});
}

Ran SoundInput::mpirun(int ranks, const std::string& arguments) const {
  return mpirun("-n " + std::to_string(ranks) + " HETPIPE " + arguments);
}

Ran SoundInput::mpirun(const std::string& applications) const {
  std::vector<std::string> words{MPIEXEC_COMMAND, "--oversubscribe"};
  for (const std::string& word : words_of(applications)) {
    words.push_back(word == "HETPIPE" ? HETPIPE_COMMAND : word);
  }
  return run(folder_, words, {.seconds = 20, .memory = 0});
}

void SoundInput::expect_refused(const std::string& arguments,
                                const std::vector<std::string>& words) const {
  SCOPED_TRACE("hetpipe " + arguments);
  const auto before = content_of(folder_);
  expect_refused(hetpipe(arguments), words);
  EXPECT_EQ(content_of(folder_), before) << "files were made, changed or lost";
}

void SoundInput::expect_refused(const Ran& ran, const std::vector<std::string>& words) const {
  EXPECT_EQ(ran.code, 2) << ran.out << ran.error;
  for (const std::string& word : words) {
    EXPECT_EQ(count(ran.error, word), 1u) << "'" << word << "' in:\n" << ran.error;
  }
  for (const char* crash : {"terminate called", "what():", "internal error", "std::", "0x7f",
                            "Sanitizer", "MPI_ABORT", "Segmentation"}) {
    EXPECT_EQ(count(ran.error, crash), 0u) << ran.error;
  }
  EXPECT_EQ(ran.out.find("wave "), std::string::npos) << ran.out;
}

}  // namespace hetpipe::test
