# SPDX-License-Identifier: Apache-2.0
# The CUDA Toolkit with cuDNN, where it is: HETPIPE_CUDA_FOUND, and why not otherwise.
set(HETPIPE_CUDA_FOUND OFF)
if(HETPIPE_CUDA STREQUAL "off")
  hetpipe_left_out("CUDA device: HETPIPE_CUDA=off")
  return()
endif()

# hetpipe_no_cuda(WHY): said, or refused where CUDA was asked for.
macro(hetpipe_no_cuda why)
  if(HETPIPE_CUDA STREQUAL "on")
    message(FATAL_ERROR "HETPIPE_CUDA=on: ${why}. Install it, or set HETPIPE_CUDA=auto.")
  endif()
  hetpipe_left_out("CUDA device: ${why}; the CPU device is built alone")
  return()
endmacro()

include(CheckLanguage)
check_language(CUDA)
find_package(CUDAToolkit QUIET)
if(NOT CMAKE_CUDA_COMPILER OR NOT CUDAToolkit_FOUND)
  hetpipe_no_cuda("no CUDA Toolkit found (nvcc and its libraries)")
endif()
find_path(HETPIPE_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(HETPIPE_CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
if(NOT HETPIPE_CUDNN_INCLUDE_DIR OR NOT HETPIPE_CUDNN_LIBRARY)
  hetpipe_no_cuda("no cuDNN found (cudnn.h and libcudnn, version 9)")
endif()

# NCCL moves messages between cards; without it they go other ways.
find_path(HETPIPE_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(HETPIPE_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
if(HETPIPE_NCCL_INCLUDE_DIR AND HETPIPE_NCCL_LIBRARY)
  hetpipe_found("NCCL ${HETPIPE_NCCL_LIBRARY}")
else()
  set(HETPIPE_NCCL_LIBRARY "")
  hetpipe_left_out("NCCL: no nccl.h and libnccl found; GPUs reach each other without it")
endif()

# For which cards the module is compiled. auto: those of this machine; without one, the oldest that the toolkit knows, with
# PTX, which the driver of any newer card compiles when it is loaded. all: machine code for every card of a pool, as bundles
# have it; CUDA 13 knows no cards before Turing.
set(HETPIPE_CUDA_ARCHITECTURES "auto" CACHE STRING "GPUs to compile for: auto (this machine's), all, or a list such as 70-real;86")
if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 13)
  set(hetpipe_all_cards 75-real 80-real 86-real 89-real 90-real 100-real 120)
elseif(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
  set(hetpipe_all_cards 60-real 70-real 75-real 80-real 86-real 89-real 90-real 100-real 120)
else()
  set(hetpipe_all_cards 60-real 70-real 75-real 80-real 86-real 89-real 90)
endif()

# hetpipe_cards_here(RESULT): this machine's GPUs that the toolkit compiles for, such as 86-real; empty without one.
function(hetpipe_cards_here result)
  set(cards "")
  find_program(HETPIPE_NVIDIA_SMI nvidia-smi)
  if(HETPIPE_NVIDIA_SMI)
    execute_process(COMMAND ${HETPIPE_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE seen ERROR_QUIET)
    execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
    string(REGEX MATCHALL "[0-9]+[.][0-9]+" seen "${seen}")
    list(REMOVE_DUPLICATES seen)
    foreach(card ${seen})
      string(REPLACE "." "" code ${card})
      if(known MATCHES "sm_${code}[^0-9]")
        list(APPEND cards ${code}-real)
      else()
        hetpipe_left_out("a GPU of compute capability ${card}, which this CUDA Toolkit does not compile for")
      endif()
    endforeach()
  endif()
  set(${result} ${cards} PARENT_SCOPE)
endfunction()

set(hetpipe_cards_why "chosen by HETPIPE_CUDA_ARCHITECTURES")
if(HETPIPE_CUDA_ARCHITECTURES STREQUAL "all")
  set(CMAKE_CUDA_ARCHITECTURES ${hetpipe_all_cards})
elseif(HETPIPE_CUDA_ARCHITECTURES STREQUAL "auto")
  hetpipe_cards_here(CMAKE_CUDA_ARCHITECTURES)
  set(hetpipe_cards_why "this machine's GPUs; HETPIPE_CUDA_ARCHITECTURES=all builds for every card")
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    list(GET hetpipe_all_cards 0 oldest)
    string(REPLACE "-real" "" CMAKE_CUDA_ARCHITECTURES ${oldest})
    set(hetpipe_cards_why
        "no GPU here, so one architecture with PTX for newer cards; HETPIPE_CUDA_ARCHITECTURES=all builds for every card")
  endif()
else()
  set(CMAKE_CUDA_ARCHITECTURES ${HETPIPE_CUDA_ARCHITECTURES})
endif()
# CMake 3.25 does not know nvcc's option for C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)
enable_language(CUDA)
set(HETPIPE_CUDA_FOUND ON)
list(JOIN CMAKE_CUDA_ARCHITECTURES " " cards)
hetpipe_found("CUDA Toolkit ${CUDAToolkit_VERSION}, cuDNN ${HETPIPE_CUDNN_LIBRARY}: the CUDA device, for ${cards} (${hetpipe_cards_why})")

# hetpipe_cuda_flags(TARGET): flags for nvcc.
function(hetpipe_cuda_flags target)
  # -fmad=false belongs to single files: optimizers alone promise bits.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra --expt-relaxed-constexpr>)
  if(HETPIPE_WERROR)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xcompiler=-Werror>)
  endif()
endfunction()
