// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/checkpoint.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "runtime/store/checkpoint_seal.h"
#include "runtime/store/checksum.h"
#include "tests/fuzz/fuzz.h"

namespace hetpipe::fuzz {
namespace {

constexpr std::size_t kChecksum = checkpoint_seal::kHeaderBytes - 9;  // in the header
constexpr std::size_t kSealBytes = 22;

void put(std::string& bytes, std::size_t where, const std::string& text) {
  bytes.replace(where, text.size(), text);
}

// Makes length and checksums of header and table right, so that what stands in them is read. Those
// of HDF5's own bytes stay: HDF5 is not made for bytes that it has not written.
void seal(std::string& bytes) {
  if (bytes.size() < checkpoint_seal::kHeaderBytes + kSealBytes) return;
  const std::size_t length = bytes.find("\nbytes ");
  if (length < 64) put(bytes, length + 7, format("%020zu", bytes.size()));
  std::size_t table = bytes.find("\ntable ");
  if (table < 128) {
    table = std::strtoull(bytes.substr(table + 7, 20).c_str(), nullptr, 10);
    const std::size_t end = bytes.size() - kSealBytes;
    if (table <= end) {
      const auto lines = std::string_view(bytes).substr(table, end - table);
      put(bytes, end, "hetpipe-seal " + checksum_text(crc32_of(lines)) + "\n");
    }
  }
  put(bytes, kChecksum, checksum_text(crc32_of(std::string_view(bytes).substr(0, kChecksum))));
}

void read(const std::string& bytes) {
  static MemoryFile file;
  file.set(bytes);
  const std::vector<Problem> problems = verify_checkpoint(file.path());
  // A table may call HDF5's own bytes a dataset, and then nothing protects HDF5 from them: whoever
  // writes such a table could as well write bytes that crash HDF5. Not looked for here.
  for (const Problem& problem : problems) {
    if (problem.text.find("was changed: dataset") != std::string::npos) return;
  }
  const bool intact = problems.empty();
  try {
    const Checkpoint checkpoint = read_checkpoint(file.path());
    require(intact, "what does not verify was read");
    Checkpoint without = read_checkpoint(file.path(), WithExact::no);
    without.exact = checkpoint.exact;
    require(without == checkpoint, "the rest depends on the exact state");
  } catch (const UserError&) {
    require(!intact, "what verifies was not read");
  }
  try {
    read_checkpoint_outline(file.path());
  } catch (const UserError&) {
    require(!intact, "what verifies has no outline");
  }
}

}  // namespace
}  // namespace hetpipe::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  hetpipe::fuzz::read(bytes);
  hetpipe::fuzz::seal(bytes);
  hetpipe::fuzz::read(bytes);
  return 0;
}
