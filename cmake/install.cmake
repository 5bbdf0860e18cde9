# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays down: the library, its public headers, the command, and how CMake and pkg-config find them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS headwise EXPORT headwise_targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
foreach(header ${headwise_public})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT development)
endforeach()
if(HEADWISE_BUILD_CLI)
  install(TARGETS headwise_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/headwise)
install(EXPORT headwise_targets NAMESPACE headwise:: DESTINATION ${package_folder} COMPONENT development)
configure_package_config_file(cmake/headwise-config.cmake.in ${PROJECT_BINARY_DIR}/headwise-config.cmake
                              INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/headwise-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/headwise-config.cmake ${PROJECT_BINARY_DIR}/headwise-config-version.cmake
        DESTINATION ${package_folder} COMPONENT development)

configure_file(cmake/headwise.pc.in ${PROJECT_BINARY_DIR}/headwise.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/headwise.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
