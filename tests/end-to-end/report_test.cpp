// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "tests/fault/command.h"
#include "tests/fault/small_training.h"

// `hetpipe report` of trainings as people run them.
namespace hetpipe {
namespace report_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr double kLong = 60;  // s on a usual machine
constexpr std::size_t kMostBytes = 1'000'000;

// A name that would end a tag, an attribute and an entity.
const char* const kName = "run<b>&'\"1";

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

class Report : public testing::Test {
 protected:
  // Two trainings for all tests: virtual workers of two stages with a server, and replicas.
  static void SetUpTestSuite() {
    folder_ = fs::temp_directory_path() / format("hetpipe-report-%d", ::getpid());
    fault::write_files(folder_);
    std::string cluster = read_file(folder_ / "cluster.toml");
    replace_all(cluster, "device.small", "device.\"sm<&all\"");
    replace_all(cluster, "\"small\"", "\"sm<&all\"");
    write_file(folder_ / "cluster.toml", cluster);
    train(fault::Shape::one_server, kName);
    train(fault::Shape::dapple, "replicas");
  }
  static void TearDownTestSuite() {
    if (!testing::UnitTest::GetInstance()->Failed()) fs::remove_all(folder_);
  }

  static void train(fault::Shape shape, const std::string& name) {
    std::vector<std::string> words =
        fault::train_words(HETPIPE_COMMAND, folder_, shape, folder_ / name, 60);
    for (const char* word : {"--transport", "threads", "--evaluate-every", "4"}) {
      words.emplace_back(word);
    }
    const test::Ran ran = test::run(folder_, words, {kLong});
    ASSERT_EQ(ran.code, 0) << ran.out << ran.error;
  }

  static test::Ran report(const std::vector<std::string>& runs) {
    std::vector<std::string> words{HETPIPE_COMMAND, "report", "--output", "page.html"};
    words.insert(words.end(), runs.begin(), runs.end());
    fs::remove(folder_ / "page.html");
    return test::run(folder_, words, {kLong});
  }
  static std::string page(const std::vector<std::string>& runs) {
    const test::Ran ran = report(runs);
    EXPECT_EQ(ran.code, 0) << ran.error;
    return read_file(folder_ / "page.html");
  }
  static Json result(const std::string& run) {
    return Json::parse(read_file(folder_ / run / "result.json"));
  }

  // A copy of a run without some of its files.
  static std::string copy_without(const std::string& run, const std::vector<std::string>& files) {
    static int number = 0;
    const std::string name = format("copy%d", ++number);
    fs::copy(folder_ / run, folder_ / name, fs::copy_options::recursive);
    for (const std::string& file : files) fs::remove_all(folder_ / name / file);
    return name;
  }

  static fs::path folder_;
};
fs::path Report::folder_;

// Every tag is closed by its own kind, in order; attributes are quoted; what is left of "<" and "&"
// is markup.
std::string first_flaw(const std::string& page) {
  static const std::set<std::string> kVoid{"meta", "link", "br", "!DOCTYPE"};
  std::vector<std::string> open;
  std::size_t at = 0;
  while ((at = page.find('<', at)) != std::string::npos) {
    const std::size_t end = page.find('>', at);
    if (end == std::string::npos) return "a tag has no end: " + page.substr(at, 80);
    const std::string tag = page.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" \n/", 1));
    if (tag.find('<') != std::string::npos) return "a tag inside of a tag: " + tag;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "an open quote: " + tag;
    at = end + 1;
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != tag.substr(1)) {
        return "</" + tag.substr(1) + "> closes <" + (open.empty() ? "" : open.back()) + ">";
      }
      open.pop_back();
      continue;
    }
    if (tag.ends_with("/") || kVoid.contains(name)) continue;
    if (name == "script" || name == "style") {
      at = page.find("</" + name + ">", at);
      if (at == std::string::npos) return name + " has no end";
      at += name.size() + 3;
      continue;
    }
    open.push_back(name);
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

// What stands between `before` and the next quote.
std::vector<std::string> all_of(const std::string& page, const std::string& before) {
  std::vector<std::string> found;
  for (std::size_t at = 0; (at = page.find(before, at)) != std::string::npos;) {
    at += before.size();
    found.push_back(page.substr(at, page.find('"', at) - at));
  }
  return found;
}

void expect_sound(const std::string& page) {
  EXPECT_EQ(first_flaw(page), "");
  EXPECT_LT(page.size(), kMostBytes);
  std::set<std::string> ids;
  for (const std::string& id : all_of(page, " id=\"")) {
    EXPECT_TRUE(ids.insert(id).second) << id << " stands twice";
  }
  for (const std::string& target : all_of(page, " href=\"")) {
    ASSERT_TRUE(target.starts_with("#")) << target << ": the page needs another file";
    EXPECT_TRUE(ids.contains(target.substr(1))) << target;
  }
  for (const std::string& words : all_of(page, " aria-labelledby=\"")) {
    for (const std::string& id : split(words, ' ')) EXPECT_TRUE(ids.contains(id)) << id;
  }
  EXPECT_THAT(page, Not(HasSubstr(" src=")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  EXPECT_THAT(page, Not(HasSubstr("url(")));
  // Every drawing and every table says what it is.
  EXPECT_EQ(all_of(page, "<svg ").size(), all_of(page, " role=\"img\" aria-labelledby=\"").size());
  EXPECT_EQ(all_of(page, "<table>").size(), all_of(page, "<table>\n<caption>").size());
}

// From a section's start to the next section of its level.
std::string section_of(const std::string& page, const std::string& id) {
  const std::size_t start = page.find("<section id=\"" + id + "\"");
  EXPECT_NE(start, std::string::npos) << "there is no panel " << id;
  if (start == std::string::npos) return {};
  return page.substr(start, page.find("</section>", start) - start);
}

std::string data_of(const Json& exact) { return "<data value=\"" + exact.dump() + "\">"; }

TEST_F(Report, NumbersAreThoseOfTheResult) {
  const std::string html = page({kName});
  const Json json = result(kName);
  for (const char* key :
       {"throughput", "seconds", "evaluation_seconds", "test_accuracy", "test_loss"}) {
    EXPECT_THAT(html, HasSubstr(data_of(json.at(key).get<double>()))) << key;
  }
  const std::string time = section_of(html, "run0-time");
  const std::string links = section_of(html, "run0-links");
  const std::string memory = section_of(html, "run0-memory");
  ASSERT_EQ(json.at("ranks").size(), 4u);
  for (const Json& rank : json.at("ranks").items()) {
    for (const char* key : {"forward", "backward", "update", "bubble", "transfer", "server_wait",
                            "data", "evaluation"}) {
      EXPECT_THAT(time, HasSubstr(data_of(rank.at("seconds").at(key)))) << key;
    }
    for (const char* key : {"forward", "backward", "pushed", "pulled"}) {
      EXPECT_THAT(links, HasSubstr(data_of(rank.at("bytes").at(key)))) << key;
    }
    EXPECT_THAT(memory, HasSubstr(data_of(rank.at("peak_memory"))));
    for (const auto& [kind, bytes] : rank.at("memory").members()) {
      EXPECT_THAT(memory, HasSubstr(">" + kind + "</th>"));
      EXPECT_THAT(memory, HasSubstr(data_of(bytes))) << kind;
    }
  }
  const std::string learning = section_of(html, "run0-learning");
  ASSERT_GT(json.at("evaluations").size(), 2u);
  for (const Json& evaluation : json.at("evaluations").items()) {
    for (const char* key : {"label", "samples", "seconds", "test_loss", "test_accuracy"}) {
      EXPECT_THAT(learning, HasSubstr(data_of(evaluation.at(key)))) << key;
    }
  }
}

TEST_F(Report, HasEveryPanelAndEachShowsSomething) {
  const std::string html = page({kName});
  expect_sound(html);
  for (const auto& [id, holds] : std::vector<std::pair<const char*, std::vector<std::string>>>{
           {"limit", {"limits this run", "hetpipe train --config"}},
           {"time", {"id=\"run0-bars\"", "Shares of each device", "predicted by the profile"}},
           {"pool", {"node n0", "n0:1", "parameter server", "virtual worker 1, stage 1"}},
           {"timeline", {"id=\"run0-overview\"", "id=\"run0-actions\"", "run0-timeline-data"}},
           {"learning",
            {"run0-loss-samples", "run0-loss-time", "run0-accuracy-samples", "run0-rate",
             "run0-staleness"}},
           {"memory", {"The ledger of", "weights"}},
           {"links", {"Activations and gradients between stages", "reached at least"}},
           {"provenance",
            {"plan hash", "plan.toml in full", "config.toml in full", "To repeat it"}},
       }) {
    const std::string section = section_of(html, std::string("run0-") + id);
    for (const std::string& text : holds) EXPECT_THAT(section, HasSubstr(text)) << id;
  }
  // What the page says ran is what ran.
  EXPECT_THAT(section_of(html, "run0-provenance"),
              HasSubstr(result(kName).at("plan_hash").get<std::string>()));
}

TEST_F(Report, NamesAreText) {
  const std::string html = page({kName});
  EXPECT_THAT(html, HasSubstr("run&lt;b&gt;&amp;&#39;&quot;1"));
  EXPECT_THAT(html, Not(HasSubstr("<b>")));
  EXPECT_THAT(html, HasSubstr("sm&lt;&amp;all"));
  EXPECT_THAT(html, Not(HasSubstr("sm<")));
}

// The timeline has every action of a short run, where it was and where it was expected.
TEST_F(Report, TimelineHoldsEveryAction) {
  const std::string html = page({kName});
  const std::string start = "id=\"run0-timeline-data\">";
  const std::size_t at = html.find(start) + start.size();
  const Json timeline = Json::parse(html.substr(at, html.find("</script>", at) - at));
  ASSERT_EQ(timeline.at("windows").size(), 1u);
  const test::Ran csv = test::run(
      folder_, {HETPIPE_COMMAND, "trace", "export", kName, "--csv", "actions.csv"}, {kLong});
  ASSERT_EQ(csv.code, 0) << csv.error;
  const std::vector<std::string> rows = split(read_file(folder_ / "actions.csv"), '\n');
  std::size_t actions = 0, computing = 0, predicted = 0;
  for (const Json& rank : timeline.at("windows").at(std::size_t{0}).at("ranks").items()) {
    ASSERT_EQ(rank.size() % 7, 0u);
    actions += rank.size() / 7;
    for (std::size_t i = 0; i < rank.size(); i += 7) {
      const char kind = static_cast<char>(rank.at(i + 2).get<int>());
      if (std::string("FB").find(kind) == std::string::npos) continue;
      ++computing;
      predicted += rank.at(i + 6).get<std::int64_t>() > 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(actions, rows.size() - 2);  // the header, and nothing behind the last
  EXPECT_GT(computing, 0u);
  EXPECT_EQ(predicted, computing);
  std::set<std::string> marks;
  for (const Json& mark : timeline.at("marks").items())
    marks.insert(mark.at("kind").get<std::string>());
  EXPECT_EQ(marks, (std::set<std::string>{"E", "C", "X"}));
}

TEST_F(Report, SeveralRunsStandSideBySide) {
  const std::string html = page({kName, "replicas"});
  expect_sound(html);
  const std::string comparison = section_of(html, "comparison");
  for (const char* run : {kName, "replicas"}) {
    EXPECT_THAT(comparison, HasSubstr(data_of(result(run).at("throughput")))) << run;
  }
  for (const char* panel : {"run0-limit", "run1-limit", "run0-time", "run1-time", "run1-timeline",
                            "run1-learning", "run1-memory", "run1-links", "run1-provenance"}) {
    EXPECT_NE(section_of(html, panel), "");
  }
}

TEST_F(Report, RunThatWasKilledShowsWhatIsThere) {
  const std::string killed = copy_without("replicas", {"result.json", "trace/trace.h5"});
  const std::string html = page({killed});
  expect_sound(html);
  EXPECT_THAT(section_of(html, "run0-limit"), HasSubstr("result.json does not exist"));
  EXPECT_THAT(section_of(html, "run0-limit"), HasSubstr("--resume"));
  EXPECT_THAT(section_of(html, "run0-timeline"), HasSubstr("run0-overview"));
  EXPECT_THAT(section_of(html, "run0-learning"), HasSubstr("run0-loss-samples"));

  const std::string untraced = page({copy_without("replicas", {"trace"})});
  expect_sound(untraced);
  EXPECT_THAT(section_of(untraced, "run0-limit"), HasSubstr("holds no trace"));
  EXPECT_THAT(section_of(untraced, "run0-time"), HasSubstr("run0-bars"));
}

std::string plain_text(std::string html) {
  for (const auto& [entity, text] : std::vector<std::pair<std::string, std::string>>{
           {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}}) {
    replace_all(html, entity, text);
  }
  return html;
}

// An uneven cut, in simulated time: what the page promises is what its commands give.
TEST_F(Report, EditThatHelpsMostDoes) {
  write_file(folder_ / "uneven.toml",
             "format = 1\nsystem = \"pipedream\"\nmodel = \"mlp\"\nminibatch = 8\nin_flight = 2\n"
             "optimizer = \"sgd-momentum\"\n[[virtual_worker]]\n"
             "[[virtual_worker.stage]]\nlayers = [0, 5]\ndevices = [\"n0:0\"]\n"
             "[[virtual_worker.stage]]\nlayers = [5, 7]\ndevices = [\"n1:0\"]\n");
  const std::vector<std::string> train{
      HETPIPE_COMMAND,   "train",        "--plan",   "uneven.toml", "--cluster", "cluster.toml",
      "--profile",       "profile.toml", "--data",   "data",        "--clock",   "simulated",
      "--transport",     "threads",      "--output", "uneven",      "--epochs",  "2",
      "--learning-rate", "0.02"};
  const test::Ran ran = test::run(folder_, train, {kLong});
  ASSERT_EQ(ran.code, 0) << ran.out << ran.error;
  const std::string limit = section_of(page({"uneven"}), "run0-limit");
  EXPECT_THAT(limit, HasSubstr("Computing on stage 0 limits this run."));
  EXPECT_THAT(limit, HasSubstr("The edit that helps most: move layer 4 (relu2) from stage 0"));
  const std::vector<std::string> promised = all_of(limit, "measured: <data value=\"");
  ASSERT_EQ(promised.size(), 1u) << limit;
  const double gain = std::stod(promised.front());
  EXPECT_GT(gain, 0.05);
  const std::size_t at = limit.find("<code>") + 6;
  std::string commands = plain_text(limit.substr(at, limit.find("</code>", at) - at));
  ASSERT_NE(commands.find("\nhetpipe "), std::string::npos) << commands;
  commands.replace(commands.find("\nhetpipe "), 9, "\n" + std::string(HETPIPE_COMMAND) + " ");
  const test::Ran edited = test::run(folder_, {"/bin/bash", "-ec", commands}, {kLong});
  ASSERT_EQ(edited.code, 0) << commands << edited.out << edited.error;
  const double before = result("uneven").at("throughput").get<double>();
  const double after = result("uneven-edited").at("throughput").get<double>();
  EXPECT_NEAR(after / before, 1 + gain, 0.02);
}

// A training leaves the page in its directory.
TEST_F(Report, EveryRunLeavesItsOwn) {
  const std::string html = read_file(folder_ / kName / "report.html");
  expect_sound(html);
  EXPECT_THAT(html, HasSubstr(data_of(result(kName).at("throughput"))));
  EXPECT_THAT(section_of(html, "run0-timeline"), HasSubstr("run0-overview"));
}

TEST_F(Report, EverySystemHasItsPage) {
  for (int shape = 0; shape < fault::kShapes; ++shape) {
    const std::string name = fault::name(static_cast<fault::Shape>(shape));
    SCOPED_TRACE(name);
    std::vector<std::string> words = fault::train_words(
        HETPIPE_COMMAND, folder_, static_cast<fault::Shape>(shape), folder_ / ("s-" + name), 60);
    for (const char* word : {"--transport", "threads", "--clock", "simulated"}) {
      words.emplace_back(word);
    }
    const test::Ran ran = test::run(folder_, words, {kLong});
    ASSERT_EQ(ran.code, 0) << ran.out << ran.error;
    EXPECT_THAT(ran.error, Not(HasSubstr("report was not written")));
    const std::string html = read_file(folder_ / ("s-" + name) / "report.html");
    expect_sound(html);
    EXPECT_THAT(section_of(html, "run0-limit"), Not(HasSubstr("could not be tried")));
    EXPECT_THAT(section_of(html, "run0-time"), HasSubstr("predicted by the profile"));
    EXPECT_THAT(section_of(html, "run0-memory"), HasSubstr("The ledger of"));
    EXPECT_THAT(section_of(html, "run0-timeline"), HasSubstr("k-predicted"));
    EXPECT_THAT(section_of(html, "run0-learning"), HasSubstr("run0-loss-samples"));
    EXPECT_THAT(section_of(html, "run0-learning"), HasSubstr("run0-staleness"));
    const Json json = result("s-" + name);
    for (const Json& rank : json.at("ranks").items()) {
      EXPECT_THAT(section_of(html, "run0-pool"), HasSubstr(rank.at("device").get<std::string>()));
    }
  }
}

TEST_F(Report, SimulationsHaveTheSamePage) {
  const std::vector<std::string> words{
      HETPIPE_COMMAND, "simulate",     "--plan",   "one-server.toml", "--cluster", "cluster.toml",
      "--profile",     "profile.toml", "--report", "simulated.html",  "--json"};
  const test::Ran ran = test::run(folder_, words, {kLong});
  ASSERT_EQ(ran.code, 0) << ran.error;
  const Json json = Json::parse(ran.out);
  const std::string html = read_file(folder_ / "simulated.html");
  expect_sound(html);
  EXPECT_THAT(html, HasSubstr(data_of(json.at("throughput"))));
  EXPECT_THAT(html, HasSubstr(data_of(json.at("iteration_time"))));
  EXPECT_THAT(section_of(html, "run0-limit"), HasSubstr("hetpipe simulate --cluster"));
  EXPECT_THAT(section_of(html, "run0-timeline"), HasSubstr("run0-actions"));
  const std::string memory = section_of(html, "run0-memory");
  for (const Json& stage : json.at("stages").items()) {
    EXPECT_THAT(memory, HasSubstr(data_of(stage.at("peak_memory"))));
  }
  EXPECT_THAT(html, Not(HasSubstr("run0-learning")));
}

TEST_F(Report, WhatIsNoRunIsRefused) {
  const auto refused = [](const std::string& run, const std::vector<std::string>& words) {
    const test::Ran ran = report({run});
    EXPECT_EQ(ran.code, 2) << run;
    for (const std::string& word : words) EXPECT_THAT(ran.error, HasSubstr(word));
    EXPECT_FALSE(fs::exists(folder_ / "page.html"));
  };
  refused("nowhere", {"nowhere", "Give the directory of a run"});
  refused(copy_without("replicas", {"plan.toml"}), {"plan.toml", "does not exist"});
  refused(copy_without("replicas", {"result.json", "trace"}),
          {"result.json", "does not exist", "Give a run"});
  const test::Ran over = test::run(
      folder_, {HETPIPE_COMMAND, "report", "replicas", "--output", "replicas/plan.toml"}, {kLong});
  EXPECT_EQ(over.code, 2);
  EXPECT_THAT(over.error, HasSubstr("would be overwritten"));
  const std::string spoilt = copy_without("replicas", {});
  write_file(folder_ / spoilt / "result.json", "{\"ranks\": 3");
  refused(spoilt, {"result.json", "is not the result of a run"});
}

}  // namespace report_test
}  // namespace hetpipe
