// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// Tar archives that a test writes itself, from POSIX.1-1988 (ustar), section 10.1.1.
namespace hetpipe {

// One member: its header and its content, padded to whole blocks.
struct TarHeader {
  char type = '0';
  long long size = -1;      // as the header says it, where that differs
  std::string prefix = {};  // the field of that name
};
std::string tar_member(const std::string& name, const std::string& content,
                       const TarHeader& header = {});
// The two empty blocks that end an archive.
std::string tar_end();
// The members of a sample of WebDataset.
std::string tar_sample(const std::string& name, const std::string& image, const std::string& label,
                       const std::string& ending = ".png");

// The same bytes with the right checksum in every block that is not empty, as if each was a header.
std::string with_tar_checksums(std::string archive);

}  // namespace hetpipe
