# SPDX-License-Identifier: MIT
# How a folder of Verbatim describes itself to the build.
#
# One CMake target per folder, its dependencies spelled out, all of them pointing downwards
# (base <- wire <- engine <- device <- lib <- agent, tools, tests). DEPENDS names rooms and shared
# libraries of this project by the short name given here (`base`, `wire_format`, `ibverbs`); a name
# with `::` is an imported target and passes through (`Threads::Threads`, `fmt::fmt-header-only`).
# A name that no folder defines fails at generate time; it never falls back to a system library.
#
# Include paths of every target: the source root ("base/expected.h"), include/ (<infiniband/verbs.h>)
# and ${VERBATIM_GENERATED_DIR}, where generated headers go.
#
# verbatim_room(<name>
#     SOURCES a.cpp b.cpp                # none: a room of headers only
#     DEPENDS base wire_format)
#   A static library of position-independent, hidden code; what it depends on is passed on to its users.
#     verbatim_room(engine SOURCES memory_keys.cpp DEPENDS base wire_format)
#
# verbatim_shared_library(<name> <soname number> <version> <version script>
#     SOURCES ... DEPENDS ...)
#   lib<name>.so.<version>, with lib<name>.so.<soname number> and lib<name>.so beside it, all in
#   ${CMAKE_BINARY_DIR}/lib. The version script decides what is exported. The library carries its own
#   C++ runtime, may leave nothing undefined, and is never unloaded.
#     verbatim_shared_library(ibverbs 1 ${VERBATIM_IBVERBS_VERSION} ${CMAKE_SOURCE_DIR}/abi/libibverbs.map
#         SOURCES device.cpp DEPENDS engine)
#
# verbatim_program(<name> SOURCES ... DEPENDS ...)
#   A program in ${CMAKE_BINARY_DIR}/bin.
#
# The target `product` is the shared libraries and the programs.
#
# verbatim_test(<name>
#     SOURCES x_test.cpp DEPENDS ...
#     [ARGS ...]                         # passed to the test program
#     [ENV NAME=VALUE ...]               # set while it runs
#     [LABELS ...] [TIMEOUT seconds]     # default 120 s
#     [RUN_SERIAL] [NO_MAIN])            # NO_MAIN: the sources have their own main()
#   A GoogleTest program in ${CMAKE_BINARY_DIR}/tests and one CTest of the same name. It finds the
#   project's shared libraries without LD_LIBRARY_PATH.

set(VERBATIM_GENERATED_DIR ${CMAKE_BINARY_DIR}/generated)
add_custom_target(product)

# Short names of this project become verbatim::<name>; everything else is left alone.
function(verbatim_resolve out)
  set(resolved)
  foreach(item IN LISTS ARGN)
    if(item MATCHES "::" OR item MATCHES "^[-$/]")
      list(APPEND resolved ${item})
    else()
      list(APPEND resolved verbatim::${item})
    endif()
  endforeach()
  set(${out} ${resolved} PARENT_SCOPE)
endfunction()

function(verbatim_include_paths target scope)
  target_include_directories(${target} ${scope}
    ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include ${VERBATIM_GENERATED_DIR})
endfunction()

function(verbatim_room name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "verbatim_room(${name}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  verbatim_resolve(depends ${arg_DEPENDS})
  set(target verbatim_${name})
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(verbatim::${name} ALIAS ${target})
  verbatim_include_paths(${target} ${scope})
  target_link_libraries(${target} ${scope} ${depends} Threads::Threads)
endfunction()

function(verbatim_shared_library name soname version map)
  cmake_parse_arguments(PARSE_ARGV 4 arg "" "" "SOURCES;DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "verbatim_shared_library(${name}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  verbatim_resolve(depends ${arg_DEPENDS})
  get_filename_component(map ${map} ABSOLUTE)
  set(target verbatim_${name})
  add_library(${target} SHARED ${arg_SOURCES})
  add_library(verbatim::${name} ALIAS ${target})
  verbatim_include_paths(${target} PUBLIC)
  target_link_libraries(${target} PRIVATE ${depends} Threads::Threads)
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name}
    VERSION ${version}
    SOVERSION ${soname}
    LINK_DEPENDS ${map})
  target_link_options(${target} PRIVATE
    LINKER:--version-script=${map}
    LINKER:-z,nodelete
    LINKER:-z,defs
    LINKER:-z,relro
    LINKER:--exclude-libs,ALL
    # A sanitizer's runtime must be the only one in the process.
    $<$<NOT:$<BOOL:${VERBATIM_SANITIZE}>>:-static-libstdc++>
    $<$<NOT:$<BOOL:${VERBATIM_SANITIZE}>>:-static-libgcc>)
  set_property(GLOBAL APPEND PROPERTY VERBATIM_SHARED_LIBRARIES ${name})
  add_dependencies(product ${target})
  install(TARGETS ${target}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
endfunction()

function(verbatim_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "verbatim_program(${name}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  verbatim_resolve(depends ${arg_DEPENDS})
  set(target verbatim_program_${name})
  add_executable(${target} ${arg_SOURCES})
  verbatim_include_paths(${target} PRIVATE)
  target_link_libraries(${target} PRIVATE ${depends} Threads::Threads)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name})
  add_dependencies(product ${target})
  install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
endfunction()

function(verbatim_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "RUN_SERIAL;NO_MAIN" "TIMEOUT" "SOURCES;DEPENDS;ARGS;ENV;LABELS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "verbatim_test(${name}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT BUILD_TESTING)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  verbatim_resolve(depends ${arg_DEPENDS})
  set(target verbatim_test_${name})
  add_executable(${target} ${arg_SOURCES})
  verbatim_include_paths(${target} PRIVATE)
  target_link_libraries(${target} PRIVATE ${depends}
    $<IF:$<BOOL:${arg_NO_MAIN}>,GTest::gtest,GTest::gtest_main> Threads::Threads)
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${target} ${arg_ARGS})
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${arg_TIMEOUT}
    ENVIRONMENT "${arg_ENV}"
    LABELS "${arg_LABELS}"
    RUN_SERIAL ${arg_RUN_SERIAL})
endfunction()
