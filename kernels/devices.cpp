// SPDX-License-Identifier: Apache-2.0
#include "kernels/devices.h"

#include "base/error.h"
#include "base/text.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/reference/reference_device.h"

namespace hetpipe {
namespace {

constexpr const char* kNoCuda = "not part of this build (this release computes on the CPU alone)";

}  // namespace

std::vector<std::string> known_devices() {
  return {"cpu: " + onednn_version(), "reference: plain loops", std::string("cuda: ") + kNoCuda};
}

std::unique_ptr<Device> make_device(const std::string& name, int threads) {
  if (threads < 1) {
    throw UserError("", format("%d threads for device '%s' (a kernel needs at least one). Ask for "
                               "1 or more.",
                               threads, name.c_str()));
  }
  if (name == "cpu") return make_cpu_device(threads);
  if (name == "reference") return make_reference_device();
  if (name == "cuda") {
    throw UserError("", std::string("device 'cuda' is ") + kNoCuda +
                            ". Use 'cpu', or 'reference' to check it.");
  }
  const std::vector<std::string> names = {"cpu", "reference"};
  throw UserError("", unknown("device", name, names));
}

}  // namespace hetpipe
