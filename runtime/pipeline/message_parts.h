// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/pipeline/messages.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/worker_place.h"
#include "runtime/transport/transport.h"

// What sending and receiving a stage's messages share.
namespace hetpipe::message_parts {

inline TensorsOf tensors_of(const MessagePiece& piece) {
  return {.minibatch = piece.minibatch,
          .micro = piece.micros.first,
          .stage = StageId{piece.receiving_stage()}};
}
inline Channel channel_of(Payload payload) {
  return payload == Payload::activations ? Channel::forward : Channel::backward;
}

// Whose tensors, or their gradients, a message of the transfer holds.
inline std::vector<int> layers_of(const Transfer& transfer, Payload payload) {
  std::vector<int> layers = transfer.layers;
  if (payload == Payload::gradients) {
    layers.insert(layers.end(), transfer.more_gradients.begin(), transfer.more_gradients.end());
  }
  return layers;
}

// Samples `span` of a transfer's tensors, packed for samples `mine`, into or out of a message of
// `wire` elements. Returns one past what it took of that.
enum class Way { into_message, out_of_message };
inline std::byte* copy_samples(const Stage& stage, const std::vector<int>& layers, SampleSpan mine,
                               SampleSpan span, std::byte* packed, std::byte* message,
                               ElementType wire, Way way) {
  Device& device = stage.device();
  const ElementType own = device.element_type();
  for (const int layer : layers) {
    const auto sample = static_cast<std::size_t>(stage.output_elements(layer, 1));
    const std::size_t elements = static_cast<std::size_t>(span.count()) * sample;
    std::byte* const tensor =
        packed + static_cast<std::size_t>(span.first - mine.first) * sample * bytes_of(own);
    const bool into = way == Way::into_message;
    std::byte *const to = into ? message : tensor, *const from = into ? tensor : message;
    if (wire == own) {
      device.copy(stage.stream(), to, from, elements * bytes_of(own));
    } else {
      device.convert(stage.stream(), to, into ? wire : own, from, into ? own : wire,
                     static_cast<std::int64_t>(elements));
    }
    message += elements * bytes_of(wire);
    packed += static_cast<std::size_t>(mine.count()) * sample * bytes_of(own);
  }
  return message;
}

}  // namespace hetpipe::message_parts
