# SPDX-License-Identifier: Apache-2.0
# Of which version, and made for which CUDA, the libraries are that were found; "" where they do not say.

# hetpipe_soname_number(RESULT LIBRARY): 12 of libcudart.so.12
function(hetpipe_soname_number result library)
  execute_process(COMMAND ${CMAKE_READELF} -d "${library}" OUTPUT_VARIABLE entries ERROR_QUIET)
  set(number "")
  if(entries MATCHES "soname: \\[[^]]*[.]so[.]([0-9]+)")
    set(number ${CMAKE_MATCH_1})
  endif()
  set(${result} "${number}" PARENT_SCOPE)
endfunction()

# hetpipe_cudnn_versions(HEADER_RESULT LIBRARY_RESULT CUDA_RESULT): versions such as 9.10 of cudnn.h and of libcudnn, and the
# CUDA that libcudnn was made for. The library says so itself, without a GPU; its file does not.
function(hetpipe_cudnn_versions header library cuda)
  file(STRINGS ${HETPIPE_CUDNN_INCLUDE_DIR}/cudnn_version.h lines REGEX "^#define CUDNN_M(AJOR|INOR) ")
  string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
  list(JOIN numbers "." version)
  set(${header} "${version}" PARENT_SCOPE)
  set(asked ${CMAKE_BINARY_DIR}${CMAKE_FILES_DIRECTORY}/cudnn_versions.c)
  file(WRITE ${asked} "#include <stddef.h>\n#include <stdio.h>\nsize_t cudnnGetVersion(void);\nsize_t cudnnGetCudartVersion(void);\n\
int main(void) { return printf(\"%zu %zu\", cudnnGetVersion(), cudnnGetCudartVersion()) < 0; }\n")
  try_run(code compiled ${CMAKE_BINARY_DIR}${CMAKE_FILES_DIRECTORY}/cudnn_versions ${asked}
          LINK_LIBRARIES ${HETPIPE_CUDNN_LIBRARY} RUN_OUTPUT_VARIABLE said)
  set(${library} "" PARENT_SCOPE)
  set(${cuda} "" PARENT_SCOPE)
  if(compiled AND code EQUAL 0 AND said MATCHES "^([0-9]+) ([0-9]+)$")
    math(EXPR major "${CMAKE_MATCH_1} / 10000")
    math(EXPR minor "${CMAKE_MATCH_1} % 10000 / 100")
    math(EXPR cuda_major "${CMAKE_MATCH_2} / 1000")
    set(${library} ${major}.${minor} PARENT_SCOPE)
    set(${cuda} ${cuda_major} PARENT_SCOPE)
  endif()
  unset(code CACHE)  # asked anew: another library may stand there
  unset(compiled CACHE)
endfunction()

# hetpipe_nccl_cuda(RESULT LIBRARY): "NCCL version 2.28.9+cuda12.9" is in it.
function(hetpipe_nccl_cuda result library)
  file(STRINGS "${library}" said REGEX "NCCL version [0-9.]+[+]cuda[0-9]" LIMIT_COUNT 1)
  set(major "")
  if(said MATCHES "[+]cuda([0-9]+)")
    set(major ${CMAKE_MATCH_1})
  endif()
  set(${result} "${major}" PARENT_SCOPE)
endfunction()
