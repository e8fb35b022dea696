# SPDX-License-Identifier: MIT
# Language level, warnings, sanitizers and where outputs go, for every target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS ON)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
# Apart from lib/, which goes into a program's LD_LIBRARY_PATH and holds shared libraries only.
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/archive)

add_compile_options(-Wall -Wextra -Werror)
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")

if(VERBATIM_SANITIZE STREQUAL "address")
  # A provider sees classes of libibverbs whose type information stays hidden in it: no vptr checks. C programs may put
  # any number into an enum, which is read to be refused (GCC assumes nothing of it): no enum checks.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr,enum -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  # Compiles in five sixths of the time.
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1")
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
  add_link_options(-fsanitize=address,undefined)
elseif(VERBATIM_SANITIZE STREQUAL "thread")
  # Fences are part of the queue protocol; the sanitizer does not model them and says so.
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
  add_link_options(-fsanitize=thread)
elseif(NOT VERBATIM_SANITIZE STREQUAL "")
  message(FATAL_ERROR "VERBATIM_SANITIZE is '${VERBATIM_SANITIZE}': use address, thread or nothing")
endif()

find_program(VERBATIM_CCACHE ccache)
if(VERBATIM_CCACHE)
  foreach(language C CXX)
    if(NOT CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER ${VERBATIM_CCACHE})
    endif()
  endforeach()
endif()
