// SPDX-License-Identifier: Apache-2.0
#include "kernels/offload/clock_device.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"
#include "kernels/size_class.h"

namespace hetpipe {
namespace {

constexpr std::string_view kPrefix = "offload:";
constexpr double kSmallKernel = 5e-6;                     // s: updates, sums, conversions
constexpr std::size_t kAddresses = std::size_t{1} << 40;  // bytes

// The host's side: what launches cost it.
class HostClock {
 public:
  explicit HostClock(double launch_seconds) : launch_ns_(to_ns(launch_seconds)) {
    ::prctl(PR_SET_TIMERSLACK, 1UL);  // sleeps end in time
  }

  // Sleeps, since others want the processor; what a sleep takes too long is taken off the next.
  void launch(int kernels) {
    constexpr std::int64_t kShortest = 50'000, kLongestDebt = 1'000'000;  // ns
    const std::int64_t now = now_ns();
    free_ns_ = std::max(free_ns_, now - kLongestDebt) + kernels * launch_ns_;
    if (free_ns_ - now >= kShortest) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(free_ns_ - now));
    }
  }

 private:
  std::int64_t launch_ns_;
  std::int64_t free_ns_ = 0;
};

class ClockEvent final : public Event {
 public:
  explicit ClockEvent(std::int64_t at_ns) : at_ns_(at_ns) {}
  bool done() const override { return now_ns() >= at_ns_; }
  std::int64_t done_ns() const override { return at_ns_; }

 private:
  std::int64_t at_ns_;
};

// A copy that waits for its stream leaves the bus to others until then.
class Bus {
 public:
  // The end of the first stretch of this length, not before `start`, that no copy has; it is taken.
  std::int64_t take(std::int64_t start, std::int64_t length) {
    const std::int64_t now = now_ns();
    std::erase_if(taken_, [now](const Stretch& stretch) { return stretch.end < now; });
    auto next = taken_.begin();
    for (; next != taken_.end() && start + length > next->start; ++next) {
      start = std::max(start, next->end);
    }
    taken_.insert(next, {start, start + length});
    return start + length;
  }

 private:
  struct Stretch {
    std::int64_t start, end;
  };
  std::vector<Stretch> taken_;  // in order, apart; those to come
};

class ClockStream final : public Stream {
 public:
  void enqueue(double seconds) { free_ns_ = std::max(free_ns_, now_ns()) + to_ns(seconds); }
  // A copy: of all streams, one at a time.
  void enqueue_copy(double seconds, Bus& bus) {
    free_ns_ = bus.take(std::max(free_ns_, now_ns()), to_ns(seconds));
  }

  std::unique_ptr<Event> record() override {
    return std::make_unique<ClockEvent>(std::max(free_ns_, now_ns()));
  }
  void wait(const Event& event) override {
    free_ns_ = std::max(free_ns_, dynamic_cast<const ClockEvent&>(event).done_ns());
  }
  void synchronize() override {
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(std::max<std::int64_t>(0, free_ns_ - now_ns())));
  }

 private:
  std::int64_t free_ns_ = 0;
};

ClockStream& clock_of(Stream& stream) { return dynamic_cast<ClockStream&>(stream); }

class ClockKernel final : public LayerKernel {
 public:
  ClockKernel(const ClockSettings& settings, HostClock& host, bool learns)
      : settings_(settings), host_(host), learns_(learns) {}
  void forward(Stream& stream, const ForwardArguments&) override { launch(stream, 1); }
  void backward(Stream& stream, const BackwardArguments& arguments) override {
    const auto any = [](const auto& gradients) {
      return std::any_of(gradients.begin(), gradients.end(), [](const auto* g) { return g; });
    };
    const int wanted = any(arguments.input_gradients) + any(arguments.parameter_gradients);
    launch(stream, wanted / 2.0);
  }

 private:
  void launch(Stream& stream, double share) {
    clock_of(stream).enqueue(learns_ ? share * settings_.layer_seconds : kSmallKernel);
    host_.launch(learns_ ? static_cast<int>(share * settings_.launches) : 1);
  }
  const ClockSettings settings_;
  HostClock& host_;
  const bool learns_;
};

class ClockDevice final : public Device {
 public:
  explicit ClockDevice(const ClockSettings& settings)
      : settings_(settings), host_(settings.launch_seconds) {
    void* const addresses =
        ::mmap(nullptr, kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addresses == MAP_FAILED) throw SystemError("offload device: no addresses for its memory");
    first_ = next_ = static_cast<std::byte*>(addresses);
  }
  ~ClockDevice() override { ::munmap(first_, kAddresses); }

  const std::string& kind() const override { return kind_; }
  std::string description() const override {
    return format("offload device that is a clock: %s for a layer's forward, %d launches of %s",
                  format_seconds(settings_.layer_seconds).c_str(), settings_.launches,
                  format_seconds(settings_.launch_seconds).c_str());
  }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<ClockStream>(); }
  MemoryAccount& memory() override { return account_; }
  bool host_memory() const override { return false; }

  std::byte* allocate(Stream&, std::size_t bytes, MemoryKind kind) override {
    account_.take(bytes, kind);
    const std::size_t size = size_class(bytes, 256);
    std::vector<std::byte*>& blocks = free_[size];
    if (!blocks.empty()) {
      std::byte* const block = blocks.back();
      blocks.pop_back();
      return block;
    }
    ensure(next_ + size <= first_ + kAddresses, "a terabyte of addresses");
    return std::exchange(next_, next_ + size);
  }
  void release(Stream&, std::byte* memory, std::size_t bytes, MemoryKind kind) noexcept override {
    free_[size_class(bytes, 256)].push_back(memory);
    account_.give_back(bytes, kind);
  }
  std::byte* allocate_host(std::size_t bytes) override { return new std::byte[bytes]{}; }
  void release_host(std::byte* memory, std::size_t) noexcept override { delete[] memory; }

  // What comes from it is zeros.
  void copy(Stream& stream, std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (bytes == 0) return;
    if (is_own(to) && is_own(from)) return small(stream);
    if (!is_own(to)) std::memset(to, 0, bytes);
    clock_of(stream).enqueue_copy(static_cast<double>(bytes) / settings_.bus_bandwidth, bus_);
    host_.launch(1);
  }
  std::unique_ptr<LayerKernel> make_kernel(const LayerSpec& spec, const std::vector<Shape>& inputs,
                                           std::uint64_t) override {
    const bool learns = !infer_shapes(spec, inputs).parameters.empty();
    return std::make_unique<ClockKernel>(settings_, host_, learns);
  }

  void accumulate(Stream& s, std::byte*, const std::byte*, std::int64_t) override { small(s); }
  void convert(Stream& s, std::byte*, ElementType, const std::byte*, ElementType,
               std::int64_t) override {
    small(s);
  }
  void unpack(Stream& s, std::byte*, ElementType, const std::byte*, SampleType, std::int64_t,
              const PixelScale&) override {
    small(s);
  }
  void fill(Stream& s, float*, float, std::int64_t) override { small(s); }
  void add(Stream& s, float*, const float*, std::int64_t) override { small(s); }
  void sum(Stream& s, float*, const float*, const float*, std::int64_t) override { small(s); }
  void scale(Stream& s, float*, float, std::int64_t) override { small(s); }
  void sum_of_squares(Stream& s, double*, const float*, std::int64_t) override { small(s); }
  void limit_norm(Stream& s, float*, const double*, std::int64_t, double, std::int64_t) override {
    small(s);
  }
  void sgd(Stream& s, float*, float*, const float*, const float*, const SgdOptions&,
           std::int64_t) override {
    small(s);
  }
  void adam(Stream& s, float*, float*, float*, const float*, const float*, const AdamOptions&,
            std::int64_t, std::int64_t) override {
    small(s);
  }
  void rmsprop(Stream& s, float*, float*, const float*, const float*, const RmspropOptions&,
               std::int64_t) override {
    small(s);
  }
  void scale_by_trust(Stream& s, float*, const double*, float, std::int64_t) override { small(s); }
  void damp(Stream& s, float*, const DampedMatrix& m, const DampOptions& options) override {
    for (int k = 0; k < options.directions_of(m); ++k) small(s);
  }
  void look_ahead(Stream& s, float*, const float*, const float*, float, std::int64_t) override {
    small(s);
  }
  void look_ahead_adam(Stream& s, float*, const float*, const float*, const float*,
                       const AdamOptions&, std::int64_t, float, std::int64_t) override {
    small(s);
  }

 private:
  bool is_own(const std::byte* memory) const {
    return memory >= first_ && memory < first_ + kAddresses;
  }
  void small(Stream& stream) {
    clock_of(stream).enqueue(kSmallKernel);
    host_.launch(1);
  }

  const std::string kind_ = "clock";
  ClockSettings settings_;
  HostClock host_;
  MemoryAccount account_;
  std::byte* first_ = nullptr;
  std::byte* next_ = nullptr;
  std::map<std::size_t, std::vector<std::byte*>> free_;
  Bus bus_;
};

}  // namespace

std::optional<ClockSettings> try_parse_clock(std::string_view device) {
  if (!device.starts_with(kPrefix)) return std::nullopt;
  ClockSettings settings;
  const std::map<std::string, double*> seconds{{"layer", &settings.layer_seconds},
                                               {"launch", &settings.launch_seconds},
                                               {"bus", &settings.bus_bandwidth}};
  for (const std::string& part : split(std::string(device.substr(kPrefix.size())), ',')) {
    const std::size_t is = part.find('=');
    const std::string name = part.substr(0, is);
    const std::string text = is == std::string::npos ? "" : part.substr(is + 1);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool known = name == "launches" || seconds.contains(name);
    if (!known || error != std::errc() || end != text.data() + text.size() || value < 0 ||
        (name == "bus" && value == 0) || value > 1e15) {
      throw UserError("device '" + std::string(device) + "'",
                      "'" + part +
                          "' is no setting of a device with a clock. Give "
                          "offload:layer=SECONDS,launches=N,launch=SECONDS,bus=BYTES/S.");
    }
    if (name == "launches") {
      settings.launches = static_cast<int>(std::min(value, 1e6));
    } else {
      *seconds.at(name) = value;
    }
  }
  return settings;
}

std::unique_ptr<Device> make_clock_device(const ClockSettings& settings) {
  return std::make_unique<ClockDevice>(settings);
}

}  // namespace hetpipe
