// SPDX-License-Identifier: Apache-2.0
#include "launch/profile/measure.h"

#include <algorithm>
#include <exception>

#include "base/hash.h"
#include "base/text.h"
#include "base/time.h"
#include "launch/profile/batches.h"
#include "runtime/training/build_hash.h"

namespace hetpipe {
namespace {

std::string listed(const std::vector<int>& numbers) {
  std::vector<std::string> words;
  for (const int number : numbers) words.push_back(std::to_string(number));
  return join(words, ", ");
}

KeptFile::Key cache_key(const ProfileWanted& wanted, const Model& model,
                        const ProfiledDevice& measured) {
  return {{"model", model.name()},
          {"fingerprint", to_hex(model.fingerprint())},
          {"device", measured.device->kind()},
          {"hardware", measured.hardware},
          {"driver", measured.driver},
          {"libraries", measured.libraries},
          {"precision", to_string(measured.device->precision())},
          {"batches", wanted.batches.empty() ? "chosen" : listed(wanted.batches)},
          {"threads", std::to_string(wanted.threads)},
          {"build", to_hex(build_hash()) + "+" + to_hex(measured.module)}};
}

void check_memory(const Model& model, const ProfileWanted& wanted, const ProfiledDevice& measured) {
  if (wanted.batches.empty()) return;
  const int samples = *std::max_element(wanted.batches.begin(), wanted.batches.end());
  const double needed = measuring_memory(model, measured.device->element_type()).of(samples);
  if (needed <= measured.memory) return;
  throw UserError("--minibatch",
                  format("%d samples of %s need %s (measuring may use %s of this device). Give "
                         "fewer samples, or smaller ones.",
                         samples, to_string(model.sample_shape()).c_str(),
                         format_bytes(needed).c_str(), format_bytes(measured.memory).c_str()));
}

// Measures the batches that were asked for, or chooses them as it goes. `remark`: which, and why.
Profile measure(const ProfileWanted& wanted, const Model& model, const ProfiledDevice& measured,
                std::vector<PassCheck>& checks, std::string& remark) {
  MeasureOptions how;
  how.matrices = time_matrices(model, *measured.device, how.clock);
  how.on_batch = [&](const PassCheck& pass) { checks.push_back(pass); };
  if (!wanted.batches.empty()) {
    remark = "batches of " + listed(wanted.batches) + " samples";
    return measure_profile(model, *measured.device, wanted.batches, how);
  }
  Profile profile;
  const auto one = [&](int batch) -> std::optional<double> {
    const std::int64_t start = now_ns();
    try {
      Profile next = measure_profile(model, *measured.device, {batch}, how);
      if (profile.measurements.empty()) {
        profile = std::move(next);
      } else {
        profile.measurements.push_back(std::move(next.measurements.front()));
      }
    } catch (const OutOfMemory&) {
      if (profile.measurements.empty()) throw;
      return std::nullopt;
    }
    return seconds_between(start, now_ns());
  };
  const MeasuringMemory needed = measuring_memory(model, measured.device->element_type());
  if (needed.of(1) > measured.memory) {
    throw UserError("--model", format("one sample of %s needs %s (measuring may use %s of this "
                                      "device). Take a smaller model, or smaller samples.",
                                      model.name().c_str(), format_bytes(needed.of(1)).c_str(),
                                      format_bytes(measured.memory).c_str()));
  }
  const BatchChoice choice = measure_batches(needed, measured.memory, wanted.budget_seconds, one);
  remark = "batches of " + listed(choice.batches) + " samples (" + choice.why_no_more + ")";
  return profile;
}

}  // namespace

MeasuredProfile measured_profile(const Model& model, const ProfiledDevice& on,
                                 const ProfileWanted& wanted) {
  check_memory(model, wanted, on);
  const ProfileCache cache(cache_folder(), cache_key(wanted, model, on));
  MeasuredProfile result;
  if (const auto found = wanted.fresh ? std::nullopt : cache.find()) {
    result.profile = found->profile;
    result.remark = found->remark;
    result.found = true;
    result.kept_in = cache.file();
    return result;
  }
  result.profile = measure(wanted, model, on, result.checks, result.remark);
  result.not_kept = cache.keep(result.profile, result.remark);
  if (result.not_kept.empty()) result.kept_in = cache.file();
  return result;
}

std::optional<ProfileCache::Found> ProfileCache::find() const {
  const std::optional<std::string> text = kept_.find();
  if (!text || !text->starts_with("# ")) return std::nullopt;
  const std::size_t end = text->find('\n');
  if (end == std::string::npos) return std::nullopt;
  try {
    return Found{parse_profile(*text, file().string()), text->substr(2, end - 2)};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string ProfileCache::keep(const Profile& profile, const std::string& remark) const {
  std::string line = remark;  // of one line, whatever names hold
  std::replace(line.begin(), line.end(), '\n', ' ');
  return kept_.keep("# " + line + '\n' + to_toml(profile));
}

}  // namespace hetpipe
