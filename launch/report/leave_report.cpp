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

void leave_report(const std::filesystem::path& run) {
  try {
    if (bytes_below(run / "trace") > kMostTraceBytes) return;
    std::vector<ReportedRun> runs;
    runs.push_back(read_run(run.string()));
    write_file(run / "report.html", report_page(runs));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "warning: the run's report was not written: %s\n", error.what());
  }
}

}  // namespace hetpipe
