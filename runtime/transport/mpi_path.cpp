// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/mpi_path.h"

namespace hetpipe {

Operation MpiPath::send(Channel channel, const MessageHeader& header,
                        std::span<const std::byte> memory) {
  return add(true, channel, header, {const_cast<std::byte*>(memory.data()), memory.size()});
}

Operation MpiPath::receive(Channel channel, std::span<std::byte> memory) {
  return add(false, channel, {}, memory);
}

Operation MpiPath::add(bool sends, Channel channel, const MessageHeader& header,
                       std::span<std::byte> memory) {
  auto state = std::make_shared<Operation::State>();
  messages_.push_back({sends, channel, header, memory, stream_.record(), state});
  return Operation(std::move(state));
}

bool MpiPath::poll() {
  bool any = false;
  while (handed_over_ < messages_.size() && messages_[handed_over_].ready->done()) {
    Message& message = messages_[handed_over_++];
    message.operation =
        message.sends ? transport_.send(peer_, message.channel, message.header, message.memory)
                      : transport_.receive(peer_, message.channel, message.memory);
    any = true;
  }
  for (std::size_t i = 0; i < handed_over_;) {
    Message& message = messages_[i];
    if (!message.operation.done()) {
      ++i;
      continue;
    }
    if (!message.sends) message.state->header = message.operation.header();
    any = message.state->done = true;
    messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(i));
    --handed_over_;
  }
  return any;
}

}  // namespace hetpipe
