# SPDX-License-Identifier: Apache-2.0
# Which cards, compiler, libraries and CUDA go together, as values: tests ask without any of them.

# Machine code for every card of a pool, and PTX of the newest, which the driver of newer ones compiles.
# hetpipe_all_cards(RESULT COMPILER TOOLKIT): COMPILER is Clang or NVIDIA, TOOLKIT a version of CUDA.
function(hetpipe_all_cards result compiler toolkit)
  if(compiler STREQUAL "Clang")
    set(all 60-real 61-real 70-real 75-real 80-real 86-real 89-real 90)  # clang 19 knows none from 10.0 on
  elseif(toolkit VERSION_GREATER_EQUAL 13)
    set(all 75-real 80-real 86-real 89-real 90-real 100-real 120)
  elseif(toolkit VERSION_GREATER_EQUAL 12.8)
    set(all 60-real 61-real 70-real 75-real 80-real 86-real 89-real 90-real 100-real 120)
  else()
    set(all 60-real 61-real 70-real 75-real 80-real 86-real 89-real 90)
  endif()
  set(${result} ${all} PARENT_SCOPE)
endfunction()

# hetpipe_cards_named(RESULT ARCHITECTURES...): "7.5, 9.0 or newer" of 75-real and 90
function(hetpipe_cards_named result)
  set(named "")
  foreach(architecture ${ARGN})
    string(REGEX REPLACE "^([0-9]+)([0-9]).*" "\\1.\\2" card "${architecture}")
    if(architecture MATCHES "^[0-9]+(-virtual)?$")
      string(APPEND card " or newer")
    endif()
    list(APPEND named "${card}")
  endforeach()
  list(JOIN named ", " named)
  set(${result} "${named}" PARENT_SCOPE)
endfunction()

# hetpipe_oldest_driver(RESULT TOOLKIT): the first branch of NVIDIA's driver that runs what a toolkit of this major number makes.
function(hetpipe_oldest_driver result toolkit)
  if(toolkit VERSION_GREATER_EQUAL 13)
    set(${result} 580 PARENT_SCOPE)
  else()
    set(${result} 525 PARENT_SCOPE)
  endif()
endfunction()

# hetpipe_cuda_refusals(RESULT CARDS c... TOOLKIT v COMPILER id COMPILER_VERSION v [RUNTIME n] [CUBLAS n]
#                       [CUDNN_HEADER v] [CUDNN v] [CUDNN_CUDA n] [NCCL_CUDA n]):
# why these do not go together, each a sentence with its remedy. RUNTIME, CUBLAS: the number in libcudart.so.N and
# libcublasLt.so.N; CUDNN_CUDA, NCCL_CUDA: the CUDA that the library was made for. What is not given is not looked at.
function(hetpipe_cuda_refusals result)
  cmake_parse_arguments(ARG "" "TOOLKIT;COMPILER;COMPILER_VERSION;RUNTIME;CUBLAS;CUDNN_HEADER;CUDNN;CUDNN_CUDA;NCCL_CUDA" "CARDS" ${ARGN})
  string(REGEX MATCH "^[0-9]+" major "${ARG_TOOLKIT}")
  set(old_clang OFF)
  if(ARG_COMPILER STREQUAL "Clang" AND ARG_COMPILER_VERSION VERSION_LESS 20)
    set(old_clang ON)
  endif()
  set(refusals "")
  set(old "")
  set(new "")
  foreach(card ${ARG_CARDS})
    string(REGEX MATCH "^[0-9]+" number "${card}")
    string(REGEX REPLACE "(.)$" ".\\1" capability "${number}")
    if(number STREQUAL "")
      continue()  # CMake's own words for cards
    elseif(number LESS 75)
      list(APPEND old ${capability})
    elseif(number GREATER_EQUAL 100)
      list(APPEND new ${capability})
    endif()
  endforeach()
  list(JOIN old ", " old)
  list(JOIN new ", " new)

  if(old_clang AND major GREATER_EQUAL 13)
    list(APPEND refusals "clang ${ARG_COMPILER_VERSION} does not compile with CUDA Toolkit ${ARG_TOOLKIT}. Take CUDA 12.9 (launch/cuda12 and the \
preset cuda12), or the toolkit's own nvcc: leave CMAKE_CUDA_COMPILER out.")
  elseif(old AND major GREATER_EQUAL 13)
    list(APPEND refusals "CUDA Toolkit ${ARG_TOOLKIT} does not compile for cards below 7.5, and this build is for ${old}. \
Take CUDA 12.9, the last that does (launch/cuda12 and the preset cuda12), or leave those cards out of HETPIPE_CUDA_ARCHITECTURES.")
  endif()
  if(old AND NOT "${ARG_CUDNN}" STREQUAL "" AND ARG_CUDNN VERSION_GREATER_EQUAL 9.11)
    list(APPEND refusals "cuDNN ${ARG_CUDNN} does not run on cards below 7.5, and this build is for ${old}. \
Take cuDNN 9.10, the last that does, or leave those cards out of HETPIPE_CUDA_ARCHITECTURES.")
  endif()
  if(new AND old_clang)
    list(APPEND refusals "clang ${ARG_COMPILER_VERSION} does not compile for cards from 10.0 on, and this build is for ${new}. \
Put 90 in the place of them in HETPIPE_CUDA_ARCHITECTURES: newer cards take its PTX.")
  elseif(new AND ARG_TOOLKIT VERSION_LESS 12.8)
    list(APPEND refusals "CUDA Toolkit ${ARG_TOOLKIT} does not compile for cards from 10.0 on, and this build is for ${new}. \
Take CUDA 12.8 or newer, or put 90 in the place of them in HETPIPE_CUDA_ARCHITECTURES: newer cards take its PTX.")
  endif()

  if(NOT "${ARG_CUDNN}" STREQUAL "" AND NOT "${ARG_CUDNN_HEADER}" STREQUAL "" AND NOT ARG_CUDNN STREQUAL ARG_CUDNN_HEADER)
    list(APPEND refusals "cudnn.h is of cuDNN ${ARG_CUDNN_HEADER} (HETPIPE_CUDNN_INCLUDE_DIR), and libcudnn of ${ARG_CUDNN} \
(HETPIPE_CUDNN_LIBRARY). Take both from one folder.")
  endif()
  foreach(part RUNTIME CUBLAS CUDNN_CUDA NCCL_CUDA)
    if("${ARG_${part}}" STREQUAL "" OR "${ARG_${part}}" STREQUAL major)
      continue()
    endif()
    set(number ${ARG_${part}})
    set(RUNTIME "the CUDA runtime found is libcudart.so.${number}")
    set(CUBLAS "the cuBLAS found is libcublasLt.so.${number}")
    set(CUDNN_CUDA "the cuDNN found (HETPIPE_CUDNN_LIBRARY) was made for CUDA ${number}")
    set(NCCL_CUDA "the NCCL found (HETPIPE_NCCL_LIBRARY) was made for CUDA ${number}")
    list(APPEND refusals "${${part}}, and the CUDA Toolkit is ${ARG_TOOLKIT}. Take all of one CUDA: \
CUDAToolkit_ROOT names the folder that is searched first.")
  endforeach()
  set(${result} "${refusals}" PARENT_SCOPE)
endfunction()
