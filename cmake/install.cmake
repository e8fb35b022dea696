# SPDX-License-Identifier: MIT
# Headers and pkg-config files of the shared libraries that this build makes. The libraries and programs
# themselves are installed where they are defined (verbatim.cmake).

function(verbatim_install_development library)
  string(TOUPPER ${library} upper)
  foreach(header IN LISTS VERBATIM_${upper}_HEADERS)
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${CMAKE_SOURCE_DIR}/include/${header}
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT development)
  endforeach()

  set(description ${VERBATIM_${upper}_DESCRIPTION})
  set(version ${VERBATIM_${upper}_VERSION})
  if(VERBATIM_${upper}_PACKAGE_VERSION)
    set(version ${VERBATIM_${upper}_PACKAGE_VERSION})
  endif()
  set(requires)
  if(VERBATIM_${upper}_REQUIRES)
    set(requires ${VERBATIM_${upper}_REQUIRES})
  elseif(NOT library STREQUAL "ibverbs")
    set(requires libibverbs)
  endif()
  # Relative, so that `cmake --install --prefix` may choose another place.
  file(RELATIVE_PATH to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  file(RELATIVE_PATH to_libraries ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
  file(RELATIVE_PATH to_headers ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
  set(file ${CMAKE_BINARY_DIR}/pkgconfig/lib${library}.pc)
  configure_file(${CMAKE_SOURCE_DIR}/pkgconfig/library.pc.in ${file} @ONLY)
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endfunction()

get_property(libraries GLOBAL PROPERTY VERBATIM_SHARED_LIBRARIES)
foreach(library IN LISTS libraries)
  verbatim_install_development(${library})
endforeach()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
