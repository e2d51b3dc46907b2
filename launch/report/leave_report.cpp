// SPDX-License-Identifier: Apache-2.0
#include "launch/report/leave_report.h"

#include <cstdio>
#include <exception>

#include "base/file.h"
#include "launch/report/page.h"

namespace hetpipe {
namespace {

std::uintmax_t bytes_below(const std::filesystem::path& folder) {
  std::error_code error;
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    if (!entry.is_regular_file(error)) continue;
    const std::uintmax_t size = entry.file_size(error);
    if (!error) bytes += size;
  }
  return bytes;
}

}  // namespace

bool leave_report(std::span<const std::filesystem::path> runs, const std::filesystem::path& file) {
  try {
    std::uintmax_t bytes = 0;
    for (const std::filesystem::path& run : runs) bytes += bytes_below(run / "trace");
    if (bytes > kMostTraceBytes) return false;
    std::vector<ReportedRun> read;
    for (const std::filesystem::path& run : runs) read.push_back(read_run(run.string()));
    write_file(file, report_page(read));
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "warning: the report %s was not written: %s\n", file.c_str(),
                 error.what());
    return false;
  }
}

}  // namespace hetpipe
