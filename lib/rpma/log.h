// SPDX-License-Identifier: MIT
#pragma once

// Messages to the program's log function, or to the system log. A message costs nothing below its threshold,
// and none needs memory of the heap: that may be what is missing.

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <source_location>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lib/rpma/public.h"

namespace verbatim::rpma {

inline constexpr size_t kMessageBytes = 1024;

/// A message's format, and where it stands in the source.
template <class... A>
struct Text {
  template <class F>
  consteval Text(const F& text, std::source_location here = std::source_location::current())
      : format(text), at(here) {}
  fmt::format_string<A...> format;
  std::source_location at;
};

/// Whether messages of this level go anywhere.
bool is_logged(rpma_log_level level);

/// Gives a message to the log function. `message` ends with a null byte.
void give(rpma_log_level level, const std::source_location& at, const char* message);

template <class... A>
void log_at(rpma_log_level level, const std::source_location& at, fmt::format_string<A...> format,
            A&&... arguments) {
  if (!is_logged(level)) return;
  char message[kMessageBytes];
  const auto written = fmt::format_to_n(message, sizeof message - 1, format, std::forward<A>(arguments)...);
  *written.out = '\0';
  give(level, at, message);
}
template <class... A>
void log(rpma_log_level level, Text<std::type_identity_t<A>...> text, A&&... arguments) {
  log_at<A...>(level, text.at, text.format, std::forward<A>(arguments)...);
}

/// Logs why a call fails, and gives its result.
template <class... A>
int fail(int result, Text<std::type_identity_t<A>...> text, A&&... arguments) {
  log_at<A...>(RPMA_LOG_LEVEL_ERROR, text.at, text.format, std::forward<A>(arguments)...);
  return result;
}

/// A call to libibverbs or librdmacm that failed with this errno value, which the program finds in errno,
/// too.
inline int fail_of_provider(std::string_view call, int error,
                            std::source_location here = std::source_location::current()) {
  log_at(RPMA_LOG_LEVEL_ERROR, here, "{} failed: {}", call, std::strerror(error));
  errno = error;
  return RPMA_E_PROVIDER;
}

/// A null argument, of those that the call's manual page forbids.
inline int fail_of_null(std::string_view names, std::source_location here = std::source_location::current()) {
  log_at(RPMA_LOG_LEVEL_ERROR, here, "null: {}", names);
  return RPMA_E_INVAL;
}

inline int fail_of_memory(std::source_location here = std::source_location::current()) {
  log_at(RPMA_LOG_LEVEL_ERROR, here, "out of memory");
  return RPMA_E_NOMEM;
}

}  // namespace verbatim::rpma
