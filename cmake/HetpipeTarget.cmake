# SPDX-License-Identifier: Apache-2.0
# hetpipe_library(NAME SOURCES ... LINKS ...): one folder of the house as one static library.
# A folder links only what stands below it (docs/architecture.md); nothing here is transitive magic.

# Options of C++ sources; nvcc has its own (HetpipeCuda.cmake).
function(hetpipe_options target)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>")
endfunction()

# hetpipe_computes(TARGET...): where a test's time goes. These are optimised in sanitizer builds too, whose other code is not:
# it compiles in a third of the time.
function(hetpipe_computes)
  if(HETPIPE_SANITIZE)
    foreach(target ${ARGN})
      hetpipe_options(${target} -O1)
    endforeach()
  endif()
endfunction()

# hetpipe_flags(TARGET)
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
    string(REPLACE "," ";" sanitizers ${HETPIPE_SANITIZE})
    hetpipe_options(${target} -fsanitize=${HETPIPE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      # Functions that dlsym finds in C libraries take structs that are declared here.
      hetpipe_options(${target} -fno-sanitize=function)
    endif()
    target_compile_definitions(${target} PRIVATE HETPIPE_SANITIZED "$<$<IN_LIST:address,${sanitizers}>:HETPIPE_ADDRESS_SANITIZER>")
    target_link_options(${target} PUBLIC -fsanitize=${HETPIPE_SANITIZE})
  endif()
endfunction()

# hetpipe_unity(SOURCES...): those of one folder are compiled together, up to 20 at once. So names in anonymous namespaces
# are a folder's, and how a target grows changes nothing.
function(hetpipe_unity)
  set(folders "")
  foreach(source ${ARGN})
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "in_${folder}" folder)
    if(NOT folder IN_LIST folders)
      list(APPEND folders ${folder})
      set(${folder}_count 0)
    endif()
    math(EXPR part "${${folder}_count} / 20")
    math(EXPR ${folder}_count "${${folder}_count} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${part})
  endforeach()
endfunction()

function(hetpipe_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(hetpipe_${name} STATIC ${ARG_SOURCES})
  hetpipe_unity(${ARG_SOURCES})
  set_target_properties(hetpipe_${name} PROPERTIES UNITY_BUILD_MODE GROUP)
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

# hetpipe_test_limit(TEST SECONDS): what a usual machine takes at most. The test is ended, so that a hang has a name, after
# 3 * HETPIPE_TEST_PACE times that (other tests run beside it); its own deadlines are stretched HETPIPE_TEST_PACE times
# (tests/main/patience.h).
function(hetpipe_test_limit test seconds)
  set(pace ${HETPIPE_TEST_PACE})
  if(HETPIPE_SANITIZE)
    math(EXPR pace "3 * ${pace}")
  endif()
  math(EXPR limit "3 * ${pace} * ${seconds}")
  set_property(TEST ${test} PROPERTY TIMEOUT ${limit})
  set_property(TEST ${test} PROPERTY COST ${seconds})  # the longest first, in the first run as well
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT_MODIFICATION HETPIPE_TEST_PACE=set:${pace})
endfunction()

# hetpipe_test_filter(TEST [FILTER PATTERN...] [EXCLUDE PATTERN...]): the tests that a ctest entry runs of its program, all
# unless FILTER names some, but for those of EXCLUDE. A pattern that selects none fails (tests/main/filter.h).
function(hetpipe_test_filter test)
  cmake_parse_arguments(ARG "" "" "FILTER;EXCLUDE" ${ARGN})
  list(JOIN ARG_FILTER ":" filter)
  list(JOIN ARG_EXCLUDE ":" exclude)
  if(exclude)
    string(APPEND filter "-${exclude}")
  endif()
  # A second filter would replace the first without a word.
  get_property(there TEST ${test} PROPERTY ENVIRONMENT_MODIFICATION)
  if(there MATCHES "GTEST_FILTER=")
    message(FATAL_ERROR "${test} has a filter already (${there}): name all its patterns in one.")
  endif()
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT_MODIFICATION "GTEST_FILTER=set:${filter}")
endfunction()

# hetpipe_test(NAME SOURCES ... [LINKS ...] [LABELS ...] [SECONDS s] [FILTER ...] [EXCLUDE ...]): one GoogleTest program, one
# ctest entry.
function(hetpipe_test name)
  cmake_parse_arguments(ARG "" "SECONDS" "SOURCES;LINKS;LABELS;FILTER;EXCLUDE" ${ARGN})
  if(NOT ARG_SECONDS)
    set(ARG_SECONDS 60)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gtest GTest::gmock hetpipe::test_main)
  hetpipe_flags(${name})
  if("unit" IN_LIST ARG_LABELS AND NOT HETPIPE_UNIT_TESTS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  hetpipe_test_limit(${name} ${ARG_SECONDS})
  if(ARG_FILTER OR ARG_EXCLUDE)
    hetpipe_test_filter(${name} FILTER ${ARG_FILTER} EXCLUDE ${ARG_EXCLUDE})
  endif()
  hetpipe_test_needs("${ARG_LABELS}" ${name})
endfunction()

# hetpipe_mpi_test(NAME RANKS 1 2 4 SOURCES ... LINKS ... [SECONDS s]): one GoogleTest program whose main holds the MPI
# session (tests/ranks/mpi_main.h), and one ctest entry NAME_N per number of ranks.
function(hetpipe_mpi_test name)
  cmake_parse_arguments(ARG "" "SECONDS" "RANKS;SOURCES;LINKS" ${ARGN})
  if(NOT ARG_SECONDS)
    set(ARG_SECONDS 30)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} hetpipe::mpi_main GTest::gtest GTest::gmock)
  hetpipe_flags(${name})
  foreach(ranks ${ARG_RANKS})
    add_test(NAME ${name}_${ranks} COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe
                                           ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${name}>)
    hetpipe_mpi_properties(${name}_${ranks} ${ranks} ${ARG_SECONDS})
  endforeach()
endfunction()

# What every ctest entry that starts mpirun needs.
function(hetpipe_mpi_properties test ranks seconds)
  set_tests_properties(${test} PROPERTIES
    LABELS "ranks;mpi" PROCESSORS ${ranks}
    ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
  hetpipe_test_limit(${test} ${seconds})
endfunction()
