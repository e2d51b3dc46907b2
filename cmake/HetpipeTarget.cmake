# SPDX-License-Identifier: Apache-2.0
# hetpipe_library(NAME SOURCES ... LINKS ...): one folder of the house as one static library.
# A folder links only what stands below it (docs/architecture.md); nothing here is transitive magic.

function(hetpipe_flags target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  # No contraction of multiply-add: equality with the serial programs is bit for bit.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -ffp-contract=off)
  if(HETPIPE_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(HETPIPE_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${HETPIPE_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${HETPIPE_SANITIZE})
  endif()
endfunction()

function(hetpipe_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(hetpipe_${name} STATIC ${ARG_SOURCES})
  add_library(hetpipe::${name} ALIAS hetpipe_${name})
  target_link_libraries(hetpipe_${name} PUBLIC ${ARG_LINKS})
  hetpipe_flags(hetpipe_${name})
endfunction()

# hetpipe_test(NAME SOURCES ... LINKS ... [LABELS ...] [TIMEOUT s]): one GoogleTest program, one ctest entry.
function(hetpipe_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gtest GTest::gmock GTest::gtest_main)
  hetpipe_flags(${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
