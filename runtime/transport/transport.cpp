// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/transport.h"

#include "base/error.h"

namespace hetpipe {

const char* to_string(Channel channel) {
  switch (channel) {
    case Channel::control:
      return "control";
    case Channel::forward:
      return "forward";
    case Channel::backward:
      return "backward";
    case Channel::evaluate:
      return "evaluate";
    case Channel::tied_weights:
      return "tied weights";
    case Channel::tied_gradients:
      return "tied gradients";
    case Channel::reduce:
      return "reduce";
    case Channel::push:
      return "push";
    case Channel::pull:
      return "pull";
    case Channel::checkpoint:
      return "checkpoint";
    case Channel::path:
      return "path";
  }
  ensure_failed("unknown channel", std::source_location::current());
}

}  // namespace hetpipe
