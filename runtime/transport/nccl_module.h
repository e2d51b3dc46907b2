// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

// NCCL is a module that is loaded at run time, like the CUDA device: this is what the program and
// the module know of each other, and where tests put a double.
namespace hetpipe {

// One direction between two ranks: a communicator of the two, and a stream for it. Nothing here
// waits: calls are made when NCCL is ready for them.
class NcclLink {
 public:
  class Transfer {
   public:
    virtual ~Transfer() = default;
    virtual bool done() const = 0;
  };
  // Gives NCCL up (ncclCommAbort) unless it is connected and nothing is under way.
  virtual ~NcclLink() = default;
  // Moves on; true when something moved. SystemError when NCCL failed at either end.
  virtual bool poll() = 0;
  virtual bool connected() const = 0;
  // The n-th transfer of this end meets the n-th of the other, which has the same size. Memory is
  // free for it, and for a sender made.
  virtual std::shared_ptr<Transfer> send(std::span<const std::byte> memory) = 0;
  virtual std::shared_ptr<Transfer> receive(std::span<std::byte> memory) = 0;
};

class NcclModule {
 public:
  virtual ~NcclModule() = default;
  virtual std::string version() const = 0;  // "NCCL 2.28.9"
  // Names a communicator to be; one end makes it and tells the other.
  virtual std::string make_id() const = 0;
  // Begins to connect: end 0 sends, end 1 receives. `gpu`: as CUDA counts the visible ones.
  // `blocks`: thread blocks that the link may occupy on either card, of which each moves its own
  // part of a message (maxCTAs of ncclConfig_t).
  virtual std::unique_ptr<NcclLink> connect(const std::string& id, int end, int gpu,
                                            int blocks) const = 0;
  // Device memory that NCCL takes at one end of two links, one each way, of so many blocks.
  virtual std::size_t bytes_of_pair(int blocks) const = 0;
  // Sends `bytes` from a GPU to itself and compares: what one card can show. SystemError otherwise.
  virtual void send_to_self(int gpu, std::size_t bytes) const = 0;
};

inline constexpr int kNcclModuleAbi = 2;  // grows with every change of what stands above
inline constexpr const char* kNcclModuleEntry = "hetpipe_nccl_module";
using NcclModuleEntry = const NcclModule* (*)(int abi);

struct NcclLoad {
  const NcclModule* module = nullptr;
  std::string why_not;  // where there is none: "not loadable: libnccl.so.2: cannot open ..."
};
// Looks for the module hetpipe_nccl.so (base/module_file.h), unless given another, once per
// process.
const NcclLoad& load_nccl();
// For tests, before the first load: the module at this path.
void use_nccl_module(const std::string& path);

// What a link may occupy unless --nccl-blocks says otherwise: few, as a stage computes while its
// messages travel. Not measured: no machine with two cards was there.
inline constexpr int kNcclBlocks = 4;

}  // namespace hetpipe
