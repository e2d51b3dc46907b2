// SPDX-License-Identifier: Apache-2.0
#include "launch/probe/facts.h"

#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "kernels/cuda_loader.h"
#include "launch/probe/pcie.h"

namespace hetpipe {
namespace {

using Json = nlohmann::json;

// Empty where there is no such file.
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// NVML's answer is about this very slot; without it Linux says what both ends could do.
std::string pcie_of(const GpuInfo& gpu, const Nvml* nvml) {
  std::optional<PcieLink> link = nvml != nullptr ? nvml->pcie_link(gpu.uuid) : std::nullopt;
  if (!link) link = pcie_link_of("/sys/bus/pci/devices/" + gpu.pci);
  return link ? to_string(*link) : "";
}

Json json_of(const NvLinks& links) {
  return {{"to", links.to}, {"links", links.links}, {"bandwidth", links.bandwidth}};
}

Json json_of(const SeenCard& card) {
  const GpuInfo& gpu = card.gpu;
  Json nvlink = Json::array();
  for (const NvLinks& links : card.nvlink) nvlink.push_back(json_of(links));
  return {{"index", gpu.index},
          {"name", gpu.name},
          {"uuid", gpu.uuid},
          {"pci", gpu.pci},
          {"major", gpu.major},
          {"minor", gpu.minor},
          {"multiprocessors", gpu.multiprocessors},
          {"memory", gpu.memory},
          {"free_memory", gpu.free_memory},
          {"memory_bandwidth", gpu.memory_bandwidth},
          {"numa_node", gpu.numa_node},
          {"pcie", card.pcie},
          {"nvlink", nvlink}};
}

SeenCard card_from(const Json& json) {
  SeenCard card;
  json.at("index").get_to(card.gpu.index);
  json.at("name").get_to(card.gpu.name);
  json.at("uuid").get_to(card.gpu.uuid);
  json.at("pci").get_to(card.gpu.pci);
  json.at("major").get_to(card.gpu.major);
  json.at("minor").get_to(card.gpu.minor);
  json.at("multiprocessors").get_to(card.gpu.multiprocessors);
  json.at("memory").get_to(card.gpu.memory);
  json.at("free_memory").get_to(card.gpu.free_memory);
  json.at("memory_bandwidth").get_to(card.gpu.memory_bandwidth);
  json.at("numa_node").get_to(card.gpu.numa_node);
  json.at("pcie").get_to(card.pcie);
  for (const Json& links : json.at("nvlink")) {
    card.nvlink.push_back({links.at("to").get<std::string>(), links.at("links").get<int>(),
                           links.at("bandwidth").get<double>()});
  }
  return card;
}

}  // namespace

std::string driver_version() { return first_line("/sys/module/nvidia/version"); }

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

std::string to_text(const ProbeFacts& facts) {
  Json cards = Json::array();
  for (const SeenCard& card : facts.cards) cards.push_back(json_of(card));
  return Json{{"rank", to_text(facts.rank)},
              {"processor", facts.processor},
              {"cards", cards},
              {"why_no_card", facts.why_no_card},
              {"driver", facts.driver},
              {"why_no_nvlink", facts.why_no_nvlink},
              {"libraries", facts.libraries}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

ProbeFacts probe_facts_from_text(const std::string& text) {
  const Json json = Json::parse(text);
  ProbeFacts facts;
  facts.rank = facts_from_text(json.at("rank").get<std::string>());
  json.at("processor").get_to(facts.processor);
  for (const Json& card : json.at("cards")) facts.cards.push_back(card_from(card));
  json.at("why_no_card").get_to(facts.why_no_card);
  json.at("driver").get_to(facts.driver);
  json.at("why_no_nvlink").get_to(facts.why_no_nvlink);
  json.at("libraries").get_to(facts.libraries);
  return facts;
}

ProbeFacts probe_facts_here(LookForCards look) {
  ProbeFacts facts;
  facts.rank = facts_of_this_rank();
  facts.processor = processor_name();
  if (look == LookForCards::no) return facts;
  VisibleGpus seen = visible_gpus();
  facts.why_no_card = seen.why_none;
  std::unique_ptr<Nvml> nvml;
  try {
    if (!seen.gpus.empty()) nvml = std::make_unique<Nvml>();
  } catch (const SystemError& error) {
    facts.why_no_nvlink = error.what();
  }
  for (GpuInfo& gpu : seen.gpus) {
    // As Linux and NVML write it.
    for (char& c : gpu.pci) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    SeenCard card;
    card.pcie = pcie_of(gpu, nvml.get());
    if (nvml != nullptr) card.nvlink = nvml->nv_links(gpu.uuid);
    card.gpu = std::move(gpu);
    facts.cards.push_back(std::move(card));
  }
  if (const CudaModule* const cuda = load_cuda().module) facts.libraries = cuda->versions();
  if (!facts.cards.empty()) facts.driver = driver_version();
  return facts;
}

}  // namespace hetpipe
