// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/plan_cache.h"

#include <fcntl.h>
#include <sys/file.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/file_descriptor.h"
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

// Held by who reads and writes. Of the folder, as the file is replaced: one that cannot be locked
// (on some network file systems), or whose lock another keeps for seconds, is not waited for.
OpenFile lock_of(const std::filesystem::path& folder) {
  using std::chrono::steady_clock;
  OpenFile lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto end = steady_clock::now() + std::chrono::seconds(3);
  while (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
         steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return lock;
}

}  // namespace

PlanCache::PlanCache(std::string file, Warn warn)
    : file_(std::move(file)), warn_(std::move(warn)), choices_(read()) {}

std::optional<PlanChoice> PlanCache::find(const std::string& key) const {
  const auto at = choices_.find(key);
  if (at == choices_.end()) return std::nullopt;
  return at->second;
}

// What is here stays, as this process has computed with it.
PlanChoice PlanCache::store(const std::string& key, const PlanChoice& choice) {
  if (file_.empty()) return choices_[key] = choice;
  const std::filesystem::path folder = std::filesystem::absolute(file_).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // write() says why not
  const OpenFile lock = lock_of(folder);
  Choices all = read();
  const bool sooner = !choices_.contains(key) && all.contains(key);
  if (!sooner) all[key] = choices_[key] = choice;
  choices_.insert(all.begin(), all.end());
  all.insert(choices_.begin(), choices_.end());
  if (!sooner) write(all);
  return choices_[key];
}

PlanCache::Choices PlanCache::read() {
  Choices choices;
  std::error_code error;
  if (file_.empty() || !std::filesystem::exists(file_, error)) return choices;
  try {
    for (const std::string& line : split(read_file(file_), '\n')) {
      if (auto entry = try_entry(line)) choices[entry->first] = std::move(entry->second);
    }
  } catch (const std::exception& e) {
    warn_once(e.what());
  }
  return choices;
}

void PlanCache::write(const Choices& choices) {
  std::string text;
  for (const auto& [key, choice] : choices) text += line_of(key, choice);
  try {
    write_file(file_, text, Durable::no);
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
