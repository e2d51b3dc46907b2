// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/path_choice.h"

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

// Why a path cannot be; empty where it can.
std::string against(PathKind kind, const PathEnd& a, const PathEnd& b) {
  if (a.host_memory || b.host_memory) return "a device that uses host memory";
  if (a.device != b.device) return "devices of two types, " + a.device + " and " + b.device;
  const bool one_process = a.machine == b.machine && a.process == b.process;
  const bool of_instance = a.uuid.starts_with("MIG-") || b.uuid.starts_with("MIG-");
  switch (kind) {
    case PathKind::staged:
      return "";
    case PathKind::ipc:
      if (a.machine != b.machine) return "ipc: two machines";
      if (of_instance && a.uuid != b.uuid) return "ipc: parts of cards (MIG) share no memory";
      // CUDA opens no handle in the process that made it.
      return a.device == "cuda" && one_process ? "ipc: ranks that are threads of one process" : "";
    case PathKind::nccl:
      if (a.device != "cuda") return "nccl: no GPUs";
      if (!a.nccl || !b.nccl) return "nccl: " + (a.nccl ? b : a).why_no_nccl;
      if (of_instance) return "nccl: takes parts of a card (MIG) for the same card";
      return a.uuid == b.uuid ? "nccl: one card for both, " + a.uuid : "";
    case PathKind::mpi:
      if (a.device != "cuda") return "mpi: no GPUs";
      if (one_process) return "mpi: ranks that are threads of one process";
      return a.mpi_reaches_gpus && b.mpi_reaches_gpus ? "" : "mpi: the library is not CUDA-aware";
  }
  ensure_failed("unknown path", std::source_location::current());
}

}  // namespace

const char* to_string(PathKind kind) {
  switch (kind) {
    case PathKind::staged:
      return "staged";
    case PathKind::ipc:
      return "ipc";
    case PathKind::nccl:
      return "nccl";
    case PathKind::mpi:
      return "mpi";
  }
  ensure_failed("unknown path", std::source_location::current());
}

PathChoice choose_path(const PathEnd& a, const PathEnd& b, std::optional<PathKind> wanted) {
  if (wanted == PathKind::staged) return {PathKind::staged, "requested"};
  const std::string none = against(PathKind::staged, a, b);
  if (!none.empty()) return {PathKind::staged, none};
  std::vector<std::string> reasons;
  for (const PathKind kind : {PathKind::nccl, PathKind::ipc, PathKind::mpi}) {
    if (wanted && wanted != kind) continue;
    const std::string reason = against(kind, a, b);
    if (reason.empty()) return {kind, ""};
    reasons.push_back(reason);
  }
  return {PathKind::staged, join(reasons, "; ")};
}

std::optional<PathKind> path_named(const std::string& name) {
  if (name == "auto") return std::nullopt;
  std::vector<std::string> names{"auto"};
  for (const PathKind kind : {PathKind::staged, PathKind::ipc, PathKind::nccl, PathKind::mpi}) {
    if (name == to_string(kind)) return kind;
    names.push_back(to_string(kind));
  }
  throw UserError("--transport-path", unknown("path", name, names));
}

}  // namespace hetpipe
