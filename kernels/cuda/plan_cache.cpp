// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/plan_cache.h"

#include <exception>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

namespace hetpipe::cuda {
namespace {

std::string line_of(const std::string& key, const PlanChoice& choice) {
  return Json{{"choice", choice.choice}, {"key", key}, {"seconds", choice.seconds}}.dump() + "\n";
}

std::optional<std::pair<std::string, PlanChoice>> try_entry(const std::string& line) {
  try {
    const Json json = Json::parse(line);
    return std::pair(
        json.at("key").get<std::string>(),
        PlanChoice{json.at("choice").get<std::string>(), json.at("seconds").get<double>()});
  } catch (const JsonError&) {
    return std::nullopt;
  }
}

}  // namespace

PlanCache::PlanCache(std::string file, Warn warn) : file_(std::move(file)), warn_(std::move(warn)) {
  read();
}

std::optional<PlanChoice> PlanCache::find(const std::string& key) const {
  const auto at = choices_.find(key);
  if (at == choices_.end()) return std::nullopt;
  return at->second;
}

void PlanCache::store(const std::string& key, const PlanChoice& choice) {
  read();
  choices_[key] = choice;
  write();
}

// What the file holds goes before what is here: whoever wrote last, all processes then choose
// alike.
void PlanCache::read() {
  std::error_code error;
  if (file_.empty() || !std::filesystem::exists(file_, error)) return;
  try {
    for (const std::string& line : split(read_file(file_), '\n')) {
      if (auto entry = try_entry(line)) choices_[entry->first] = std::move(entry->second);
    }
  } catch (const std::exception& e) {
    warn_once(e.what());
  }
}

void PlanCache::write() {
  if (file_.empty()) return;
  std::string text;
  for (const auto& [key, choice] : choices_) text += line_of(key, choice);
  try {
    const std::filesystem::path folder = std::filesystem::path(file_).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder);
    write_file(file_, text);
  } catch (const std::exception& e) {
    warn_once(e.what());
  }
}

void PlanCache::warn_once(const std::string& text) {
  if (!warned_ && warn_) {
    warn_("execution plans are searched again in every run: " + file_ + ": " + text);
  }
  warned_ = true;
}

}  // namespace hetpipe::cuda
