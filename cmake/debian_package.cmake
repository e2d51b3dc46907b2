# SPDX-License-Identifier: Apache-2.0
# Run by cpack on the tree that it packs. Adds the packages whose libraries the program loads. Those of the CUDA modules are
# left out, which CPACK_DEBIAN_PACKAGE_SHLIBDEPS cannot: where NVIDIA's packages are installed nobody else could
# install this one, and without them the CPU computes.
set(tree ${CPACK_TEMPORARY_DIRECTORY}${CPACK_PACKAGING_INSTALL_PREFIX})
set(work ${CPACK_TOPLEVEL_DIRECTORY}/dependencies)
file(WRITE ${work}/debian/control "")  # without one dpkg-shlibdeps does nothing
execute_process(
  COMMAND dpkg-shlibdeps -O -e${tree}/bin/hetpipe WORKING_DIRECTORY ${work}
  OUTPUT_VARIABLE output ERROR_VARIABLE messages RESULT_VARIABLE code)
if(NOT code EQUAL 0 OR NOT output MATCHES "^shlibs:Depends=([^\n]+)")
  message(FATAL_ERROR "dpkg-shlibdeps: ${code}: ${messages}")
endif()
set(CPACK_DEBIAN_PACKAGE_DEPENDS "${CMAKE_MATCH_1}, ${CPACK_DEBIAN_PACKAGE_DEPENDS}")
# What Debian calls its places otherwise.
file(COPY_FILE ${tree}/share/doc/hetpipe/LICENSE ${tree}/share/doc/hetpipe/copyright)
file(RENAME ${tree}/share/zsh/site-functions ${tree}/share/zsh/vendor-completions)
