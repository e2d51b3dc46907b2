# SPDX-License-Identifier: Apache-2.0
# The simulator as WebAssembly, for pages of `hetpipe report --with-simulator`: base/ and partitioner/ by Emscripten, in a build tree
# of its own below this one. Nothing else needs it.
if(HETPIPE_BROWSER STREQUAL "off" OR (HETPIPE_BROWSER STREQUAL "auto" AND HETPIPE_SANITIZE))
  hetpipe_left_out("simulator for browsers (HETPIPE_BROWSER is ${HETPIPE_BROWSER})")
  return()
endif()
set(known 3.1.6)  # of Debian 12
find_program(HETPIPE_EMXX em++)
find_program(HETPIPE_EM_CONFIG em-config)
set(version "")
if(HETPIPE_EMXX AND HETPIPE_EM_CONFIG)
  execute_process(COMMAND ${HETPIPE_EMXX} --version OUTPUT_VARIABLE said ERROR_QUIET)
  string(REGEX MATCH "[0-9]+[.][0-9]+[.][0-9]+" version "${said}")
endif()
if(NOT version)
  if(HETPIPE_BROWSER STREQUAL "on")
    message(FATAL_ERROR "HETPIPE_BROWSER is on, and Emscripten was not found. Install Debian's emscripten.")
  endif()
  hetpipe_left_out("simulator for browsers: no Emscripten (package emscripten)")
  return()
elseif(HETPIPE_BROWSER STREQUAL "auto" AND NOT version VERSION_EQUAL known)
  hetpipe_left_out("simulator for browsers: Emscripten ${version}, tried with ${known} alone (-DHETPIPE_BROWSER=on to try)")
  return()
endif()
hetpipe_found("Emscripten ${version}: simulator for browsers")
execute_process(COMMAND ${HETPIPE_EM_CONFIG} EMSCRIPTEN_ROOT OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE)

set(tree ${PROJECT_BINARY_DIR}/browser)
set(own ${PROJECT_BINARY_DIR}/share/hetpipe/simulator)
# Of the system's headers these two alone: the others are not Emscripten's.
file(MAKE_DIRECTORY ${tree}/include ${own})
file(CREATE_LINK ${TOMLPLUSPLUS_INCLUDE_DIR}/toml++ ${tree}/include/toml++ SYMBOLIC)
file(CREATE_LINK ${NLOHMANN_JSON_INCLUDE_DIR}/nlohmann ${tree}/include/nlohmann SYMBOLIC)
file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/base/*.cpp ${PROJECT_SOURCE_DIR}/base/*.h
     ${PROJECT_SOURCE_DIR}/partitioner/*.cpp ${PROJECT_SOURCE_DIR}/partitioner/*.h ${PROJECT_SOURCE_DIR}/cmake/emscripten/*)
# Node.js that is not Debian's looks for Debian's modules where it is told.
set(with_nodes ${CMAKE_COMMAND} -E env NODE_PATH=/usr/share/nodejs)
if(CMAKE_CXX_COMPILER_LAUNCHER)
  list(APPEND with_nodes EM_COMPILER_WRAPPER=${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
add_custom_command(
  OUTPUT ${own}/simulator.wasm ${own}/simulator.js
  COMMAND ${with_nodes} ${CMAKE_COMMAND} -S ${PROJECT_SOURCE_DIR} -B ${tree} -G Ninja
          -DCMAKE_TOOLCHAIN_FILE=${root}/cmake/Modules/Platform/Emscripten.cmake
          -DCMAKE_BUILD_TYPE=MinSizeRel -DCMAKE_UNITY_BUILD_BATCH_SIZE=20
          -DHETPIPE_ONLY_PARTITIONER=ON -DHETPIPE_TESTS=OFF -DHETPIPE_BROWSER=off
          -DTOMLPLUSPLUS_INCLUDE_DIR=${tree}/include -DNLOHMANN_JSON_INCLUDE_DIR=${tree}/include
  COMMAND ${with_nodes} ${CMAKE_COMMAND} --build ${tree} --target simulator
  COMMAND ${CMAKE_COMMAND} -E copy ${tree}/bin/simulator.wasm ${tree}/bin/simulator.js ${own}
  DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/CMakeLists.txt ${PROJECT_SOURCE_DIR}/base/CMakeLists.txt
          ${PROJECT_SOURCE_DIR}/partitioner/CMakeLists.txt ${PROJECT_SOURCE_DIR}/cmake/HetpipeTarget.cmake
          ${PROJECT_SOURCE_DIR}/cmake/clang14_source_location.h
  COMMENT "The simulator for browsers, by Emscripten ${version}" USES_TERMINAL VERBATIM)
add_custom_target(browser_simulator ALL DEPENDS ${own}/simulator.wasm)
install(FILES ${own}/simulator.wasm ${own}/simulator.js DESTINATION ${CMAKE_INSTALL_DATADIR}/hetpipe/simulator)
