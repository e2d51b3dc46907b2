// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/json.h"
#include "base/text.h"
#include "tests/end-to-end/event_reader.h"
#include "tests/end-to-end/exposition.h"
#include "tests/end-to-end/node_exporter.h"
#include "tests/fault/sound_input.h"

// What can be watched of a training from outside, read by readers of their own.
namespace hetpipe::test {
namespace watching_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Watching : public SoundInput {
 protected:
  // Four samples of 16 an epoch, two of them a wave.
  Ran train(const std::string& more) const { return hetpipe(std::string(kTrain) + " " + more); }
  Json json(const std::string& name) const { return Json::parse(read(file(name))); }
  Ran watch(const std::string& words) const {
    return run(folder(),
               {"sh", "-c", "COLUMNS=80 " + std::string(HETPIPE_COMMAND) + " watch " + words});
  }
  fs::path event_file(const std::string& folder) const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(file(folder))) files.push_back(entry);
    std::sort(files.begin(), files.end());
    return files.back();
  }
};

double number(const Json& json) { return json.get<double>(); }

TEST_F(Watching, MetricsAreThoseOfTheRun) {
  ASSERT_EQ(train("--epochs 3 --metrics run.prom").code, 0);
  const Exposition page = read_exposition(read(file("run.prom")));
  EXPECT_THAT(page.problems, testing::IsEmpty());
  const Json result = json("run/result.json");
  for (const ExposedSample& sample : page.samples) {
    EXPECT_EQ(sample.labels.at("run"), fs::canonical(file("run")).string());
    EXPECT_EQ(sample.name.find("hetpipe_"), 0u);
  }
  EXPECT_EQ(page.value("hetpipe_samples_total"), number(result.at("samples")));
  EXPECT_EQ(page.value("hetpipe_samples_total"), 192);
  EXPECT_EQ(page.value("hetpipe_planned_samples"), 192);
  EXPECT_EQ(page.value("hetpipe_epoch"), 3);
  EXPECT_EQ(page.value("hetpipe_waves_total"), 6);
  EXPECT_EQ(page.value("hetpipe_test_loss"), number(result.at("test_loss")));
  EXPECT_EQ(page.value("hetpipe_test_accuracy_ratio"), number(result.at("test_accuracy")));
  EXPECT_EQ(page.value("hetpipe_learning_rate"), number(result.at("learning_rate")));
  EXPECT_EQ(page.value("hetpipe_run_active"), 0);
  EXPECT_EQ(page.value("hetpipe_run_exit_code"), 0);
  EXPECT_EQ(page.types.at("hetpipe_samples_total"), "counter");
  EXPECT_EQ(page.types.at("hetpipe_samples_per_second"), "gauge");
  EXPECT_EQ(page.value("hetpipe_virtual_worker_waves_total", {{"virtual_worker", "0"}}), 6);
  EXPECT_EQ(page.value("hetpipe_virtual_worker_minibatches_total", {{"virtual_worker", "0"}}), 12);
  // Every rank's memory, and waits by cause, as the run says itself.
  std::map<std::string, double> waited;
  for (const Json& rank : result.at("ranks").items()) {
    const std::string device = rank.at("device").get<std::string>();
    EXPECT_EQ(page.value("hetpipe_rank_peak_memory_bytes", {{"device", device}}),
              number(rank.at("peak_memory")));
    for (const char* cause : {"bubble", "transfer", "data"}) {
      waited[cause] += number(rank.at("seconds").at(cause));
    }
    waited["server"] += number(rank.at("seconds").at("server_wait"));
  }
  for (const auto& [cause, seconds] : waited) {
    EXPECT_NEAR(page.value("hetpipe_virtual_worker_wait_seconds_total", {{"cause", cause}}),
                seconds, 1e-12)
        << cause;
  }
}

// Stages make steps at a rate of their own, which a run's summary has beside it.
TEST_F(Watching, TheRateIsThatOfTheServersOptimizer) {
  std::string plan = read(file("plan.toml"));
  plan.insert(plan.find('\n') + 1, "sync = \"server-step\"\n");
  write(file("steps.toml"), plan);
  const Ran ran = hetpipe(
      "train --plan steps.toml --scale mean --cluster cluster.toml --profile "
      "profile.toml --data data --transport threads --output run --lr-schedule "
      "constant --learning-rate 0.25 --stage-rate 0.125 --metrics run.prom");
  ASSERT_EQ(ran.code, 0) << ran.error;
  EXPECT_EQ(read_exposition(read(file("run.prom"))).value("hetpipe_learning_rate"), 0.25);
  EXPECT_EQ(number(json("run/result.json").at("stage_rate")), 0.125);
}

TEST_F(Watching, TheNodeExporterServesTheMetrics) {
  if (!NodeExporter::is_installed()) GTEST_SKIP() << "there is no prometheus-node-exporter here";
  fs::create_directory(file("textfiles"));
  // Two runs in one folder, one of them with everything in its name that has to be escaped.
  ASSERT_EQ(train("--metrics textfiles/one.prom").code, 0);
  const Ran other =
      run(folder(), {HETPIPE_COMMAND, "train", "--plan", "plan.toml", "--cluster", "cluster.toml",
                     "--profile", "profile.toml", "--data", "data", "--transport", "threads",
                     "--output", "a \"b\"\\c\nd", "--metrics", "textfiles/other.prom"});
  ASSERT_EQ(other.code, 0) << other.error;
  const NodeExporter exporter(file("textfiles"));
  const std::optional<std::string> served = exporter.page();
  ASSERT_TRUE(served.has_value());
  const std::string clean = "\nnode_textfile_scrape_error 0\n";
  EXPECT_THAT(*served, HasSubstr(clean));
  EXPECT_EQ(read_exposition(read(file("textfiles/other.prom"))).problems.size(), 0u);
  std::size_t lines = 0;
  for (const char* name : {"textfiles/one.prom", "textfiles/other.prom"}) {
    for (const ExposedSample& sample : read_exposition(read(file(name))).samples) {
      // It may write numbers otherwise, and adds no label.
      bool found = false;
      for (const ExposedSample& is : read_exposition(*served).samples) {
        found = found ||
                (is.name == sample.name && is.labels == sample.labels && is.value == sample.value);
      }
      EXPECT_TRUE(found) << name << ": " << sample.name;
      ++lines;
    }
  }
  EXPECT_GT(lines, 60u);
}

TEST_F(Watching, CurvesAreThoseOfTheTrace) {
  ASSERT_EQ(train("--epochs 3 --tensorboard curves").code, 0);
  const auto events = read_events(read(event_file("curves/run")));
  ASSERT_TRUE(events.has_value());
  ASSERT_FALSE(events->empty());
  EXPECT_EQ(events->front().file_version, "brain.Event:2");
  std::map<std::string, std::map<std::int64_t, float>> curves;
  for (const ReadEvent& event : *events) {
    EXPECT_FALSE(event.starts);
    EXPECT_GT(event.wall_time, 1.7e9);
    for (const auto& [tag, value] : event.values) curves[tag][event.step] = value;
  }
  // Of six waves of 32 samples, and of three epochs.
  for (const char* tag :
       {"loss/train", "accuracy/train", "learning_rate", "samples_per_second", "staleness/min",
        "staleness/max", "waits/virtual_worker_0/bubble", "waits/virtual_worker_0/server"}) {
    ASSERT_EQ(curves[tag].size(), 6u) << tag;
    EXPECT_EQ(curves[tag].begin()->first, 32) << tag;
    EXPECT_EQ(curves[tag].rbegin()->first, 192) << tag;
  }
  const Json result = json("run/result.json");
  ASSERT_EQ(curves["loss/test"].size(), result.at("evaluations").size());
  for (const Json& evaluation : result.at("evaluations").items()) {
    const auto samples = evaluation.at("samples").get<std::int64_t>();
    EXPECT_EQ(curves["loss/test"].at(samples),
              static_cast<float>(number(evaluation.at("test_loss"))));
    EXPECT_EQ(curves["accuracy/test"].at(samples),
              static_cast<float>(number(evaluation.at("test_accuracy"))));
  }
  EXPECT_EQ(curves["loss/train"].at(192),
            static_cast<float>(number(json("run/status.json").at("loss"))));
}

TEST_F(Watching, AResumedRunVoidsWhatItDoesAgain) {
  ASSERT_EQ(train("--epochs 2 --metrics run.prom --tensorboard curves").code, 0);
  // As the run was told; with a file of its own.
  const Ran resumed = hetpipe(
      "train --resume run/checkpoints/checkpoint-00000002.h5 --output run --epochs 2 "
      "--transport threads");
  ASSERT_EQ(resumed.code, 0) << resumed.error;
  const auto events = read_events(read(event_file("curves/run")));
  ASSERT_TRUE(events && events->size() > 2);
  EXPECT_TRUE((*events)[1].starts);
  EXPECT_EQ((*events)[1].step, 65);  // the first 64 samples were trained on before
  const auto first = std::find_if(events->begin(), events->end(), [](const ReadEvent& event) {
    return event.values.contains("loss/train");
  });
  ASSERT_NE(first, events->end());
  EXPECT_EQ(first->step, 96);
  const Exposition page = read_exposition(read(file("run.prom")));
  EXPECT_EQ(page.value("hetpipe_samples_total"), 128);
  EXPECT_EQ(page.value("hetpipe_virtual_worker_minibatches_total"), 8);
  EXPECT_EQ(json("run/status.json").at("start_samples").get<int>(), 64);
}

TEST_F(Watching, ChangesNoBit) {
  ASSERT_EQ(train("--epochs 2 --metrics run.prom --tensorboard curves").code, 0);
  fs::rename(file("run"), file("watched"));
  ASSERT_EQ(train("--epochs 2").code, 0);
  const Ran same = hetpipe("checkpoint diff --exact run watched");
  EXPECT_EQ(same.code, 0) << same.out << same.error;
}

TEST_F(Watching, WatchOnceShowsTheNumbersOfTheRunsFiles) {
  ASSERT_EQ(train("--epochs 3").code, 0);
  const Ran ran = watch("run --once");
  ASSERT_EQ(ran.code, 0) << ran.error;
  const Json result = json("run/result.json");
  EXPECT_THAT(ran.out, HasSubstr("ended: finished.\n"));
  EXPECT_THAT(ran.out, HasSubstr("100 %  epoch 3.00 of 3  wave 6 of 6\n"));
  EXPECT_THAT(ran.out, HasSubstr(format("test        loss %.4f  accuracy %.2f %%  after wave 6\n",
                                        number(result.at("test_loss")),
                                        100 * number(result.at("test_accuracy")))));
  EXPECT_THAT(ran.out, HasSubstr("after wave 6: checkpoint-00000006.h5\n"));
  const std::string log = read(file("run/train.log"));
  const std::string last = log.substr(log.rfind("\nwave ") + 1);
  const std::size_t loss = last.find("loss ");
  EXPECT_THAT(ran.out, HasSubstr("loss        " + last.substr(loss + 5, 6)));
  for (const Json& rank : result.at("ranks").items()) {
    EXPECT_THAT(ran.out, HasSubstr(rank.at("device").get<std::string>()));
    EXPECT_THAT(ran.out, HasSubstr(format_bytes(number(rank.at("peak_memory")))));
  }
  for (const std::string& line : split(ran.out, '\n')) EXPECT_LE(line.size(), 80u) << line;
}

// What a command writes to a terminal of 24 lines of 80 characters, until it ends with code 0.
std::string on_a_terminal(const fs::path& folder, const std::vector<std::string>& words) {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = 80;
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    if (::chdir(folder.c_str()) == 0 && ::setenv("TERM", "xterm", 1) == 0) {
      ::execvp(arguments[0], arguments.data());
    }
    ::_exit(127);
  }
  std::string text;
  char part[4096];
  for (ssize_t n = 0; (n = ::read(terminal, part, sizeof part)) > 0;) {
    text.append(part, static_cast<std::size_t>(n));
  }
  ::close(terminal);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return text;
}

TEST_F(Watching, WatchOnATerminalDrawsWhatFits) {
  ASSERT_EQ(train("").code, 0);
  std::string text = on_a_terminal(folder(), {HETPIPE_COMMAND, "watch", "run"});
  const std::string clear = "\x1b[2J\x1b[H";
  ASSERT_TRUE(text.starts_with(clear)) << text;
  text.erase(0, clear.size());
  for (const std::string code : {"\x1b[K", "\x1b[J", "\r"}) {
    for (std::size_t at = 0; (at = text.find(code)) != text.npos;) text.erase(at, code.size());
  }
  EXPECT_EQ(text.find('\x1b'), text.npos) << text;
  EXPECT_THAT(text, HasSubstr("ended: finished.\n"));
  EXPECT_THAT(text, HasSubstr("n0:1\n"));  // the last rank
  const std::vector<std::string> lines = split(text, '\n');
  EXPECT_LE(lines.size(), 24u);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u) << line;
}

// Until it ends, however long that takes; then the watch ends too.
TEST_F(Watching, WatchThroughAPipeIsPlainLines) {
  const std::string train = std::string(HETPIPE_COMMAND) + " " + kTrain + " --epochs 40";
  const Ran ran = run(folder(), {"sh", "-c",
                                 train +
                                     " > said 2>&1 & until [ -e run/config.toml ]; do sleep 0.02; "
                                     "done; " +
                                     HETPIPE_COMMAND +
                                     " watch run --interval 0.1; code=$?; wait; "
                                     "exit $code"});
  EXPECT_EQ(ran.code, 0) << ran.error;
  for (const char c : ran.out) {
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= ' ') << static_cast<int>(c);
  }
  const std::size_t last = ran.out.rfind("run         run\n");
  ASSERT_NE(last, std::string::npos) << ran.out;
  EXPECT_THAT(ran.out.substr(last), HasSubstr("ended: finished.\n"));
}

TEST_F(Watching, WhatIsNoRunIsRefused) {
  expect_refused("watch data", {"data: is not the directory of a run (it has no config.toml)"});
  expect_refused("watch none", {"none: does not exist. Give the directory of a run."});
  expect_refused("watch plan.toml", {"plan.toml: is not a folder"});
}

TEST_F(Watching, WhatCannotBeWrittenIsRefusedBeforeTraining) {
  const std::string train = kTrain;
  expect_refused(train + " --metrics none/run.prom",
                 {"--metrics: none/run.prom (there is no folder none). Create it"});
  expect_refused(train + " --metrics run.txt", {"does not end in .prom", "Give run.txt.prom."});
  expect_refused(train + " --tensorboard plan.toml/curves",
                 {"--tensorboard: plan.toml/curves (", "plan.toml is not a folder)"});
}

}  // namespace watching_test
}  // namespace hetpipe::test
