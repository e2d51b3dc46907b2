// SPDX-License-Identifier: Apache-2.0
#include <regex>
#include <sstream>

#include "tests/fault/sound_input.h"

// Cluster, profile and plan files that are not as they should be: each refused with its line.
namespace hetpipe::test {
namespace bad_files_test {

using BadFiles = SoundInput;

TEST_F(BadFiles, TheSoundOnesAreTaken) {
  EXPECT_EQ(hetpipe(kPlan).code, 0) << hetpipe(kPlan).error;
  const Ran ran = hetpipe(kTrain);
  EXPECT_EQ(ran.code, 0) << ran.error;
}

struct Number {
  std::string file;
  int line;
  std::string key;
  std::string text;  // the whole line, as it stands
};

// Every number of a file: one per line, of an array the first.
std::vector<Number> numbers_of(const std::string& file, const std::string& text) {
  static const std::regex kLine(R"(^([a-z_]+) = (\[|\{ slowdown = )?-?[0-9].*$)");
  std::vector<Number> numbers;
  int line = 0;
  std::istringstream in(text);
  for (std::string row; std::getline(in, row);) {
    ++line;
    std::smatch match;
    if (row != "format = 1" && std::regex_match(row, match, kLine)) {
      numbers.push_back({file, line, match[1], row});
    }
  }
  return numbers;
}

bool may_be_zero(const Number& number) {
  for (const char* key : {"latency", "inputs", "parameter_bytes", "forward_flops", "backward_flops",
                          "input_bytes", "forward", "backward", "update", "output_bytes",
                          "stash_bytes", "layers", "clock_distance", "throughput", "bottleneck"}) {
    if (number.key == key) return true;
  }
  return false;
}

// A file of the sound input, with one line replaced.
std::string with_line(const std::string& text, int line, const std::string& replacement) {
  std::istringstream in(text);
  std::string result;
  int at = 0;
  for (std::string row; std::getline(in, row);) {
    result += (++at == line ? replacement : row) + "\n";
  }
  return result;
}

TEST_F(BadFiles, EveryNumberRefusesWhatIsAbsurd) {
  int tried = 0;
  for (const char* name : {"cluster.toml", "profile.toml", "plan.toml"}) {
    const std::string sound = read(file(name));
    const std::string reader = name == std::string("plan.toml") ? kTrain : kPlan;
    for (const Number& number : numbers_of(name, sound)) {
      for (const char* bad : {"0", "-1", "1e300", "nan", "-inf", "999999999999999999",
                              "99999999999999999999", "\"many\"", "true", "[]"}) {
        if (bad == std::string("0") && may_be_zero(number)) continue;
        static const std::regex kValue(R"(-?[0-9][0-9._e+-]*)");
        const std::string line =
            std::regex_replace(number.text, kValue, bad, std::regex_constants::format_first_only);
        SCOPED_TRACE(line);
        write(file(name), with_line(sound, number.line, line));
        // A list whose first item is wrong may be too short as well, and a plan's layers not fit.
        const auto before = content_of(folder());
        const Ran ran = hetpipe(reader);
        expect_refused(ran, {});
        const std::string place = std::string(name) + ":" + std::to_string(number.line) + ":";
        EXPECT_NE(ran.error.find(place), std::string::npos) << ran.error;
        EXPECT_EQ(content_of(folder()), before);
        ++tried;
        if (HasFailure()) return;
      }
    }
    write(file(name), sound);
  }
  EXPECT_GT(tried, 300);
}

struct Spoilt {
  const char* file;
  const char* from;
  const char* to;
  const char* at;  // a text whose line is named, after the change; empty: line 1
  std::vector<std::string> words;
};

TEST_F(BadFiles, EachMistakeIsNamedWithItsLine) {
  const std::vector<Spoilt> kCases{
      // Format, syntax, keys.
      {"cluster.toml", "format = 1\n", "", "", {"format is missing", "format = 1"}},
      {"profile.toml", "format = 1\n", "", "", {"format is missing"}},
      {"plan.toml", "format = 1\n", "", "", {"format is missing"}},
      {"cluster.toml", "format = 1", "format = 2", "format = 2", {"format is not known"}},
      {"profile.toml", "format = 1", "format = 2", "format = 2", {"format is not known"}},
      {"plan.toml", "format = 1", "format = 2", "format = 2", {"format is not known"}},
      {"cluster.toml", "memory = 2_000", "memory = = 2_000", "memory = =", {"not TOML"}},
      {"plan.toml", "[[virtual_worker]]", "[[virtual_worker]", "[[virtual_worker]", {"not TOML"}},
      {"plan.toml",
       "optimizer = \"sgd",
       "optimizer = \"sgd\"\noptimizer = \"sgd",
       "optimizer = \"sgd-",
       {"not TOML"}},
      {"cluster.toml", "memory = 2", "memoy = 2", "memoy", {"'memoy'", "'memory'"}},
      {"profile.toml", "batch = 16", "batsh = 16", "batsh", {"'batsh'", "'batch'"}},
      {"plan.toml", "in_flight", "inflight", "inflight", {"'inflight'", "'in_flight'"}},
      {"plan.toml", "clock_distance", "clock_distanc", "clock_distanc", {"'clock_distance'"}},
      {"plan.toml", "nodes = [", "node = [", "[parameter_server]", {"nodes is missing"}},
      {"cluster.toml", "name = \"n0\"", "name = 7", "name = 7", {"a whole number", "a string"}},
      {"plan.toml", "minibatch = 16\n", "", "format", {"minibatch is missing"}},
      // The pool.
      {"cluster.toml",
       "name = \"s0\"",
       "name = \"n0\"",
       "name = \"n0\"\ndevices = []",
       {"node 'n0' is declared twice"}},
      {"cluster.toml",
       "[device.slow]",
       "[device.fast]",
       "[device.fast]\nmemory = 1_000",
       {"not TOML"}},
      {"cluster.toml",
       "[\"fast\", \"slow\"]\n[[node]]",
       "[\"fast\", \"slwo\"]\n[[node]]",
       "\"slwo\"]",
       {"'slwo'", "'slow'"}},
      {"cluster.toml",
       "name = \"s0\"",
       "name = \"s[0-999999999]\"",
       "name = \"s[0",
       {"'s[0-999999999]'", "at most 65536"}},
      {"cluster.toml", "name = \"s0\"", "name = \"s[5-2]\"", "name = \"s[5", {"does not expand"}},
      {"cluster.toml",
       "name = \"s0\"",
       "name = \"s[0-60000],t[0-60000]\"",
       "name = \"s[0",
       {"at most 65536"}},
      {"cluster.toml", "name = \"s0\"", "name = \"\"", "name = \"\"", {"does not expand"}},
      {"cluster.toml",
       "kinds = [\"fast\", \"slow\"]",
       "kinds = [\"fast\"]",
       "[[link.between]]",
       {"names no pair"}},
      {"cluster.toml",
       "kinds = [\"fast\", \"slow\"]",
       "kinds = [\"fast\", \"fats\"]",
       "\"fats\"",
       {"'fats'", "'fast'"}},
      {"cluster.toml",
       "[link.intra_node]\nbandwidth = 1e9\nlatency = 1e-6\n",
       "",
       "",
       {"[link.intra_node] is missing"}},
      // The profile.
      {"profile.toml",
       "forward = [1e-6, ",
       "forward = [",
       "forward = [5e-6",
       {"forward has 6 values", "7 layers"}},
      {"profile.toml",
       "stash_bytes = [4096",
       "stash_bytes = [4096, 4096",
       "stash_bytes",
       {"stash_bytes has 8 values"}},
      {"profile.toml",
       "forward = [1e-6, 5e-6",
       "forward = [1e-6, nan",
       "forward = [1e-6, nan",
       {"nan"}},
      {"profile.toml",
       "backward = [1e-6, 9e-6",
       "backward = [1e-6, -9e-6",
       "backward = [1e-6, -",
       {"must not be negative"}},
      {"profile.toml",
       "name = \"relu1\"",
       "name = \"flatten\"",
       "name = \"flatten\"\n[[layer]]",
       {"layer 'flatten' is named twice"}},
      {"profile.toml", "inputs = [0]", "inputs = [1]", "inputs = [1]", {"input 1 ("}},
      {"profile.toml",
       "parameter_bytes = 66560",
       "parameter_bytes = 9_999_999_999_999",
       "format",
       {"add up to"}},
      // The plan: layers and devices.
      {"plan.toml",
       "layers = [3, 7]",
       "layers = [4, 7]",
       "[[virtual_worker.stage]]\nlayers = [4",
       {"layers start at 4", "Start at 3"}},
      {"plan.toml",
       "layers = [3, 7]",
       "layers = [2, 7]",
       "[[virtual_worker.stage]]\nlayers = [2",
       {"layers start at 2", "Start at 3"}},
      {"plan.toml",
       "layers = [0, 3]",
       "layers = [1, 3]",
       "[[virtual_worker.stage]]\nlayers = [1",
       {"layers start at 1", "Start at 0"}},
      {"plan.toml",
       "layers = [3, 7]",
       "layers = [3, 3]",
       "[[virtual_worker.stage]]\nlayers = [3",
       {"layers [3, 3] is an empty range"}},
      {"plan.toml", "layers = [3, 7]", "layers = [3]", "layers = [3]", {"needs two numbers"}},
      {"plan.toml",
       "[\"n0:1\"]",
       "[\"n0:0\"]",
       "[[virtual_worker.stage]]\nlayers = [3",
       {"n0:0 is used twice"}},
      {"plan.toml", "[\"n0:1\"]", "[\"n0\"]", "devices = [\"n0\"]", {"'n0' is not a device"}},
      {"plan.toml", "[\"n0:1\"]", "[]", "[[virtual_worker.stage]]\nlayers = [3", {"no device"}},
      {"plan.toml",
       "micro_batches = 1",
       "micro_batches = 3",
       "[[virtual_worker.stage]]\nlayers = [0",
       {"does not divide"}},
      {"plan.toml", "nodes = [\"s0\"]", "nodes = []", "[parameter_server]", {"no node"}},
      {"plan.toml",
       "nodes = [\"s0\"]",
       "nodes = [\"s0\", \"s0\"]",
       "[parameter_server]",
       {"'s0' is named twice"}},
      {"plan.toml", "clock_distance = 0", "pull = \"newst\"", "pull", {"'newst'", "'newest'"}},
  };
  for (const Spoilt& bad : kCases) {
    SCOPED_TRACE(std::string(bad.file) + ": " + bad.from + " -> " + bad.to);
    const std::string sound = read(file(bad.file));
    spoil(bad.file, bad.from, bad.to);
    if (HasFatalFailure()) return;
    const int line = *bad.at == '\0' ? 1 : line_of(bad.file, bad.at);
    std::vector<std::string> words = bad.words;
    words.push_back(std::string(bad.file) + ":" + std::to_string(line) + ": ");
    expect_refused(bad.file == std::string("plan.toml") ? kTrain : kPlan, words);
    write(file(bad.file), sound);
  }
}

// What a plan can only get wrong together with something else.
TEST_F(BadFiles, PlansThatDoNotFitTheirClusterModelOrMachine) {
  const std::vector<Spoilt> kCases{
      {"plan.toml", "[\"n0:1\"]", "[\"n0:2\"]", "", {"plan.toml:", "'n0:2'", "'n0:"}},
      {"plan.toml", "nodes = [\"s0\"]", "nodes = [\"s1\"]", "", {"plan.toml:", "'s1'", "'s0'"}},
      {"plan.toml",
       "[parameter_server]\nnodes = [\"s0\"]\nclock_distance = 0\n",
       "",
       "",
       {"plan.toml: no [parameter_server]", "Add one with its nodes"}},
      {"plan.toml", "layers = [3, 7]", "layers = [3, 6]", "", {"plan.toml:", "end at 6", "has 7"}},
      {"plan.toml", "layers = [3, 7]", "layers = [3, 9]", "", {"plan.toml:", "end at 9", "has 7"}},
      {"plan.toml",
       "system = \"hetpipe\"",
       "system = \"hetpip\"",
       "",
       {"'hetpip'", "did you mean 'hetpipe'?"}},
      {"plan.toml",
       "optimizer = \"sgd-momentum\"",
       "optimizer = \"sgd-momentun\"",
       "",
       {"'sgd-momentun'", "'sgd-momentum'"}},
      {"plan.toml", "model = \"mlp\"", "model = \"mpl\"", "", {"plan.toml: ", "'mpl'", "'mlp'"}},
      {"plan.toml", "minibatch = 16", "minibatch = 1000000000", "", {"1000000000", "64 training"}},
      {"plan.toml",
       "in_flight = 2",
       "in_flight = 10000",
       "",
       {"n0:1", "deferred updates", "1.0 GB", "fewer minibatches in flight"}},
      {"plan.toml", "clock_distance = 0", "clock_distance = 10000", "", {"wave updates"}},
      {"cluster.toml",
       "memory = 1_000_000_000",
       "memory = 1_000",
       "",
       {"stage 1 needs", "n0:1, which has 1.0 kB", "Use a smaller minibatch"}},
      {"profile.toml",
       "name = \"relu2\"",
       "name = \"relu9\"",
       "",
       {"profile.toml: ", "has different layers from model 'mlp'", "hetpipe profile --model mlp"}},
      {"profile.toml",
       "input_bytes = 256",
       "input_bytes = 3136",
       "",
       {"profile.toml: is of samples of 784 values (those of data are (8, 8, 1), 64 values)",
        "hetpipe profile --model mlp --data data"}},
      {"profile.toml",
       "name = \"loss\"",
       "name = \"loss\"\ninput_bytes = 400",
       "",
       {"profile.toml: is of 100 classes (data has 4)", "hetpipe profile --model mlp --data data"}},
      {"profile.toml",
       "device = \"cpu\"",
       "device = \"gpu\"",
       "",
       {"no measurement on 'fast'", "gpu", "hetpipe profile --model mlp"}},
  };
  for (const Spoilt& bad : kCases) {
    SCOPED_TRACE(std::string(bad.file) + ": " + bad.from + " -> " + bad.to);
    const std::string sound = read(file(bad.file));
    spoil(bad.file, bad.from, bad.to);
    if (HasFatalFailure()) return;
    const auto before = content_of(folder());
    const Ran ran = hetpipe(kTrain);
    for (const std::string& word : bad.words) {
      EXPECT_NE(ran.error.find(word), std::string::npos) << word << "\n" << ran.error;
    }
    expect_refused(ran, {});
    EXPECT_EQ(content_of(folder()), before);
    write(file(bad.file), sound);
  }
}

TEST_F(BadFiles, PlanningForTooLittleMemoryShowsTheLedger) {
  spoil("cluster.toml", "memory = 2_000_000_000", "memory = 20_000");
  spoil("cluster.toml", "memory = 1_000_000_000", "memory = 10_000");
  expect_refused(std::string(kPlan) + " --policy np",
                 {"no partition of the model fits",
                  "has 9.5 kB (95 % of 10.0 kB)  <- too large\n    weights 66.6 kB",
                  "Use a smaller minibatch",
                  "--optimizer rmsprop (it keeps 1 number for each parameter, adam keeps 2)."});
}

TEST_F(BadFiles, WhatIsNoFileOfItsKind) {
  const std::string garbage = [] {
    std::string text;
    for (int i = 0; i < 4096; ++i) text += static_cast<char>(i * 7919 >> 3);
    return text;
  }();
  for (const char* name : {"cluster.toml", "profile.toml", "plan.toml"}) {
    SCOPED_TRACE(name);
    const std::string sound = read(file(name));
    const std::string reader = name == std::string("plan.toml") ? kTrain : kPlan;
    write(file(name), "");
    const bool profile = name == std::string("profile.toml");  // might be a graph.txt as well
    expect_refused(reader, {profile ? "the file is empty" : "the file's format is missing"});
    write(file(name), garbage);
    expect_refused(reader, {std::string(name) + ":", "not TOML"});
    write(file(name), std::string(1 << 20, '['));
    expect_refused(reader, {std::string(name) + ":1:", "not TOML"});
    write(file(name), "format = 1\n\n[[[x]]]\n" + sound);
    expect_refused(reader, {std::string(name) + ":3:", "not TOML"});
    std::filesystem::remove(file(name));
    expect_refused(reader, {std::string(name) + ": cannot be read", "No such file"});
    std::filesystem::create_directory(file(name));
    expect_refused(reader, {std::string(name) + ": is a folder"});
    std::filesystem::remove(file(name));
    // Lines as Windows ends them are TOML.
    write(file(name), std::regex_replace(sound, std::regex("\n"), "\r\n"));
    EXPECT_EQ(hetpipe(reader).code, 0) << hetpipe(reader).error;
    std::filesystem::remove_all(file("run"));
    std::filesystem::remove(file("made.toml"));
    write(file(name), sound);
  }
}

}  // namespace bad_files_test
}  // namespace hetpipe::test
