# SPDX-License-Identifier: MIT
# What the build takes from the system. Targets: Threads::Threads, fmt::fmt-header-only,
# nlohmann_json::nlohmann_json, CLI11::CLI11, GTest::gtest, GTest::gtest_main, verbatim::crypto.

macro(verbatim_package name)
  find_package(${name} QUIET ${ARGN})
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${name} is missing: run scripts/deps.sh (as root or with sudo)")
  endif()
endmacro()

set(THREADS_PREFER_PTHREAD_FLAG ON)
verbatim_package(Threads)
# Header-only in our libraries: a program's own libfmt must not meet ours.
verbatim_package(fmt)
verbatim_package(nlohmann_json)
verbatim_package(CLI11)
if(BUILD_TESTING)
  verbatim_package(GTest)
endif()

# Archives: what they define stays inside our libraries, where a program's own copy does not meet it.
function(verbatim_archive name file header)
  find_library(VERBATIM_${name}_ARCHIVE ${file})
  find_path(VERBATIM_${name}_HEADERS ${header})
  if(NOT VERBATIM_${name}_ARCHIVE OR NOT VERBATIM_${name}_HEADERS)
    message(FATAL_ERROR "${file} or its headers are missing: run scripts/deps.sh (as root or with sudo)")
  endif()
  add_library(verbatim_external_${name} STATIC IMPORTED GLOBAL)
  set_target_properties(verbatim_external_${name} PROPERTIES
    IMPORTED_LOCATION ${VERBATIM_${name}_ARCHIVE}
    INTERFACE_INCLUDE_DIRECTORIES ${VERBATIM_${name}_HEADERS})
  add_library(verbatim::${name} ALIAS verbatim_external_${name})
endfunction()
verbatim_archive(crypto libcrypto.a openssl/aes.h)
