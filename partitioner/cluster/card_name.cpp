// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cluster/card_name.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

#include "base/text.h"

namespace hetpipe {
namespace {

// Words of a driver's name that tell no two cards apart: vendor, brand, kind of memory.
constexpr std::string_view kIdle[] = {"nvidia", "geforce", "tesla", "generation"};

bool idle(const std::string& word) {
  return std::find(std::begin(kIdle), std::end(kIdle), word) != std::end(kIdle) ||
         word.starts_with("hbm");
}

bool form(const std::string& word) { return word == "pcie" || word == "sxm" || word == "nvl"; }

std::string memory_word(const CatalogueEntry& entry) { return format("%ggb", entry.gigabytes); }

// In any order: drivers write "A100 80GB PCIe" beside "A100-PCIE-40GB".
using Words = std::set<std::string>;

Words words_of(std::string_view name) {
  Words words;
  for (std::string word : split(slug_of(name), '-')) {
    if (word.starts_with("sxm")) word = "sxm";
    if (!word.empty() && !idle(word)) words.insert(std::move(word));
  }
  return words;
}

std::vector<Words> names_of(const CatalogueEntry& entry) {
  std::vector<Words> names{words_of(entry.name)};
  if (entry.aliases.empty()) return names;
  for (const std::string& alias : split(entry.aliases, ' ')) names.push_back(words_of(alias));
  return names;
}

const CatalogueEntry* find_words(const Words& words) {
  for (const CatalogueEntry& entry : catalogue()) {
    const std::vector<Words> names = names_of(entry);
    if (std::find(names.begin(), names.end(), words) != names.end()) return &entry;
  }
  return nullptr;
}

}  // namespace

std::string slug_of(std::string_view name) {
  std::string slug;
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0) {
      slug += static_cast<char>(std::tolower(letter));
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (slug.ends_with('-')) slug.pop_back();
  constexpr std::string_view kVendor = "nvidia-";
  return slug.starts_with(kVendor) ? slug.substr(kVendor.size()) : slug;
}

const CatalogueEntry* find_card(std::string_view driver_name) {
  Words words = words_of(driver_name);
  if (words.empty()) return nullptr;
  if (const CatalogueEntry* entry = find_words(words)) return entry;
  // "H100 80GB HBM3": a card without a form in its name sits on SXM.
  if (std::none_of(words.begin(), words.end(), form)) {
    Words on_sxm = words;
    on_sxm.insert("sxm");
    if (const CatalogueEntry* entry = find_words(on_sxm)) return entry;
  }
  // "GTX 1060 6GB": the row has its memory beside its name. With another memory ("3GB") it is
  // another card.
  for (const CatalogueEntry& entry : catalogue()) {
    Words without = words;
    if (without.erase(memory_word(entry)) == 0 || without.empty()) continue;
    const std::vector<Words> names = names_of(entry);
    if (std::find(names.begin(), names.end(), without) != names.end()) return &entry;
  }
  return nullptr;
}

std::string kind_of_card(std::string_view driver_name) {
  const CatalogueEntry* entry = find_card(driver_name);
  if (entry != nullptr) return std::string(entry->name);
  const std::string slug = slug_of(driver_name);
  return slug.empty() ? "gpu" : slug;
}

}  // namespace hetpipe
