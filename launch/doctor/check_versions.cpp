// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "base/text.h"
#include "launch/doctor/checks.h"

namespace hetpipe {

Check check_versions(const std::vector<DoctorFacts>& facts) {
  const std::vector<RankFacts> ranks = ranks_of(facts);
  std::map<std::string, std::map<std::string, std::vector<std::size_t>>> ranks_with;
  for (std::size_t r = 0; r < facts.size(); ++r) {
    for (const auto& [name, version] : facts[r].versions) ranks_with[name][version].push_back(r);
  }
  Check check{"versions", ""};
  std::vector<std::string> seen;
  for (const auto& [name, versions] : ranks_with) {
    if (versions.size() == 1) {
      if (has_to_agree(name)) seen.push_back(name);
      continue;
    }
    std::map<std::size_t, std::string> each;  // by the first rank that has it
    for (const auto& [version, with] : versions) {
      each[with.front()] = version + " at " + named(with, ranks);
    }
    std::vector<std::string> texts;
    for (const auto& [rank, text] : each) texts.push_back(text);
    Finding finding{has_to_agree(name) ? Severity::failure : Severity::note, name,
                    format("%zu versions: %s", versions.size(), join(texts, "; ").c_str()), "", ""};
    if (name == "hetpipe") {
      finding.why = "different builds do not understand each other";
      finding.remedy = "Install the same build on all hosts.";
    } else if (has_to_agree(name)) {
      finding.why = "ranks with different messages, files or arithmetic fail late and in odd ways";
      finding.remedy =
          "Install the same version on all hosts; if it is installed, check modules and "
          "LD_LIBRARY_PATH.";
    } else {
      finding.why = "usually harmless";
      finding.remedy = "Look here first if hosts behave differently.";
    }
    check.findings.push_back(std::move(finding));
  }
  check.seen = "the same on all ranks: " + join(seen, ", ");
  return check;
}

}  // namespace hetpipe
