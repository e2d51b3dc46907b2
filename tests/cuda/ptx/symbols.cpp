// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/ptx/symbols.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

namespace hetpipe::cuda::ptx {
namespace {

struct Object {
  std::string path;
  std::uintptr_t base = 0;
};

// Of the program or library that holds the address.
Object object_of(const void* address) {
  struct Search {
    std::uintptr_t address;
    Object found;
  } search{reinterpret_cast<std::uintptr_t>(address), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = info->dlpi_phdr[i];
          const std::uintptr_t first = info->dlpi_addr + part.p_vaddr;
          if (part.p_type != PT_LOAD || wanted.address < first ||
              wanted.address - first >= part.p_memsz) {
            continue;
          }
          wanted.found = {*info->dlpi_name == '\0' ? "/proc/self/exe" : info->dlpi_name,
                          info->dlpi_addr};
          return 1;
        }
        return 0;
      },
      &search);
  return search.found;
}

using Names = std::map<std::uintptr_t, std::string>;

template <class T>
T read_at(const std::vector<char>& file, std::size_t offset) {
  T value{};
  if (offset + sizeof value <= file.size()) std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

Names names_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::vector<char> file(std::istreambuf_iterator<char>(stream), {});
  const auto header = read_at<ElfW(Ehdr)>(file, 0);
  const auto section = [&](std::size_t i) {
    return read_at<ElfW(Shdr)>(file, header.e_shoff + i * header.e_shentsize);
  };
  Names names;
  for (std::size_t s = 0; s < header.e_shnum; ++s) {
    const auto table = section(s);
    if (table.sh_type != SHT_SYMTAB) continue;
    const auto texts = section(table.sh_link);
    for (std::size_t at = 0; at < table.sh_size; at += sizeof(ElfW(Sym))) {
      const auto symbol = read_at<ElfW(Sym)>(file, table.sh_offset + at);
      if ((symbol.st_info & 0xf) != STT_FUNC || symbol.st_value == 0) continue;
      const std::size_t name = texts.sh_offset + symbol.st_name;
      if (name < file.size()) names[symbol.st_value] = file.data() + name;
    }
  }
  return names;
}

}  // namespace

std::string symbol_at(const void* address) {
  static std::map<std::string, Names> known;
  const Object object = object_of(address);
  if (object.path.empty()) return {};
  const auto [at, is_new] = known.try_emplace(object.path);
  if (is_new) at->second = names_of(object.path);
  const auto name = at->second.find(reinterpret_cast<std::uintptr_t>(address) - object.base);
  return name == at->second.end() ? std::string() : name->second;
}

// LENGTH_GLOBAL__N__..., of LENGTH characters, is 12_GLOBAL__N_1 to others.
std::string without_file(std::string mangled) {
  const std::string mark = "_GLOBAL__N__", usual = "12_GLOBAL__N_1";
  for (std::size_t at = 0; (at = mangled.find(mark, at)) != std::string::npos;) {
    std::size_t first = at;
    while (first > 0 && std::isdigit(static_cast<unsigned char>(mangled[first - 1])) != 0) --first;
    if (first == at) break;
    const std::size_t length = std::stoul(mangled.substr(first, at - first));
    mangled.replace(first, at - first + length, usual);
    at = first + usual.size();
  }
  return mangled;
}

}  // namespace hetpipe::cuda::ptx
