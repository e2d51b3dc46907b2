// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_device.h"

namespace hetpipe {
namespace {

class InlineEvent final : public Event {
 public:
  bool done() const override { return true; }
};

// Work is done when the call that enqueues it returns.
class InlineStream final : public Stream {
 public:
  std::unique_ptr<Event> record() override { return std::make_unique<InlineEvent>(); }
  void wait(const Event&) override {}
  void synchronize() override {}
};

}  // namespace

std::unique_ptr<Stream> make_inline_stream() { return std::make_unique<InlineStream>(); }

}  // namespace hetpipe
