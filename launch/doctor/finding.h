// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

// The findings of `hetpipe doctor`. Plain values.
namespace hetpipe {

enum class Severity {
  note,     // worth knowing; a run starts anyway
  mistake,  // the user's: exit code 2
  failure   // the machine's: exit code 3
};
const char* to_string(Severity severity);

struct Finding {
  Severity severity = Severity::note;
  std::string where;   // "--output runs/a", "rank 1 on n1"; empty: the launch
  std::string what;    // "is full"
  std::string why;     // why it is a problem for a run
  std::string remedy;  // one or more whole sentences
  bool operator==(const Finding&) const = default;
};
std::string sentence(const Finding& finding);  // "where: what (why). remedy"

// From the project's grammar, "what (why). remedy"; any other text becomes `what`.
Finding finding_from(Severity severity, const Problem& problem);
std::vector<Finding> findings_from(Severity severity, const std::vector<Problem>& problems);

// One thing that was checked: what was seen, and the findings.
struct Check {
  std::string name;  // "links"
  std::string seen;  // "3 pairs, all answer"
  std::vector<Finding> findings{};
  bool operator==(const Check&) const = default;
};

// 3 for a system failure, else 2 for a mistake, else 0.
ExitCode exit_code_of(const std::vector<Check>& checks);

}  // namespace hetpipe
