# SPDX-License-Identifier: Apache-2.0
# Table gpu-budget, sourced by benchmarks/run.

run_gpu_budget() {
  local module=$build/tests/cuda/hetpipe_cuda_double.so
  if [ $trial = yes ]; then
    [ -e "$module" ] || skip "no double of CUDA at $module: configure with the CUDA Toolkit, cuDNN and the tests"
  fi
  # The double comes with the tests.
  if [ -z "$given_build" ]; then
    preset=dev build=$PWD/build/dev module=$PWD/build/dev/tests/cuda/hetpipe_cuda_double.so
  fi
  build_targets bench_gpu_budget hetpipe_cuda_double
  cat << 'TEXT'
No card was used: nothing here is a measurement but what is called so. A step is forward, backward and update of all weights on one
card.

* **Launches** are counted: the CUDA device plans and enqueues the step on its double (`tests/cuda/double`), which describes the card's
  compute capability and memory, counts kernels, cuDNN's plans, products, copies and fills, and does none of them. A plan of cuDNN
  counts as one launch; some engines launch two or three kernels.
* **Flops** are those of the model's layers, a multiply-add counted as two; attention counts all scores, though half of them are masked.
* **Bytes**: each layer, or group of layers that one kernel computes, reads what comes from outside and its weights once and writes its
  output once; backward twice that. Of weights, which are fp32, products of two bytes make a copy and read it. Attention that is not
  fused (before 8.0) moves 30 bytes more for each score. Nothing stays in a cache.
* **Time** of a layer is the longest of launches x latency, flops / rate and bytes / bandwidth, forward and backward each (the roofline of
  `hetpipe profile --estimate`), and of a step their sum: kernels do not overlap. Rates are the catalogue's peaks
  (`partitioner/cluster/catalogue.cpp`) times its efficiencies for products (tensor cores 0.7, of the A100 0.8) and memory (0.8); 5 us a
  launch. So a layer whose kernel is poor takes longer than its budget; nothing is faster unless an efficiency is too low.
* **Samples**: as many, a power of two of at most 64 texts or 256 images, as the card's memory holds when every layer keeps its outputs
  and gradients at once, which needs more than a stage does. bf16, and fp16 before 8.0. The V100 is counted as a card of 7.5, from which it
  differs in nothing that the device asks for.
* **Beside it**: llm.c's 468,000 tokens/s for GPT-2 (124 M) on one H100 and PyTorch's 3,079 images/s for ResNet-50 (automatic mixed
  precision) on one H200, both as published; the variant of that H100 and its batch are not stated where we have it from. Measured here:
  [2026-11-26](2026-11-26-gpu.md), the H200's rows with the batch of that record.
TEXT
  "$build/bin/bench_gpu_budget" $smallest "$raw" "$module"
}
