# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where, and what `cpack` makes of it.
set(own ${CMAKE_INSTALL_DATADIR}/hetpipe)

install(TARGETS hetpipe)
foreach(module hetpipe_cuda hetpipe_nccl)
  if(TARGET ${module})
    install(TARGETS ${module} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/hetpipe)
    # CUDA is looked for where the build found it (CMAKE_INSTALL_RPATH_USE_LINK_PATH), and where it usually is.
    set_target_properties(${module} PROPERTIES INSTALL_RPATH /usr/local/cuda/lib64)
  endif()
endforeach()

# Scripts, which find each other and the program by where they are.
install(FILES launch/common.sh launch/first_training.sh DESTINATION ${own})
install(PROGRAMS launch/supervise DESTINATION ${own})
file(RELATIVE_PATH own_from_programs ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_DATADIR}/hetpipe)
configure_file(launch/hetpipe-quickstart.in hetpipe-quickstart @ONLY)
file(CREATE_LINK ${own_from_programs}/supervise ${PROJECT_BINARY_DIR}/hetpipe-supervise SYMBOLIC)
install(PROGRAMS ${PROJECT_BINARY_DIR}/hetpipe-quickstart ${PROJECT_BINARY_DIR}/hetpipe-supervise
        DESTINATION ${CMAKE_INSTALL_BINDIR})

install(DIRECTORY cluster-configs DESTINATION ${own})
install(DIRECTORY launch/recipes DESTINATION ${own} FILES_MATCHING PATTERN "*.toml")
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
set(written ${PROJECT_BINARY_DIR}/documentation)  # launch/documentation
install(DIRECTORY ${written}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
install(DIRECTORY ${written}/bash-completion ${written}/fish ${written}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "HetPipe's maintainers")
set(CPACK_PACKAGE_DESCRIPTION "\
One neural network is trained on GPUs of different models and memory sizes:
they are grouped into virtual workers, each of which pipelines minibatches
through stages of unequal size; parameter servers keep them together. Devices
and links can be emulated. The CUDA device needs NVIDIA's driver, CUDA and
cuDNN, which are not dependencies of this package.")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# Libraries are added by debian_package.cmake.
set(CPACK_DEBIAN_PACKAGE_DEPENDS openmpi-bin)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS dataset-fashion-mnist)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS slurm-client)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian_package.cmake)
include(CPack)
