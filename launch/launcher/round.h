// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/fields_json.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// A rank had a system failure in a round, and has reported it; all exit with this code.
struct MachineFailed {
  int code;
};

// One round of an exchange at the start: every rank sends what `mine` returns, or why
// it fails, and all receive it, by rank. Mistakes are UserError, the same on every rank, with all
// ranks' problems at once; its rank reports a system failure, and all throw it as MachineFailed.
// `hosts`: by rank; empty before they are known, when each rank reports only for itself.
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
