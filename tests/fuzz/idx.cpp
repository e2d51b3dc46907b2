// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/idx.h"

#include "tests/fuzz/fuzz.h"

// Images and labels, plain and gzipped: the readers tell them apart themselves.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using hetpipe::fuzz::require;
  static hetpipe::fuzz::MemoryFile file;
  file.set({reinterpret_cast<const char*>(data), size});
  try {
    const hetpipe::IdxImages images = hetpipe::read_idx_images(file.path());
    const auto values = static_cast<std::size_t>(images.size) *
                        static_cast<std::size_t>(images.height) *
                        static_cast<std::size_t>(images.width);
    require(images.pixels.size() == values, "sizes and pixels disagree");
    const hetpipe::IdxImages first = hetpipe::read_idx_images(file.path(), 1);
    require(first.pixels.size() * static_cast<std::size_t>(images.size) == values,
            "one image is no image");
  } catch (const hetpipe::UserError&) {
  }
  try {
    require(!hetpipe::read_idx_labels(file.path()).empty(), "labels without a label");
  } catch (const hetpipe::UserError&) {
  }
  return 0;
}
