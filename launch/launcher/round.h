// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/fields_json.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// A rank's machine failed in a round, which that rank has said; all leave with this exit code.
struct MachineFailed {
  int code;
};

// One round of ranks that come together, at the start: every rank says what `mine` returns, or why
// it cannot, and all hear it, by rank. Mistakes are UserError, the same on every rank, with all
// ranks' problems at once; a failed machine is said by its rank and thrown as MachineFailed by all.
// `hosts`: by rank; empty before they are known, when ranks speak for themselves alone.
std::vector<std::string> round(Transport& transport, const std::vector<std::string>& hosts,
                               const std::function<std::string()>& mine);

// The same with values that travel (base/fields_json.h): what `mine` returns on each rank.
template <class Mine>
std::vector<std::invoke_result_t<Mine>> round_of(Transport& transport,
                                                 const std::vector<std::string>& hosts,
                                                 const Mine& mine, Keys keys = Keys::all) {
  std::vector<std::invoke_result_t<Mine>> values;
  for (const std::string& text : round(transport, hosts, [&] { return to_text(mine()); })) {
    values.push_back(from_text<std::invoke_result_t<Mine>>(text, keys));
  }
  return values;
}

}  // namespace hetpipe
