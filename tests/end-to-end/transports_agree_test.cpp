// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "base/text.h"
#include "runtime/store/checkpoint.h"

// The command, started as people start it: a process per rank under mpirun, and all ranks as
// threads of one process. What they write must be the same, bit for bit.
namespace hetpipe {
namespace transports_agree_test {

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
    const std::uint32_t label = i < 4 ? i : random_bits(key, i) % 4;  // all four occur
    labels.push_back(static_cast<char>(label));
    for (std::uint32_t v = 0; v < 100; ++v) {
      const std::uint32_t noise = random_bits(key, 1'000'000 + std::uint64_t{i} * 100 + v) % 128;
      images.push_back(static_cast<char>(v / 10 == 2 * label ? 127 + noise : noise));
    }
  }
  std::ofstream(folder / (split + "-images-idx3-ubyte"), std::ios::binary) << images;
  std::ofstream(folder / (split + "-labels-idx1-ubyte"), std::ios::binary) << labels;
}

constexpr char kPlan[] = R"(format = 1
system = "hetpipe"
model = "lenet-bn"
minibatch = 8
in_flight = 3
optimizer = "sgd-momentum"
[[virtual_worker]]
[[virtual_worker.stage]]
layers = [0, 5]
devices = ["n0:0"]
[[virtual_worker.stage]]
layers = [5, 15]
devices = ["n1:0"]
[[virtual_worker]]
minibatch = 6
[[virtual_worker.stage]]
layers = [0, 9]
devices = ["n0:1"]
[[virtual_worker.stage]]
layers = [9, 15]
devices = ["n1:1"]
[parameter_server]
nodes = ["n0", "n1"]
clock_distance = %d
pull = "bound"
hosted = %s
)";

// The first layer's weight is the last stage's too.
constexpr char kTiedPlan[] = R"(format = 1
system = "%s"
model = "gpt2-tiny"
minibatch = 8
in_flight = 3
optimizer = "sgd-momentum"
[[virtual_worker]]
[[virtual_worker.stage]]
layers = [0, 14]
devices = ["n0:0"]
[[virtual_worker.stage]]
layers = [14, 30]
devices = ["n1:0"]
[[virtual_worker.stage]]
layers = [30, 45]
devices = ["n0:1", "n1:1"]
)";

class TransportsAgree : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              format("hetpipe-transports-%d-%s", ::getpid(),
                     ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_ / "data");
    write_idx(folder_ / "data", "train", 150);
    write_idx(folder_ / "data", "t10k", 30);
  }
  void TearDown() override {
    if (!HasFailure()) fs::remove_all(folder_);
  }

  // The newest checkpoint of a run.
  Checkpoint train(const std::string& name, const std::string& launcher,
                   const std::string& transport, const std::string& data = "data") {
    const fs::path run = folder_ / name;
    const fs::path said = folder_ / (name + ".said");
    const std::string command =
        "cd '" + folder_.string() + "' && " + launcher + " '" HETPIPE_COMMAND "' train --plan '" +
        (folder_ / "plan.toml").string() + "' --data '" + data + "' --output '" + run.string() +
        "' --epochs 2 --evaluate-every 2 --checkpoint-every 2 --transport " + transport + " > '" +
        said.string() + "' 2>&1";
    const int status = std::system(command.c_str());
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      throw SystemError(format("status %d of %s\n", status, command.c_str()) + read_file(said));
    }
    const auto newest = newest_checkpoint(run / "checkpoints");
    if (!newest) throw SystemError("no checkpoint of " + command);
    return read_checkpoint(*newest);
  }

  // `more`: lines of the plan's [parameter_server].
  void expect_agreement(int distance, bool hosted, int ranks, const std::string& more = "") {
    write_file(folder_ / "plan.toml", format(kPlan, distance, hosted ? "true" : "false") + more);
    const Checkpoint mpi =
        train("mpi", format("'" MPIEXEC_COMMAND "' --oversubscribe -np %d", ranks), "mpi");
    const Checkpoint threads = train("threads", "", "threads");
    EXPECT_EQ(mpi.label, 8);  // 300 samples, 42 in a wave of both: the last one is partial
    EXPECT_EQ(mpi.sampler.consumed, 300);
    expect_same(mpi, threads);
  }

  // Between devices whose memory no host reaches, by way of the host's and past it.
  void expect_paths_agree() {
    write_file(folder_ / "plan.toml", format(kPlan, 1, "false"));
    const Checkpoint host = train("host", "", "threads --device cpu");
    for (const std::string path : {"staged", "ipc", "auto"}) {
      SCOPED_TRACE(path);
      Checkpoint devices = train(path, "'" MPIEXEC_COMMAND "' --oversubscribe -np 6",
                                 "mpi --device offload --transport-path " + path);
      // Of another --device, which a continuation would not take for the same.
      const std::int64_t of_host = host.exact->numbers.at("arithmetic");
      EXPECT_NE(std::exchange(devices.exact->numbers["arithmetic"], of_host), of_host);
      expect_same(devices, host);
      const std::string said = read_file(folder_ / (path + ".said"));
      const std::string used = path == "auto" ? "ipc" : path;
      for (const char* pair : {"0 - 1", "2 - 3"}) {
        EXPECT_NE(said.find(std::string(pair) + "  " + used), std::string::npos) << said;
      }
    }
  }

  void expect_tied_weights_agree(const std::string& system, bool servers) {
    std::string plan = format(kTiedPlan, system.c_str());
    if (servers) plan += "[parameter_server]\nnodes = [\"n0\"]\nhosted = true\n";
    write_file(folder_ / "plan.toml", plan);
    std::string text;
    for (int i = 0; i < 1300; ++i) {
      text.push_back(static_cast<char>('a' + random_bits(random_key({1}), i) % 20));
    }
    write_file(folder_ / "text", text);
    const std::string data = "text:text,T=8";
    const Checkpoint threads = train("threads-" + system, "", "threads --device cpu", data);
    Checkpoint devices = train("mpi-" + system, "'" MPIEXEC_COMMAND "' --oversubscribe -np 4",
                               "mpi --device offload", data);
    if (servers) devices.exact = threads.exact;  // of another --device
    expect_same(devices, threads);
  }

 private:
  static void expect_same(const Checkpoint& one, const Checkpoint& other) {
    ASSERT_FALSE(one.parameters.empty());
    expect_same_bits(one.parameters, other.parameters);
    expect_same_bits(one.statistics, other.statistics);
    ASSERT_EQ(one.slots.size(), 1u);
    expect_same_bits(one.slots.at("velocity"), other.slots.at("velocity"));
    EXPECT_EQ(one, other);  // and all the rest
  }
  static void expect_same_bits(const std::vector<NamedTensor>& a,
                               const std::vector<NamedTensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].name, b[i].name);
      ASSERT_EQ(a[i].values.size(), b[i].values.size()) << a[i].name;
      EXPECT_EQ(
          std::memcmp(a[i].values.data(), b[i].values.data(), a[i].values.size() * sizeof(float)),
          0)
          << a[i].name;
    }
  }

  fs::path folder_;
};

TEST_F(TransportsAgree, TwoServers) { expect_agreement(0, false, 6); }
TEST_F(TransportsAgree, PathsBetweenDevices) { expect_paths_agree(); }
TEST_F(TransportsAgree, TiedWeightsBetweenStages) {
  expect_tied_weights_agree("hetpipe", true);
  expect_tied_weights_agree("spectrain", false);
}
TEST_F(TransportsAgree, HostedServersAndDistance) { expect_agreement(2, true, 4); }
TEST_F(TransportsAgree, PushesInBf16) {
  expect_agreement(1, false, 6, "push_precision = \"bf16\"\n");
}

}  // namespace transports_agree_test
}  // namespace hetpipe
