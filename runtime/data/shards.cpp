// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/shards.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "base/cache.h"
#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "runtime/data/shard_index.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

struct Shard {
  fs::path path;
  std::int64_t size = 0, written = 0;  // when it was read
  ShardIndex index;
};

// Of shards, the files that are open: few, as systems limit them, those that were used last.
class OpenShards {
 public:
  std::shared_ptr<const FileReader> open(std::size_t number, const Shard& shard) const {
    constexpr std::size_t kMost = 64;
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(open_.begin(), open_.end(),
                                    [&](const auto& one) { return one.first == number; });
    if (found != open_.end()) {
      std::rotate(found, found + 1, open_.end());
      return open_.back().second;
    }
    auto file = std::make_shared<const FileReader>(shard.path);
    if (file->size() != shard.size || file->written() != shard.written) {
      throw UserError(shard.path.string(),
                      "has changed since its samples were looked up (they may lie elsewhere now). "
                      "Do not write to data during a run; start again, or --resume.");
    }
    if (open_.size() == kMost) open_.erase(open_.begin());
    open_.emplace_back(number, std::move(file));
    return open_.back().second;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::size_t, std::shared_ptr<const FileReader>>> open_;
};

class ShardSource final : public ImageSource {
 public:
  explicit ShardSource(std::vector<Shard> shards) : shards_(std::move(shards)) {
    for (Shard& shard : shards_) {
      first_.push_back(size());
      labels_.insert(labels_.end(), shard.index.labels.begin(), shard.index.labels.end());
      shard.index.labels = {};
    }
  }
  StoredImage fetch(std::int64_t index) const override {
    const auto [shard, image] = place(index);
    const ShardIndex::Place& of = shards_[shard].index.images[image];
    std::string bytes(of.length, '\0');
    open_.open(shard, shards_[shard])->read(of.offset, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }
  std::string name(std::int64_t index) const override {
    const auto [shard, image] = place(index);
    return shards_[shard].path.string() + ": " + std::string(shards_[shard].index.name(image));
  }
  std::int64_t held_bytes() const override {
    std::size_t bytes = 0;
    for (const Shard& shard : shards_) {
      bytes += shard.index.names.size() + shard.index.images.size() * sizeof(ShardIndex::Place);
    }
    return static_cast<std::int64_t>(bytes);
  }

 private:
  std::pair<std::size_t, std::size_t> place(std::int64_t index) const {
    const auto after = std::upper_bound(first_.begin(), first_.end(), index);
    const auto shard = static_cast<std::size_t>(after - first_.begin()) - 1;
    return {shard, at(index - first_[shard])};
  }

  std::vector<Shard> shards_;
  std::vector<std::int64_t> first_;  // by shard: its first image
  OpenShards open_;
};

// What is known of a shard, or is found now and kept.
Shard look_up(const fs::path& path, Problems& problems) {
  const FileReader file(path);
  Shard shard{path, file.size(), file.written(), {}};
  const KeptFile kept(cache_folder(), "shards",
                      {{"format", "1"},
                       {"shard", fs::absolute(path).string()},
                       {"bytes", std::to_string(file.size())},
                       {"written", std::to_string(file.written())}});
  if (const auto text = kept.find()) {
    if (auto index = parse_shard_index(*text)) {
      shard.index = std::move(*index);
      return shard;
    }
  }
  shard.index = read_shard(file, problems);
  if (problems.empty()) kept.keep(to_text(shard.index));  // else it is looked for again
  return shard;
}

// Several at a time: most of it is waiting for the disk.
std::vector<Shard> look_up_all(const std::vector<fs::path>& paths) {
  constexpr std::size_t kThreads = 8;
  std::vector<Shard> shards(paths.size());
  std::vector<Problems> problems(paths.size());
  std::vector<std::exception_ptr> failures(paths.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < paths.size(); i = next++) {
      try {
        shards[i] = look_up(paths[i], problems[i]);
      } catch (const UserError& error) {
        for (const Problem& problem : error.problems())
          problems[i].add(problem.where, problem.text);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t t = 1; t < std::min(kThreads, paths.size()); ++t) others.emplace_back(work);
    work();
  }
  Problems all;
  constexpr std::size_t kMostProblems = 20;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (failures[i]) std::rethrow_exception(failures[i]);
    for (const Problem& problem : problems[i].list()) {
      if (all.list().size() < kMostProblems) all.add(problem.where, problem.text);
    }
  }
  all.throw_if_any();
  return shards;
}

// Shards name no classes, so that a part of a data set may lack some.
std::string remark_on_empty(const std::vector<std::int32_t>& labels, int classes,
                            const std::string& spec) {
  std::vector<bool> seen(static_cast<std::size_t>(classes));
  for (const std::int32_t label : labels) seen[static_cast<std::size_t>(label)] = true;
  const auto first = std::find(seen.begin(), seen.end(), false);
  if (first == seen.end()) return {};
  return format(
      "%s has no training samples of %lld of its %d classes (they are numbered from 0), "
      "of class %lld for one",
      spec.c_str(), static_cast<long long>(std::count(first, seen.end(), false)), classes,
      static_cast<long long>(first - seen.begin()));
}

}  // namespace

ImageSources open_shards(const std::string& spec) {
  const ShardFiles files = shard_files(spec);
  ImageSources sources;
  sources.train = std::make_unique<ShardSource>(look_up_all(files.train));
  const auto& labels = sources.train->labels();
  sources.classes = 1 + *std::max_element(labels.begin(), labels.end());
  if (sources.classes < 2) {
    throw UserError("--data " + spec,
                    "holds one class, 0 (a classifier needs at least 2). Add another.");
  }
  sources.remark = remark_on_empty(labels, sources.classes, spec);
  if (files.test.empty()) return sources;
  sources.test = std::make_unique<ShardSource>(look_up_all(files.test));
  for (std::int64_t i = 0; i < sources.test->size(); ++i) {
    const std::int32_t label = sources.test->labels()[at(i)];
    if (label < sources.classes) continue;
    throw UserError(sources.test->name(i),
                    format("is of class %d (training samples are of 0 to %d). Add some to those, "
                           "or remove it.",
                           label, sources.classes - 1));
  }
  return sources;
}

}  // namespace hetpipe
