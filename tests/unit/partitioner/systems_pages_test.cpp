// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/plan_table.h"
#include "partitioner/plan/staleness.h"
#include "partitioner/plan/system.h"
#include "partitioner/schedule/lower.h"
#include "partitioner/schedule/timetable.h"
#include "partitioner/simulator/gantt.h"

// The drawings of docs/systems.md and docs/systems/: each is made again from its plan in
// docs/example/systems and compared with the page. A block says what it is in the line above it:
//   <!-- drawing|actions|versions|staleness|memory|chart PLAN -->
// HETPIPE_UPDATE_PAGES=1 writes the pages again instead.
namespace hetpipe {
namespace systems_pages_test {

const std::string kDocs = HETPIPE_SOURCE_DIR "/docs/";

struct Example {
  explicit Example(const std::string& name)
      : cluster(load_cluster(kDocs + "example/cluster.toml")),
        profile(load_profile(kDocs + "example/profile.toml")),
        plan(load_plan(kDocs + "example/systems/" + name + ".toml", cluster, profile)),
        system(composition(plan)),
        waves(traits(system.sync).waves()) {
    const PlanVirtualWorker& worker = plan.virtual_workers.front();
    std::set<DeviceName> devices;
    for (const PlanStage& stage : worker.stages) devices.insert(stage.devices.front());
    request.stages = static_cast<int>(devices.size());
    request.chunks = static_cast<int>(worker.stages.size()) / request.stages;
    request.micro_batches = plan.micro_batches;
    request.in_flight = plan.in_flight;
    // As many as it takes to see weights change.
    const int minibatches = traits(system.weights).update_by_wave ? 3 : 2;
    request.end = traits(system.schedule).has_flush
                      ? 1
                      : minibatches * std::max(request.stages, plan.in_flight);
    how.sync = traits(system.sync).stage;
    how.in_flight = waves ? plan.in_flight : 1;
    how.end = request.end;
    how.recompute.assign(worker.stages.size(), traits(system.weights).recomputes);
  }

  Schedule generated() const { return generate(system.schedule, request); }
  Schedule lowered() const { return lower(generated(), how); }

  Cluster cluster;
  Profile profile;
  Plan plan;
  System system;
  bool waves;
  ScheduleRequest request;
  Lowering how;
};

std::string actions(Example example) {
  // Without waves a few minibatches show it all.
  if (!example.waves) {
    example.request.end = example.how.end = std::min<Minibatch>(example.request.end, 3);
  }
  std::string text;
  const Schedule schedule = example.lowered();
  for (std::size_t k = 0; k < schedule.size(); ++k) {
    text += format("stage %zu: ", k) + to_string(schedule[k]) + "\n";
  }
  return text;
}

// How many of the virtual worker's own updates the weights of a pass hold, by the rules of
// docs/systems.md; "+ s": predicted s further. An update counts from its place in the order of the
// stage on.
class Versions {
 public:
  Versions(const Example& example, std::size_t stage) : example_(example) {
    const auto predicted = plan_staleness(example.plan);
    if (!traits(example.system.weights).predicts()) return;
    steps_forward_ = predicted.front().forward[stage];
    steps_backward_ = predicted.front().backward[stage];
  }

  std::string of(const Action& action) {
    const Minibatch p = action.minibatch;
    if (action.kind == ActionKind::update) ++updates_;
    const bool forward = action.kind == ActionKind::forward;
    if (!forward && action.kind != ActionKind::backward) return "";
    const std::string name = to_string(action) + ":";
    switch (example_.system.weights) {
      case WeightRule::two_versions:
        return name + std::to_string(example_.plan.in_flight *
                                     std::max<Minibatch>(0, p / example_.plan.in_flight - 1));
      case WeightRule::stash:
      case WeightRule::vertical_sync:
      case WeightRule::one_version:
        if (forward)
          of_forward_[to_string(Action{.minibatch = p, .micro = action.micro})] = seen(p);
        return name + std::to_string(
                          of_forward_.at(to_string(Action{.minibatch = p, .micro = action.micro})));
      case WeightRule::predicted:
      case WeightRule::bellwether: {
        const Minibatch found = first_of_pass(p, forward);
        const int steps = forward ? steps_forward_ : steps_backward_;
        return name + std::to_string(found) + (found > 0 ? format("+%d", steps) : std::string());
      }
      case WeightRule::recomputed:
      case WeightRule::mixed:
        return name + std::to_string(forward ? first_of_pass(p, true) : updates_);
      case WeightRule::newest:
        return name + std::to_string(updates_);
    }
    return "";
  }

 private:
  Minibatch seen(Minibatch p) const {
    const bool exactly = example_.system.weights == WeightRule::vertical_sync ||
                         (example_.waves && example_.system.weights == WeightRule::stash);
    return exactly ? std::max<Minibatch>(0, p - example_.plan.in_flight + 1) : updates_;
  }
  // One prediction, or one version, for all micro-batches; each alone where they are folded.
  Minibatch first_of_pass(Minibatch p, bool forward) {
    return (forward ? first_forward_ : first_backward_).try_emplace(p, updates_).first->second;
  }

  const Example& example_;
  Minibatch updates_ = 0;
  int steps_forward_ = 0;
  int steps_backward_ = 0;
  std::map<std::string, Minibatch> of_forward_;
  std::map<Minibatch, Minibatch> first_forward_;
  std::map<Minibatch, Minibatch> first_backward_;
};

std::string versions(const Example& example) {
  std::string text;
  const Schedule schedule = example.lowered();
  for (std::size_t k = 0; k < schedule.size(); ++k) {
    Versions at(example, k);
    std::vector<std::string> words;
    for (const Action& action : schedule[k]) {
      const std::string word = at.of(action);
      if (!word.empty()) words.push_back(word);
    }
    text += format("stage %zu: ", k) + join(words, " ") + "\n";
  }
  return text;
}

std::string chart(const Example& example) {
  SimulationRequest request;
  request.keep_events = true;
  const Simulation simulation = simulate(example.plan, example.cluster, example.profile, request);
  return format("%.1f samples/s\n\n", simulation.throughput) +
         gantt_text(simulation, example.cluster);
}

std::string made(const std::string& what, const std::string& plan) {
  const Example example(plan);
  if (what == "drawing") return draw(example.generated());
  if (what == "actions") return actions(example);
  if (what == "versions") return versions(example);
  if (what == "staleness") return staleness_text(plan_staleness(example.plan));
  if (what == "memory") return memory_table(example.plan, example.cluster, example.profile);
  if (what == "chart") return chart(example);
  return "nothing is called that\n";
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> text_lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(line);
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

std::vector<std::filesystem::path> pages() {
  std::vector<std::filesystem::path> found{kDocs + "systems.md"};
  for (const auto& entry : std::filesystem::directory_iterator(kDocs + "systems")) {
    found.push_back(entry.path());
  }
  std::sort(found.begin() + 1, found.end());
  return found;
}

TEST(SystemsPages, DrawingsAreWhatTheCodeMakes) {
  const bool update = std::getenv("HETPIPE_UPDATE_PAGES") != nullptr;
  std::set<std::string> drawn;
  for (const auto& page : pages()) {
    SCOPED_TRACE(page.filename().string());
    const std::vector<std::string> lines = lines_of(page);
    ASSERT_FALSE(lines.empty());
    std::vector<std::string> anew;
    bool inside = false;  // a block that is not made here: a command, a file
    for (std::size_t i = 0; i < lines.size(); ++i) {
      anew.push_back(lines[i]);
      if (lines[i].starts_with("```")) {
        // Nothing is drawn by hand.
        EXPECT_TRUE(inside || lines[i] != "```") << "line " << i + 1 << ": a block without a name";
        inside = !inside;
      }
      if (!lines[i].starts_with("<!-- ")) continue;
      std::istringstream marker(lines[i].substr(5));
      std::string what;
      std::string plan;
      marker >> what >> plan;
      ASSERT_LT(i + 1, lines.size());
      ASSERT_EQ(lines[i + 1], "```") << "line " << i + 2;
      const auto begin = lines.begin() + static_cast<std::ptrdiff_t>(i) + 2;
      const auto end = std::find(begin, lines.end(), "```");
      ASSERT_NE(end, lines.end());
      const std::vector<std::string> expected = text_lines(made(what, plan));
      EXPECT_FALSE(expected.empty()) << what << " of " << plan;
      if (!update) {
        EXPECT_EQ(std::vector<std::string>(begin, end), expected)
            << what << " of " << plan << "; HETPIPE_UPDATE_PAGES=1 rewrites it";
      }
      anew.emplace_back("```");
      anew.insert(anew.end(), expected.begin(), expected.end());
      anew.emplace_back("```");
      i = static_cast<std::size_t>(end - lines.begin());
      if (what == "drawing") drawn.insert(composition(Example(plan).plan).name);
    }
    if (update) {
      std::ofstream file(page);
      for (const std::string& line : anew) file << line << "\n";
    }
  }
  for (const std::string& name : system_names()) {
    EXPECT_TRUE(drawn.contains(name)) << name << " is not drawn";
  }
}

// The table of docs/systems.md is the one in the code.
TEST(SystemsPages, TheTableIsTheCodes) {
  const std::vector<std::string> lines = lines_of(kDocs + "systems.md");
  for (const System& system : systems()) {
    std::vector<std::string> cells{system.name, std::string(to_string(system.schedule)),
                                   std::string(to_string(system.weights)),
                                   std::string(to_string(system.sync))};
    const bool found = std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      std::istringstream row(line);
      std::string cell;
      std::vector<std::string> words;
      while (std::getline(row, cell, '|')) {
        const auto first = cell.find_first_not_of(" `");
        if (first == std::string::npos) continue;
        words.push_back(cell.substr(first, cell.find_last_not_of(" `") + 1 - first));
      }
      return words.size() >= 5 && std::equal(cells.begin(), cells.end(), words.begin());
    });
    EXPECT_TRUE(found) << join(cells, " | ");
  }
}

}  // namespace systems_pages_test
}  // namespace hetpipe
