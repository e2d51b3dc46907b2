// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/finding.h"

#include <algorithm>

namespace hetpipe {

const char* to_string(Severity severity) {
  switch (severity) {
    case Severity::note:
      return "note";
    case Severity::mistake:
      return "mistake";
    case Severity::failure:
      break;
  }
  return "failure";
}

std::string sentence(const Finding& finding) {
  std::string text = finding.where.empty() ? "" : finding.where + ": ";
  text += finding.what;
  if (!finding.why.empty()) text += " (" + finding.why + ")";
  if (!finding.remedy.empty()) text += ". " + finding.remedy;
  return text;
}

Finding finding_from(Severity severity, const Problem& problem) {
  const std::string& text = problem.text;
  Finding finding{severity, problem.where, text, "", ""};
  const std::size_t open = text.find(" (");
  if (open == std::string::npos) return finding;
  int depth = 0;
  std::size_t close = open + 1;
  for (; close < text.size(); ++close) {
    if (text[close] == '(') ++depth;
    if (text[close] == ')' && --depth == 0) break;
  }
  if (text.compare(std::min(close, text.size()), 3, "). ") != 0) return finding;
  finding.what = text.substr(0, open);
  finding.why = text.substr(open + 2, close - open - 2);
  finding.remedy = text.substr(close + 3);
  return finding;
}

std::vector<Finding> findings_from(Severity severity, const std::vector<Problem>& problems) {
  std::vector<Finding> findings;
  for (const Problem& problem : problems) findings.push_back(finding_from(severity, problem));
  return findings;
}

ExitCode exit_code_of(const std::vector<Check>& checks) {
  Severity worst = Severity::note;
  for (const Check& check : checks) {
    for (const Finding& finding : check.findings) worst = std::max(worst, finding.severity);
  }
  return worst == Severity::failure   ? ExitCode::system
         : worst == Severity::mistake ? ExitCode::user
                                      : ExitCode::done;
}

}  // namespace hetpipe
