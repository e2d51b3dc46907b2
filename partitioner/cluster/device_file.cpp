// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cluster/device_file.h"

#include <algorithm>

#include "base/text.h"
#include "partitioner/cluster/catalogue.h"

namespace hetpipe {
namespace {

using Need = TomlReader::Need;

constexpr Range kMemory{1, 1e15};  // a petabyte
constexpr Range kSpeed{1, 1e17};   // bytes/s, flop/s
constexpr Range kShare{0.01, 1};
constexpr Range kLaunch{0, 1};  // s
constexpr Range kGpus{1, 1024};
constexpr Range kSlowdown{1e-3, 1e6};

// The entry that stands behind a type: the one it names, else the one of its own name.
std::optional<DeviceKind> entry_behind(const std::string& name, const std::string& catalogue) {
  return try_catalogue_kind(catalogue.empty() ? name : catalogue);
}

std::string without_memory(const std::string& name) {
  const std::string near = nearest(name, catalogue_names());
  return "[device." + name +
         "]: memory is missing (required for a type that is not in the catalogue of GPUs" +
         (near.empty() ? "" : "; did you mean '" + near + "'?") + "). Add it, in bytes" +
         ", or name the entry that it is made of: catalogue = \"a100-sxm-80gb\".";
}

std::string unknown_entry(const std::string& name, const std::string& catalogue) {
  const std::string near = nearest(catalogue, catalogue_names());
  return "[device." + name + "]: catalogue = \"" + catalogue + "\" (" +
         (near.empty() ? "the catalogue of GPUs has no such entry"
                       : "did you mean '" + near + "'?") +
         "). Correct the name, or leave it out and give memory, peak_flops and memory_bandwidth.";
}

// Device types may have names that are no bare keys.
std::string key(const std::string& name) {
  const bool bare = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
  return bare ? name : toml_string(name);
}

}  // namespace

DeviceKind read_device(const TomlValue& table, const std::string& name, const std::string& file,
                       Problems& problems) {
  TomlReader reader(table, "[device." + name + "]", file, problems);
  const std::string catalogue = reader.string("catalogue").value_or("");
  const auto known = entry_behind(name, catalogue);
  if (!catalogue.empty() && !known) {
    reader.problem(reader.line_of("catalogue"), unknown_entry(name, catalogue));
  }
  DeviceKind kind = known.value_or(DeviceKind{});
  kind.name = name;
  kind.catalogue = catalogue;
  kind.plan_share = reader.real("plan_share", kShare).value_or(kUsualPlanShare);
  kind.memory = reader.integer("memory", kMemory).value_or(kind.memory);
  if (!known && catalogue.empty() && !reader.has("memory")) {
    reader.problem(table.line, without_memory(name));
  }
  const auto real = [&](const char* of, Range range, double& value) {
    value = reader.real(of, range).value_or(value);
  };
  real("peak_flops", kSpeed, kind.peak_flops);
  real("peak_flops_tf32", kSpeed, kind.peak_flops_tf32);
  real("peak_flops_fp16", kSpeed, kind.peak_flops_fp16);
  real("fp32_efficiency", kShare, kind.fp32_efficiency);
  real("tensor_efficiency", kShare, kind.tensor_efficiency);
  kind.memory_bandwidth = reader.rate("memory_bandwidth", kSpeed).value_or(kind.memory_bandwidth);
  real("memory_efficiency", kShare, kind.memory_efficiency);
  if (const auto seconds = reader.real("launch_latency", kLaunch)) kind.launch_latency = seconds;
  kind.gpus = static_cast<int>(reader.integer("gpus", kGpus).value_or(1));
  if (const TomlValue* emulate = reader.table("emulate")) {
    TomlReader inner(*emulate, "[device." + name + "] emulate", file, problems);
    kind.emulate = Emulation{inner.real("slowdown", kSlowdown, Need::required).value_or(1),
                             inner.string("of").value_or(kEmulatingDevice)};
    inner.done();
  }
  reader.done();
  return kind;
}

std::string device_lines(const DeviceKind& kind) {
  const auto known = entry_behind(kind.name, kind.catalogue);
  const DeviceKind usual = known.value_or(DeviceKind{});
  std::string text = "[device." + key(kind.name) + "]\n";
  const auto real = [&](const char* of, double value) {
    text += std::string(of) + " = " + toml_real(value) + "\n";
  };
  if (!kind.catalogue.empty()) text += "catalogue = " + toml_string(kind.catalogue) + "\n";
  text += "memory = " + toml_bytes(kind.memory) + "  # bytes of each GPU\n";
  if (kind.plan_share != kUsualPlanShare) real("plan_share", kind.plan_share);
  if (kind.peak_flops > 0) real("peak_flops", kind.peak_flops);
  if (kind.peak_flops_tf32 > 0) real("peak_flops_tf32", kind.peak_flops_tf32);
  if (kind.peak_flops_fp16 > 0) real("peak_flops_fp16", kind.peak_flops_fp16);
  if (kind.fp32_efficiency != kUsualFp32Efficiency || known) {
    real("fp32_efficiency", kind.fp32_efficiency);
  }
  if (kind.tensor_efficiency != usual.tensor_efficiency) {
    real("tensor_efficiency", kind.tensor_efficiency);
  }
  if (kind.memory_bandwidth > 0) real("memory_bandwidth", kind.memory_bandwidth);
  if (kind.memory_efficiency != usual.memory_efficiency) {
    real("memory_efficiency", kind.memory_efficiency);
  }
  if (kind.launch_latency) real("launch_latency", *kind.launch_latency);
  if (kind.gpus != 1) text += "gpus = " + std::to_string(kind.gpus) + "\n";
  if (kind.emulate) {
    text += "emulate = { slowdown = " + toml_real(kind.emulate->slowdown);
    if (kind.emulate->of != kEmulatingDevice) text += ", of = \"" + kind.emulate->of + "\"";
    text += " }\n";
  }
  return text;
}

}  // namespace hetpipe
