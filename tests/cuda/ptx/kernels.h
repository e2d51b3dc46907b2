// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/cuda/ptx/block.h"

// The entries of PTX files, by names, and launches of them.
namespace hetpipe::cuda::ptx {

struct Shape {
  Extent blocks, threads;
};

// Every .ptx file of the folder, in the order of their names. UserError where there is none.
std::vector<std::shared_ptr<const Module>> read_modules(const std::string& folder);

class Kernels {
 public:
  explicit Kernels(FindAllocation find) : global_(find) {}

  void add(const std::shared_ptr<const Module>& module);
  // What has run is noted there, each size of each entry once: FILE ENTRY SIZE, a size being the
  // grid, the block and how many instructions warps executed. The file grows.
  void note_in(const std::string& path) { seen_path_ = path; }

  // By the mangled name, in whatever way it names files. Where several files have the entry they
  // take turns. PtxFailure, with the entry's name, where the kernel fails.
  void launch(const std::string& name, const Shape& shape,
              std::span<const std::span<const std::byte>> arguments, Order order);

 private:
  struct Known {
    std::shared_ptr<const Module> module;
    const Entry* entry = nullptr;
    std::unique_ptr<const Program> program;  // once it was launched
  };
  struct Entries {
    std::vector<std::unique_ptr<Known>> of_files;
    std::size_t next = 0;
  };

  void note(const Known& known, const Shape& shape, std::uint64_t executed);
  static std::vector<std::byte> packed(const Entry& entry,
                                       std::span<const std::span<const std::byte>> arguments);
  // Returns how many instructions warps executed.
  std::uint64_t run(const Program& program, const Shape& shape, std::vector<std::byte> arguments,
                    Order order);

  std::map<std::string, Entries> entries_;
  GlobalMemory global_;
  Races races_;
  std::string seen_path_;
  std::set<std::string> seen_;
};

}  // namespace hetpipe::cuda::ptx
