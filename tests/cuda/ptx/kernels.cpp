// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/ptx/kernels.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "tests/cuda/ptx/parser.h"
#include "tests/cuda/ptx/symbols.h"

namespace hetpipe::cuda::ptx {

std::vector<std::shared_ptr<const Module>> read_modules(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (file.path().extension() == ".ptx") paths.push_back(file.path());
  }
  if (paths.empty()) {
    throw UserError(folder, "holds no PTX (*.ptx is read from it). Build the PTX of the kernels.");
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::shared_ptr<const Module>> modules;
  for (const std::string& path : paths) modules.push_back(read_module(path));
  return modules;
}

void Kernels::add(const std::shared_ptr<const Module>& module) {
  for (const Entry& entry : module->entries) {
    auto known = std::make_unique<Known>();
    known->module = module;
    known->entry = &entry;
    entries_[without_file(std::string(entry.name))].of_files.push_back(std::move(known));
  }
}

void Kernels::launch(const std::string& name, const Shape& shape,
                     std::span<const std::span<const std::byte>> arguments, Order order) {
  const auto at = entries_.find(without_file(name));
  if (at == entries_.end()) {
    throw PtxFailure("no PTX has the entry " +
                     (name.empty() ? "of a kernel without a name" : name));
  }
  Entries& entries = at->second;
  Known& known = *entries.of_files[entries.next++ % entries.of_files.size()];
  if (known.program == nullptr) known.program = decode(known.module, *known.entry);
  if (shape.threads.all() > known.entry->max_threads) {
    throw PtxFailure(format("%s: blocks of %u threads, compiled for %llu at most", name.c_str(),
                            shape.threads.all(),
                            static_cast<unsigned long long>(known.entry->max_threads)));
  }
  try {
    note(known, shape, run(*known.program, shape, packed(*known.entry, arguments), order));
  } catch (const PtxFailure& failure) {
    throw PtxFailure("entry " + name + ", " + failure.what());
  }
}

std::vector<std::byte> Kernels::packed(const Entry& entry,
                                       std::span<const std::span<const std::byte>> arguments) {
  if (arguments.size() != entry.parameters.size()) {
    throw PtxFailure(
        format("%zu arguments for %zu parameters", arguments.size(), entry.parameters.size()));
  }
  std::vector<std::byte> bytes(entry.parameter_bytes, std::byte{0xff});
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Parameter& parameter = entry.parameters[i];
    if (arguments[i].size() != parameter.bytes) {
      throw PtxFailure(format("argument %zu has %zu bytes, its parameter %zu", i,
                              arguments[i].size(), parameter.bytes));
    }
    std::memcpy(bytes.data() + parameter.offset, arguments[i].data(), parameter.bytes);
  }
  return bytes;
}

std::uint64_t Kernels::run(const Program& program, const Shape& shape,
                           std::vector<std::byte> arguments, Order order) {
  global_.begin_launch(program);
  Block block(program, shape.blocks, shape.threads, std::move(arguments), global_, races_, order);
  const Extent grid = shape.blocks;
  const std::uint64_t count = std::uint64_t{grid.x} * grid.y * grid.z;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t b = order == Order::ascending ? i : count - 1 - i;
    block.run({static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
               static_cast<unsigned>(b / grid.x / grid.y)});
  }
  return block.executed();
}

void Kernels::note(const Known& known, const Shape& shape, std::uint64_t executed) {
  if (seen_path_.empty()) return;
  const std::string line = format("%s %s %ux%ux%u:%ux%ux%u:%llu\n", known.module->name.c_str(),
                                  std::string(known.entry->name).c_str(), shape.blocks.x,
                                  shape.blocks.y, shape.blocks.z, shape.threads.x, shape.threads.y,
                                  shape.threads.z, static_cast<unsigned long long>(executed));
  if (!seen_.insert(line).second) return;
  std::ofstream file(seen_path_, std::ios::app);
  if (!(file << line << std::flush)) throw SystemError("cannot write " + seen_path_);
}

}  // namespace hetpipe::cuda::ptx
