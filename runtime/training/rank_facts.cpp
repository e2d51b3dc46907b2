// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/rank_facts.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/training/build_hash.h"

namespace hetpipe {

RankFacts facts_of_this_rank() {
  RankFacts facts;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  facts.host = host;
  facts.pid = static_cast<int>(getpid());
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &cores)) facts.cores.push_back(core);
    }
  }
  facts.online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  facts.memory = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  facts.build = build_hash();
  facts.boot = read_file("/proc/sys/kernel/random/boot_id");
  while (!facts.boot.empty() && facts.boot.back() == '\n') facts.boot.pop_back();
  facts.place = facts.boot;
  for (const char* space : {"/proc/self/ns/net", "/proc/self/ns/pid"}) {
    std::error_code none;  // a kernel without namespaces has one of each
    facts.place += " " + std::filesystem::read_symlink(space, none).string();
  }
  return facts;
}

namespace {

// "key = value" lines of a configuration, but for what may differ from rank to rank.
std::map<std::string, std::string> settings(const std::string& configuration) {
  std::map<std::string, std::string> result;
  for (const std::string& line : split(configuration, '\n')) {
    const std::size_t equals = line.find(" = ");
    if (line.starts_with('#') || equals == std::string::npos) continue;
    result[line.substr(0, equals)] = line.substr(equals + 3);
  }
  result.erase("data");
  return result;
}

// "--epochs 2 (rank 0: --epochs 1)", for each option that differs.
std::string differences(const std::string& there, const std::string& at_rank_0) {
  const auto theirs = settings(there);
  const auto ours = settings(at_rank_0);
  std::set<std::string> names;
  for (const auto& [name, value] : theirs) names.insert(name);
  for (const auto& [name, value] : ours) names.insert(name);
  const auto said = [](const auto& options, const std::string& name) {
    const auto found = options.find(name);
    return found == options.end() ? "no --" + name : "--" + name + " " + found->second;
  };
  std::vector<std::string> texts;
  for (const std::string& name : names) {
    const std::string their = said(theirs, name);
    const std::string our = said(ours, name);
    if (their != our) texts.push_back(their + " (rank 0 with " + our + ")");
  }
  return join(texts, ", ");
}

}  // namespace

std::string named(const std::vector<std::size_t>& ranks, const std::vector<RankFacts>& facts) {
  const auto listed = [](const std::vector<std::string>& words) {
    if (words.size() == 1) return words[0];
    return join(std::span(words).first(words.size() - 1), ", ") + " and " + words.back();
  };
  std::vector<std::string> numbers;
  std::vector<std::string> hosts;
  for (const std::size_t r : ranks) {
    numbers.push_back(std::to_string(r));
    if (std::find(hosts.begin(), hosts.end(), facts[r].host) == hosts.end()) {
      hosts.push_back(facts[r].host);
    }
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + listed(numbers) + " on " + listed(hosts);
}

void check_alike(const std::vector<RankFacts>& facts) {
  std::vector<std::size_t> other_build;
  std::map<std::string, std::vector<std::size_t>> other_options;
  for (std::size_t r = 1; r < facts.size(); ++r) {
    if (facts[r].build != facts[0].build) other_build.push_back(r);
    const std::string text = differences(facts[r].configuration, facts[0].configuration);
    if (!text.empty()) other_options[text].push_back(r);
  }
  Problems problems;
  if (!other_build.empty()) {
    problems.add("",
                 format("%s: another build of hetpipe than rank 0 on %s (different builds do not "
                        "understand each other). Install the same build on all hosts.",
                        named(other_build, facts).c_str(), facts[0].host.c_str()));
    problems.throw_if_any();  // another build may well have other options
  }
  for (const auto& [text, ranks] : other_options) {
    problems.add("", named(ranks, facts) + ": started with " + text +
                         ". Start all ranks of a run with the same options.");
  }
  problems.throw_if_any();
}

std::vector<std::string> hosts_of(const std::vector<RankFacts>& facts) {
  std::vector<std::string> hosts;
  for (const RankFacts& rank : facts) hosts.push_back(rank.host);
  return hosts;
}

}  // namespace hetpipe
