// SPDX-License-Identifier: Apache-2.0
#pragma once

// The constants of the imitation of Megatron-DeepSpeed's pipeline engine (megatron.h); its memory
// constant stands with its ledger (cost/megatron_ledger.h). One value each for all clusters and all
// runs; docs/measured.md says what the measured runs say about them.
namespace hetpipe {

struct MegatronConstants {
  // A send returns once what is left fits what NCCL holds for the wire, per GPU: 2 channels to a
  // peer over the network, 8 slots (NCCL_STEPS) of 128 KiB (NCCL_P2P_NET_CHUNKSIZE) each. NCCL's
  // defaults on x86 and Arm; not fitted.
  double send_buffer_bytes = 2.0 * 8 * 128 * 1024;

  bool operator==(const MegatronConstants&) const = default;
};

}  // namespace hetpipe
