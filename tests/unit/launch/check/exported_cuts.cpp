// SPDX-License-Identifier: Apache-2.0
// Trains an exported model as one stage and cut into two, three and four, and compares all losses,
// weights and running statistics bit for bit. By hand:
//   exported_cuts FOLDER [two=N] [more=N] [steps=N] [seed=N] [device=NAME] [threads=N]
// two: cuts into two stages (all); more: drawn cuts each into three and into four (50). The folder
// is one that hetpipe_export.py --check wrote. Exit code 1 where something differs.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"
#include "kernels/devices.h"
#include "runtime/model/graph/import.h"
#include "tests/unit/launch/check/any_cut.h"

namespace hetpipe {
namespace {

struct CutOptions {
  std::map<std::string, int> numbers{
      {"two", 1 << 20}, {"more", 50}, {"steps", 2}, {"seed", 1}, {"threads", 1}};
  std::string device = "cpu";
};

CutOptions cut_options(int count, char** words) {
  CutOptions options;
  for (int i = 2; i < count; ++i) {
    const std::string word = words[i];
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equals);
    const std::string value = word.substr(std::min(equals + 1, word.size()));
    if (name == "device") {
      options.device = value;
      continue;
    }
    const auto found = options.numbers.find(name);
    const char* const end = value.data() + value.size();
    if (found == options.numbers.end() || value.empty() ||
        std::from_chars(value.data(), end, found->second).ptr != end) {
      throw UserError(word,
                      "is no option. Give two, more, steps, seed, threads or device, as in "
                      "steps=3.");
    }
  }
  return options;
}

int run(int count, char** words) {
  if (count < 2) throw UserError("FOLDER", "is missing. Give that of an exported model.");
  const std::string folder = words[1];
  CutOptions options = cut_options(count, words);
  std::map<std::string, int>& n = options.numbers;
  const Model model = import_model(folder);
  const CheckedBatch batch =
      read_batch(folder + "/check.safetensors", model, exported_samples(folder, {}));
  const std::unique_ptr<Device> device = make_device(options.device, n["threads"]);
  const int layers = model.layer_count();
  std::vector<Cut> cuts = cuts_in_two(layers, n["two"]);
  const std::size_t in_two = cuts.size();
  for (const int stages : {3, 4}) {
    if (stages > layers) continue;
    const auto seed = static_cast<std::uint64_t>(n["seed"]);
    const std::vector<Cut> drawn = drawn_cuts(layers, stages, n["more"], seed);
    cuts.insert(cuts.end(), drawn.begin(), drawn.end());
  }
  const std::int64_t start = now_ns();
  const CutResult result = train_cuts(model, batch, *device, n["steps"], cuts);
  std::printf(
      "%s: %d layers, %d of %d cuts into two and %zu into three and four, %d steps: %s (%s)\n",
      model.name().c_str(), layers, static_cast<int>(in_two), layers - 1, cuts.size() - in_two,
      n["steps"],
      result.different.empty() ? "the same bits"
                               : format("%zu differ", result.different.size()).c_str(),
      format_seconds(seconds_between(start, now_ns())).c_str());
  for (const std::string& line : result.different) std::printf("  %s\n", line.c_str());
  return result.different.empty() ? 0 : 1;
}

}  // namespace
}  // namespace hetpipe

int main(int count, char** words) {
  try {
    return hetpipe::run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
