// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/sample_type.h"
#include "runtime/data/mix_rules.h"
#include "runtime/data/sample_store.h"

// A labelled set of images or of texts, as every rank that needs it opens it. First
// stages need only the images and last stages only the labels, so either part may be absent. A
// text is a row of tokens, each with its label; what is stated for images applies to them.
namespace hetpipe {

enum class Split { train, test };
enum class Parts { images, labels, both };

inline bool wants_images(Parts parts) { return parts != Parts::labels; }
inline bool wants_labels(Parts parts) { return parts != Parts::images; }
const char* split_name(Split split);  // "train", "test"

struct Dataset {
  std::string name;    // of the files it came from
  std::string remark;  // what was understood of them that users should know; empty: nothing
  int height = 0;
  int width = 0;
  int channels = 0;
  int tokens = 0;  // of a text; 0: images
  // Of a sample that is neither, as an exported model reads it; empty: it is one of the two.
  std::vector<std::int64_t> extents;
  int classes = 0;             // labels lie in [0, classes); 0: they are no classes
  int labels_per_sample = 1;   // of a text: its tokens
  bool number_labels = false;  // labels are the bits of floats
  bool skips = false;          // some labels are kNoLabel: they have no loss
  // Where labels weigh differently in the loss: which of a sample's, and what one of each class
  // weighs (kNoLabel: nothing); all 1 where it is empty.
  struct LabelWeights {
    std::int64_t first = 0, count = 0;
    std::vector<float> classes;
  };
  std::optional<LabelWeights> label_weights;
  // For masked language modelling (runtime/data/masking.h): labels are the tokens themselves, and
  // what is assembled for a model has this token, the last, in place of hidden ones.
  std::optional<int> mask_token;
  // What is assembled for a model that trains on them is mixed by these (runtime/data/mixing.h).
  MixRules mixes;
  std::string vocabulary;  // of a text by the character: the byte of each token but the mask
  std::vector<std::string> class_names;  // by label; empty: not known
  std::int64_t size = 0;
  // (N, H, W, C) or (N, tokens), row-major, as stored: one of the four is filled when the images
  // were requested.
  std::vector<std::uint8_t> pixels;      // 0..255, handed out by `scale`
  std::vector<std::uint16_t> token_ids;  // handed out as numbers
  std::vector<float> values;             // handed out unchanged
  std::shared_ptr<const SampleStore> store;
  PixelScale scale;
  // (N, labels_per_sample), in memory or not; neither is filled when they were not requested.
  std::vector<std::int32_t> labels;
  std::shared_ptr<const LabelStore> label_store;
  // Of shape, classes, all labels and the first kFingerprintImages images; equal whichever parts
  // are held. Ranks compare it at the start, and a checkpoint with the data it is resumed on.
  std::uint64_t fingerprint = 0;

  bool has_images() const {
    return !pixels.empty() || !token_ids.empty() || !values.empty() || store;
  }
  bool has_labels() const { return !labels.empty() || label_store; }
  std::vector<std::int64_t> sample_shape() const;  // (H, W, C), (tokens) or extents
  std::int64_t sample_values() const;              // elements of one

  // Writes image `key.index`, as its epoch sees it, as sample_values() floats. Needs the images.
  void copy_sample(SampleKey key, float* out) const;
  // How the images are stored, and image `key.index` like that: sample_values() of the type.
  SampleType sample_type() const;
  void copy_stored(SampleKey key, std::byte* out) const;
  // The labels_per_sample labels of sample `index`. Needs the labels.
  std::vector<std::int32_t> labels_of(std::int64_t index) const;
  void append_labels(std::int64_t index, std::vector<std::int32_t>& to) const;
  // Stores values that are all whole numbers from 0 to 65,535 as token_ids.
  void store_tokens_short();
  // What the labels of these samples weigh on average, by label_weights; 0 where there are none.
  double mean_label_weight(std::span<const std::int64_t> samples) const;
};

// Sum of what these labels weigh, by class (empty: 1 each); kNoLabel: nothing.
double sum_of_label_weights(std::span<const std::int32_t> labels, std::span<const float> classes);

// So few that a rank without images can read them quickly.
inline constexpr std::int64_t kFingerprintImages = 128;

// first_images: bytes, as stored, of the first min(size, kFingerprintImages) images.
std::uint64_t dataset_fingerprint(const Dataset& dataset, std::span<const std::int32_t> labels,
                                  std::span<const std::byte> first_images);

}  // namespace hetpipe
