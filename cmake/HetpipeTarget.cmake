# SPDX-License-Identifier: Apache-2.0
# hetpipe_library(NAME SOURCES ... LINKS ...): one folder of the house as one static library.
# A folder links only what stands below it (docs/architecture.md); nothing here is transitive magic.

# Options of C++ sources; nvcc has its own (HetpipeCuda.cmake).
function(hetpipe_options target)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>")
endfunction()

# hetpipe_flags(TARGET [TEST])
function(hetpipe_flags target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  # No contraction of multiply-add: equality with the serial programs is bit for bit.
  hetpipe_options(${target} -Wall -Wextra -Wshadow -Wnon-virtual-dtor -ffp-contract=off)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_UNITY_BUILD)
    # Sources that are compiled together are included by another one: what is theirs alone looks like a header's.
    hetpipe_options(${target} -Wno-subobject-linkage)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 warns of overlaps inside its own std::string (bug 105651).
    hetpipe_options(${target} -Wno-restrict)
  endif()
  if(HETPIPE_WERROR)
    hetpipe_options(${target} -Werror)
  endif()
  if(HETPIPE_SANITIZE)
    set(sanitizers ${HETPIPE_SANITIZE})
    if("TEST" IN_LIST ARGN)
      # Undefined behaviour is looked for in what is tested: in every EXPECT it triples the time to compile.
      string(REPLACE ",undefined" "" sanitizers ${sanitizers})
      # With it GCC 12 warns of its own std::regex (bug 105562).
      hetpipe_options(${target} -Wno-maybe-uninitialized)
    endif()
    hetpipe_options(${target} -fsanitize=${sanitizers} -fno-omit-frame-pointer)
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

# Target tests-LABEL builds what the tests of a label need: sanitizer builds want no more.
function(hetpipe_test_needs labels)
  foreach(label ${labels})
    if(NOT TARGET tests-${label})
      add_custom_target(tests-${label})
    endif()
    add_dependencies(tests-${label} ${ARGN})
  endforeach()
endfunction()

# hetpipe_test(NAME SOURCES ... LINKS ... [LABELS ...] [TIMEOUT s]): one GoogleTest program, one ctest entry.
function(hetpipe_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gtest GTest::gmock GTest::gtest_main)
  hetpipe_flags(${name} TEST)
  if("unit" IN_LIST ARG_LABELS AND NOT HETPIPE_UNIT_TESTS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  hetpipe_test_needs("${ARG_LABELS}" ${name})
endfunction()

# hetpipe_mpi_test(NAME RANKS 1 2 4 SOURCES ... LINKS ... [TIMEOUT s]): one GoogleTest program whose main holds the MPI
# session (tests/ranks/mpi_main.h), and one ctest entry NAME_N per number of ranks.
function(hetpipe_mpi_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "RANKS;SOURCES;LINKS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} hetpipe::mpi_main GTest::gtest GTest::gmock)
  hetpipe_flags(${name} TEST)
  foreach(ranks ${ARG_RANKS})
    add_test(NAME ${name}_${ranks} COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe
                                           ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${name}>)
    hetpipe_mpi_properties(${name}_${ranks} ${ranks} ${ARG_TIMEOUT})
  endforeach()
endfunction()

# What every ctest entry that starts mpirun needs.
function(hetpipe_mpi_properties test ranks timeout)
  set_tests_properties(${test} PROPERTIES
    LABELS "ranks;mpi" TIMEOUT ${timeout} PROCESSORS ${ranks}
    ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
endfunction()
