# SPDX-License-Identifier: Apache-2.0
# cmake -P cuda_pairs.cmake: what goes together by cmake/HetpipeCudaPairs.cmake, and what it says of what does not.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../../../cmake/HetpipeCudaPairs.cmake)

# is(WHAT SHOULD IS)
function(is what should is)
  if(NOT "${is}" STREQUAL "${should}")
    message(SEND_ERROR "${what}\n  is:     ${is}\n  should: ${should}")
  endif()
endfunction()

# CUDA 12.9, cuDNN 9.10 and NCCL by clang, as launch/cuda12 lays out, and CUDA 13 by nvcc; options after them come first.
function(with_cuda12 result)
  hetpipe_cuda_refusals(refusals ${ARGN} TOOLKIT 12.9.86 COMPILER Clang COMPILER_VERSION 19.1.7 RUNTIME 12 CUBLAS 12 NCCL_CUDA 12)
  set(${result} "${refusals}" PARENT_SCOPE)
endfunction()
function(with_cuda13 result)
  hetpipe_cuda_refusals(refusals ${ARGN} TOOLKIT 13.0.88 COMPILER NVIDIA)
  set(${result} "${refusals}" PARENT_SCOPE)
endfunction()

# ---- What every bundle is made of goes together.
hetpipe_all_cards(cards Clang 12.9.86)
is("cards of clang with CUDA 12.9" "60-real;61-real;70-real;75-real;80-real;86-real;89-real;90" "${cards}")
with_cuda12(said CARDS ${cards} CUDNN_HEADER 9.10 CUDNN 9.10 CUDNN_CUDA 12)
is("the bundle of CUDA 12" "" "${said}")
hetpipe_all_cards(cards NVIDIA 13.0.88)
is("cards of CUDA 13" "75-real;80-real;86-real;89-real;90-real;100-real;120" "${cards}")
with_cuda13(said CARDS ${cards} RUNTIME 13 CUBLAS 13 NCCL_CUDA 13 CUDNN_HEADER 9.19 CUDNN 9.19 CUDNN_CUDA 13)
is("the bundle of CUDA 13" "" "${said}")
hetpipe_all_cards(cards NVIDIA 12.9.86)
hetpipe_cuda_refusals(said CARDS ${cards} TOOLKIT 12.9.86 COMPILER NVIDIA RUNTIME 12 CUBLAS 12 CUDNN 9.10)
is("nvcc 12.9" "" "${said}")
hetpipe_all_cards(cards NVIDIA 12.4.131)
hetpipe_cuda_refusals(said CARDS ${cards} TOOLKIT 12.4.131 COMPILER NVIDIA CUDNN 9.9)
is("nvcc 12.4" "" "${said}")
with_cuda12(said CARDS 75 90a-real CUDNN 9.19)
is("cards from 7.5 on with any cuDNN" "" "${said}")
with_cuda13(said CARDS native)
is("cards in CMake's own words" "" "${said}")

hetpipe_cuda_refusals(said CARDS 100-real 120 TOOLKIT 12.9.86 COMPILER Clang COMPILER_VERSION 22.1)
is("a clang that knows newer cards" "" "${said}")

# ---- Each wrong pair by itself.
with_cuda13(said CARDS 61-real 70 80)
is("CUDA 13, cards below 7.5" "CUDA Toolkit 13.0.88 does not compile for cards below 7.5, and this build is for 6.1, 7.0. Take CUDA \
12.9, the last that does (launch/cuda12 and the preset cuda12), or leave those cards out of HETPIPE_CUDA_ARCHITECTURES." "${said}")
with_cuda12(said CARDS 60-real 75 CUDNN_HEADER 9.11 CUDNN 9.11 CUDNN_CUDA 12)
is("cuDNN 9.11, cards below 7.5" "cuDNN 9.11 does not run on cards below 7.5, and this build is for 6.0. Take cuDNN 9.10, the last \
that does, or leave those cards out of HETPIPE_CUDA_ARCHITECTURES." "${said}")
with_cuda12(said CARDS 80-real 120)
is("clang, cards from 10.0 on" "clang 19.1.7 does not compile for cards from 10.0 on, and this build is for 12.0. Put 90 in the place of \
them in HETPIPE_CUDA_ARCHITECTURES: newer cards take its PTX." "${said}")
hetpipe_cuda_refusals(said CARDS 90-real 100 TOOLKIT 12.4.131 COMPILER NVIDIA)
is("CUDA 12.4, cards from 10.0 on" "CUDA Toolkit 12.4.131 does not compile for cards from 10.0 on, and this build is for 10.0. Take \
CUDA 12.8 or newer, or put 90 in the place of them in HETPIPE_CUDA_ARCHITECTURES: newer cards take its PTX." "${said}")
hetpipe_cuda_refusals(said CARDS 80 TOOLKIT 13.0.88 COMPILER Clang COMPILER_VERSION 19.1.7)
is("clang, CUDA 13" "clang 19.1.7 does not compile with CUDA Toolkit 13.0.88. Take CUDA 12.9 (launch/cuda12 and the preset cuda12), \
or the toolkit's own nvcc: leave CMAKE_CUDA_COMPILER out." "${said}")
with_cuda12(said CARDS 80 CUDNN_HEADER 9.19 CUDNN 9.10)
is("cuDNN's header and library" "cudnn.h is of cuDNN 9.19 (HETPIPE_CUDNN_INCLUDE_DIR), and libcudnn of 9.10 \
(HETPIPE_CUDNN_LIBRARY). Take both from one folder." "${said}")
set(remedy "and the CUDA Toolkit is 13.0.88. Take all of one CUDA: CUDAToolkit_ROOT names the folder that is searched first.")
with_cuda13(said CARDS 80 RUNTIME 12)
is("runtime of CUDA 12" "the CUDA runtime found is libcudart.so.12, ${remedy}" "${said}")
with_cuda13(said CARDS 80 CUBLAS 12)
is("cuBLAS of CUDA 12" "the cuBLAS found is libcublasLt.so.12, ${remedy}" "${said}")
with_cuda13(said CARDS 80 CUDNN_CUDA 12)
is("cuDNN of CUDA 12" "the cuDNN found (HETPIPE_CUDNN_LIBRARY) was made for CUDA 12, ${remedy}" "${said}")
with_cuda13(said CARDS 80 NCCL_CUDA 12)
is("NCCL of CUDA 12" "the NCCL found (HETPIPE_NCCL_LIBRARY) was made for CUDA 12, ${remedy}" "${said}")

# ---- What a bundle says of itself.
hetpipe_cards_named(said 60-real 75-real 90)
is("cards" "6.0, 7.5, 9.0 or newer" "${said}")
hetpipe_cards_named(said 80-real 120-virtual 90a-real)
is("cards in other forms" "8.0, 12.0 or newer, 9.0" "${said}")
hetpipe_oldest_driver(said 12.9.86)
is("driver for CUDA 12" 525 "${said}")
hetpipe_oldest_driver(said 13.0.88)
is("driver for CUDA 13" 580 "${said}")

# ---- All at once, so that each is not found after the other.
with_cuda13(said CARDS 70 RUNTIME 13 CUBLAS 12 CUDNN 9.19 CUDNN_CUDA 12 NCCL_CUDA 12)
list(LENGTH said count)
is("reasons that are given at once" 5 ${count})
