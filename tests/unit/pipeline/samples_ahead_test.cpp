// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/samples_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <span>
#include <thread>

#include "kernels/devices.h"
#include "kernels/offload/thread_stream.h"
#include "runtime/model/zoo.h"
#include "runtime/pipeline/batch_memory.h"
#include "runtime/pipeline/stage_io.h"

namespace hetpipe {
namespace samples_ahead_test {

constexpr int kSide = 6;
constexpr std::int64_t kValues = kSide * kSide;
constexpr int kSamples = 24;

Dataset stored_as(SampleType type) {
  Dataset data;
  data.height = data.width = kSide;
  data.channels = 1;
  data.classes = 10;
  data.size = kSamples;
  for (std::int64_t i = 0; i < kSamples * kValues; ++i) {
    switch (type) {
      case SampleType::pixels:
        data.pixels.push_back(static_cast<std::uint8_t>(7 * i % 256));
        break;
      case SampleType::tokens:
        data.token_ids.push_back(static_cast<std::uint16_t>(71 * i));
        break;
      case SampleType::floats:
        data.values.push_back(std::sin(static_cast<float>(i)));
    }
  }
  for (int i = 0; i < kSamples; ++i) data.labels.push_back(i % 10);
  return data;
}

// A stage that reads samples and holds the loss, on the offload device.
class SamplesAheadTest : public testing::Test {
 protected:
  explicit SamplesAheadTest(Precision precision = Precision::fp32)
      : device_(make_device("offload", 1, {.precision = precision, .plan_cache = {}})) {}

  Stage whole_model() {
    return Stage(model_, {model_.layer_count()}, StageId{0}, 1, *device_, *stream_);
  }

  // Samples [first, first + 4), of the data set's own order.
  Batch batch_of(const Dataset& data, std::int64_t first, Minibatch p) const {
    std::vector<SampleKey> keys;
    for (std::int64_t i = first; i < first + 4; ++i) keys.push_back({0, i});
    Batch batch = assemble_samples(data, keys, 0, memory_);
    batch.minibatch = p;
    return batch;
  }
  template <class T>
  std::vector<T> host(const Buffer& buffer) {
    std::vector<T> values(buffer.bytes() / sizeof(T));
    device_->copy(*stream_, reinterpret_cast<std::byte*>(values.data()), buffer.data(),
                  buffer.bytes());
    stream_->synchronize();
    return values;
  }
  // As the data set hands samples out, in fp32.
  void expect_samples(const Dataset& data, std::int64_t first, std::int64_t count,
                      const Pass& pass) {
    std::vector<float> wanted(static_cast<std::size_t>(count * kValues));
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < count; ++i) {
      data.copy_sample({0, first + i}, wanted.data() + i * kValues);
      labels.push_back(data.labels[static_cast<std::size_t>(first + i)]);
    }
    const std::vector<float> got = host<float>(pass.images);
    EXPECT_TRUE(
        std::ranges::equal(std::as_bytes(std::span(got)), std::as_bytes(std::span(wanted))));
    EXPECT_EQ(host<std::int32_t>(pass.labels), labels);
  }

  const Model model_ = make_model("mlp", {kSide, kSide, 1}, 10);
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_ = device_->make_stream();
  BatchMemory memory_{*device_};
};

TEST_F(SamplesAheadTest, AreWhatTheDataSetHandsOut) {
  const Stage stage = whole_model();
  for (const SampleType type : {SampleType::pixels, SampleType::tokens, SampleType::floats}) {
    SCOPED_TRACE(to_string(type));
    const Dataset data = stored_as(type);
    SamplesAhead ahead(*device_, *stream_);
    for (Minibatch p = 0; p < 6; ++p) {
      const Batch batch = batch_of(data, 4 * p, p);
      for (const auto& [micro, span] : {std::pair(0, SampleSpan{0, 1}), {1, {1, 4}}, {2, {4, 4}}}) {
        Pass pass;
        ahead.upload({p, micro, 0}, stage, batch, span);
        EXPECT_FALSE(ahead.empty());
        ahead.take({p, micro, 0}, stage, pass);
        EXPECT_TRUE(ahead.empty());
        expect_samples(data, 4 * p + span.first, span.count(), pass);
      }
    }
  }
}

// While nothing of a pass has been computed, the next one's samples are on their way, a third batch
// is assembled, and those of the pass stay what they are.
TEST_F(SamplesAheadTest, NothingIsWrittenOverThatIsStillRead) {
  const Stage stage = whole_model();
  const Dataset data = stored_as(SampleType::pixels);
  SamplesAhead ahead(*device_, *stream_);
  std::atomic<bool> go = false;
  dynamic_cast<ThreadStream&>(*stream_).enqueue([&] { go.wait(false); });
  Pass first, second;
  const std::byte* on_its_way = nullptr;
  {
    const Batch batch = batch_of(data, 0, 0);
    ahead.upload({0, 0, 0}, stage, batch, {0, 4});
    ahead.take({0, 0, 0}, stage, first);
  }
  {
    const Batch batch = batch_of(data, 4, 1);
    on_its_way = batch.images.data();
    ahead.upload({1, 0, 0}, stage, batch, {0, 4});
  }
  const Batch third = batch_of(data, 8, 2);
  EXPECT_NE(third.images.data(), on_its_way);
  ahead.take({1, 0, 0}, stage, second);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));  // time to write too early
  go = true;
  go.notify_all();
  expect_samples(data, 0, 4, first);
  expect_samples(data, 4, 4, second);
}

// Two minibatches at a time: their memory comes back, and no more is page-locked.
TEST_F(SamplesAheadTest, MemoryOfBatchesIsUsedAgain) {
  const Stage stage = whole_model();
  const Dataset data = stored_as(SampleType::pixels);
  SamplesAhead ahead(*device_, *stream_);
  std::vector<const std::byte*> places;
  for (Minibatch p = 0; p < 12; ++p) {
    const Batch batch = batch_of(data, 0, p);
    if (std::find(places.begin(), places.end(), batch.images.data()) == places.end()) {
      places.push_back(batch.images.data());
    }
    Pass pass;
    ahead.upload({p, 0, 0}, stage, batch, {0, 4});
    ahead.take({p, 0, 0}, stage, pass);
    stream_->synchronize();
  }
  EXPECT_LE(places.size(), 3u);  // one of them may hold labels
}

class HalfSamplesAhead : public SamplesAheadTest {
 protected:
  HalfSamplesAhead() : SamplesAheadTest(Precision::bf16) {}
};

TEST_F(HalfSamplesAhead, AreRoundedOnTheDevice) {
  const Stage stage = whole_model();
  const Dataset data = stored_as(SampleType::pixels);
  SamplesAhead ahead(*device_, *stream_);
  Pass pass;
  ahead.upload({0, 0, 0}, stage, batch_of(data, 0, 0), {0, 4});
  ahead.take({0, 0, 0}, stage, pass);
  const std::vector<Bf16> got = host<Bf16>(pass.images);
  ASSERT_EQ(got.size(), static_cast<std::size_t>(4 * kValues));
  std::vector<float> wanted(got.size());
  for (std::int64_t i = 0; i < 4; ++i) data.copy_sample({0, i}, wanted.data() + i * kValues);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].bits, Bf16(wanted[i]).bits) << i;
  }
}

}  // namespace samples_ahead_test
}  // namespace hetpipe
