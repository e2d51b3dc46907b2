#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/cuda/own_kernels.sh PROGRAM MODULE
# Each kernel that the CUDA module registers with CUDA, one call in its code for each, is one that it lists as its own:
# what is loaded before links of NCCL are opened is everything.
set -euo pipefail
calls=$(objdump -d "$2" | grep -c 'call.*<__wrap___cudaRegisterFunction') || { echo "no call registers a kernel in $2" >&2; exit 1; }
listed=$("$1" "$2")
echo "$listed kernels listed, $calls registered"
[[ $listed == "$calls" ]]
