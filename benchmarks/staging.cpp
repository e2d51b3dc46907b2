// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "benchmarks/smallest.h"
#include "benchmarks/statistics.h"
#include "kernels/buffer.h"
#include "kernels/devices.h"
#include "runtime/transport/device_transport.h"
#include "runtime/transport/mpi.h"
#include "runtime/transport/wait.h"

// Messages from the memory of one rank's device to that of another's: how fast one alone is there,
// and what a stream of them carries.
//   mpirun -n 2 bench_staging [--smallest] [DEVICE [PIECE_KIB]]
// PIECE_KIB 0: messages as a whole.
// Even ranks send, odd ones receive. A repetition ends when the receiver's last message stands in
// its device's memory, and the sender has heard of it.
namespace hetpipe::bench {
namespace {

constexpr double kTimeout = 60;  // s

struct Extent {
  int repetitions = 9;
  std::vector<std::size_t> alone{16, 256, 1024, 4096, 16384, 65536};  // KiB
  std::vector<std::size_t> streams{256, 4096, 16384};
};

struct Pair {
  Transport& transport;
  DeviceTransport& messages;
  Rank peer;
  bool sends;

  // As RankService does: whoever saw something move looks again soon.
  void wait(const Operation& operation) const {
    while (!operation.done()) {
      bool moved = false;
      wait_until([&] { return moved || operation.done(); },
                 [&] {
                   transport.progress();
                   moved = messages.poll();
                 },
                 kTimeout, [] { return std::string("a message"); });
    }
  }
};

// Seconds for `count` messages of `bytes`, at most `ahead` of them under way.
double once(const Pair& pair, Buffer& memory, std::size_t bytes, int count, int ahead) {
  std::byte none{};
  const std::int64_t start = now_ns();
  std::deque<Operation> under_way;
  for (int i = 0; i < count; ++i) {
    if (static_cast<int>(under_way.size()) == ahead) {
      pair.wait(under_way.front());
      under_way.pop_front();
    }
    std::byte* const where = memory.data() + static_cast<std::size_t>(i % ahead) * bytes;
    under_way.push_back(pair.sends
                            ? pair.messages.send(pair.peer, Channel::forward, {}, {where, bytes})
                            : pair.messages.receive(pair.peer, Channel::forward, {where, bytes}));
  }
  for (const Operation& operation : under_way) pair.wait(operation);
  pair.wait(pair.sends ? pair.transport.receive(pair.peer, Channel::checkpoint, {&none, 1})
                       : pair.transport.send(pair.peer, Channel::checkpoint, {}, {&none, 1}));
  return seconds_between(start, now_ns());
}

void measure(const Pair& pair, Device& device, Stream& stream, int repetitions, std::size_t bytes,
             int count, int ahead) {
  Buffer memory(device, stream, bytes * static_cast<std::size_t>(ahead), MemoryKind::messages);
  const std::size_t floats = memory.bytes() / sizeof(float);
  device.fill(stream, memory.as<float>(), 1, static_cast<std::int64_t>(floats));
  stream.synchronize();
  std::vector<double> seconds;
  for (int r = 0; r <= repetitions; ++r) {
    pair.transport.exchange({});
    const double one = once(pair, memory, bytes, count, ahead);
    if (r > 0) seconds.push_back(one);
  }
  if (!pair.sends || pair.transport.rank() != Rank{0}) return;
  std::vector<double> speeds;
  for (const double s : seconds) {
    speeds.push_back(static_cast<double>(bytes) * count / s / 1e9);
  }
  std::printf("| %8zu KiB | %3d | %d | %s | %s |\n", bytes >> 10, count, ahead,
              to_string(spread_of(seconds), "%.6f").c_str(),
              to_string(spread_of(speeds), "%.2f").c_str());
  std::fflush(stdout);
}

void run(MpiSession& session, const Extent& extent, const std::string& name,
         std::uint64_t piece_bytes) {
  const auto transport = session.make_transport();
  const auto device = make_device(name, 1);
  const auto stream = device->make_stream();
  DeviceTransport messages(*transport, *device, *stream);
  const int self = session.rank().value;
  if (piece_bytes > 0) transport->set_piece_bytes(Rank{self ^ 1}, piece_bytes);
  const Pair pair{*transport, messages, Rank{self ^ 1}, self % 2 == 0};
  if (self == 0) {
    std::printf(
        "%s, pieces of %llu KiB\n\n| bytes | messages | ahead | s | GB/s |\n|--|--|--|--|--|\n",
        device->description().c_str(), static_cast<unsigned long long>(piece_bytes >> 10));
  }
  for (const std::size_t kib : extent.alone) {
    measure(pair, *device, *stream, extent.repetitions, kib << 10, 1, 1);
  }
  for (const std::size_t kib : extent.streams) {
    measure(pair, *device, *stream, extent.repetitions, kib << 10, 16, 4);
  }
  transport->exchange({});
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  hetpipe::MpiSession session(&argc, &argv);
  hetpipe::bench::Extent extent;
  if (hetpipe::bench::take_smallest(argc, argv)) extent = {1, {16}, {16}};
  try {
    if (session.ranks() % 2 != 0) {
      throw hetpipe::UserError("", "ranks send to each other in pairs. Start an even number.");
    }
    hetpipe::bench::run(
        session, extent, argc > 1 ? argv[1] : "offload",
        argc > 2 ? std::strtoull(argv[2], nullptr, 10) << 10 : hetpipe::kStagedPieceBytes);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", session.rank().value, error.what());
    std::exit(3);
  }
}
