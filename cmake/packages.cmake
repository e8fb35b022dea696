# SPDX-License-Identifier: MIT
# What the build takes from the system. Targets: Threads::Threads, fmt::fmt-header-only,
# nlohmann_json::nlohmann_json, CLI11::CLI11, GTest::gtest, GTest::gtest_main.

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
