// SPDX-License-Identifier: MIT
// Thresholds, the log function, and the library's own one: system log and standard error.
#include "lib/rpma/log.h"

#include <syslog.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <mutex>

namespace verbatim::rpma {
namespace {

struct Level {
  const char* name;
  int priority;  ///< of the system log
};

constexpr std::array<Level, RPMA_LOG_LEVEL_DEBUG + 1> kLevels = {{{"fatal", LOG_CRIT},
                                                                  {"error", LOG_ERR},
                                                                  {"warning", LOG_WARNING},
                                                                  {"notice", LOG_NOTICE},
                                                                  {"info", LOG_INFO},
                                                                  {"debug", LOG_DEBUG}}};

constinit std::atomic<rpma_log_level> thresholds[RPMA_LOG_THRESHOLD_MAX] = {RPMA_LOG_LEVEL_WARNING,
                                                                            RPMA_LOG_DISABLED};

void write_to_standard_error(rpma_log_level level, const char* place, const char* message) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  localtime_r(&now.tv_sec, &parts);
  char time[32];
  strftime(time, sizeof time, "%b %d %H:%M:%S", &parts);
  std::fprintf(stderr, "%s.%06ld [%d] rpma %s: %s%s", time, now.tv_nsec / 1000, gettid(), kLevels[level].name,
               place, message);
}

/// Whole lines, one thread's after the other's.
constinit std::mutex writing;

// The identity that the program gave itself in the system log is left alone.
void default_function(rpma_log_level level, const char* file_name, int line_no, const char* function_name,
                      const char* message_format, ...) {
  if (level < RPMA_LOG_LEVEL_FATAL || level > RPMA_LOG_LEVEL_DEBUG) return;
  char message[kMessageBytes + 2], place[256] = "";
  va_list arguments;
  va_start(arguments, message_format);
  std::vsnprintf(message, sizeof message, message_format, arguments);
  va_end(arguments);
  if (file_name != nullptr)
    std::snprintf(place, sizeof place, "%s:%d %s: ", file_name, line_no, function_name);
  const std::scoped_lock guard(writing);
  if (level <= thresholds[RPMA_LOG_THRESHOLD_AUX]) write_to_standard_error(level, place, message);
  syslog(LOG_LOCAL7 | kLevels[level].priority, "rpma %s: %s%s", kLevels[level].name, place, message);
}

constinit std::atomic<rpma_log_function*> function = &default_function;

bool is_threshold(rpma_log_threshold threshold) {
  return threshold == RPMA_LOG_THRESHOLD || threshold == RPMA_LOG_THRESHOLD_AUX;
}

const char* base_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

/// A function's name without its result and parameters.
std::array<char, 64> plain_name(std::string_view signature) {
  signature = signature.substr(0, signature.find('('));
  signature = signature.substr(signature.find_last_of(" :*") + 1);
  std::array<char, 64> name{};
  signature.copy(name.data(), name.size() - 1);
  return name;
}

}  // namespace

bool is_logged(rpma_log_level level) {
  return level <= thresholds[RPMA_LOG_THRESHOLD].load(std::memory_order_relaxed);
}

void give(rpma_log_level level, const std::source_location& at, const char* message) {
  rpma_log_function* to = function.load(std::memory_order_acquire);
  to(level, base_name(at.file_name()), static_cast<int>(at.line()), plain_name(at.function_name()).data(),
     "%s\n", message);
}

}  // namespace verbatim::rpma

using namespace verbatim::rpma;

extern "C" {

int rpma_log_set_function(rpma_log_function* log_function) {
  function = log_function == RPMA_LOG_USE_DEFAULT_FUNCTION ? &default_function : log_function;
  return 0;
}

int rpma_log_set_threshold(rpma_log_threshold threshold, rpma_log_level level) {
  if (!is_threshold(threshold)) return fail(RPMA_E_INVAL, "there is no threshold {}", int{threshold});
  if (level < RPMA_LOG_DISABLED || level > RPMA_LOG_LEVEL_DEBUG)
    return fail(RPMA_E_INVAL, "there is no level {}", int{level});
  thresholds[threshold] = level;
  return 0;
}

int rpma_log_get_threshold(rpma_log_threshold threshold, rpma_log_level* level) {
  if (!is_threshold(threshold)) return fail(RPMA_E_INVAL, "there is no threshold {}", int{threshold});
  if (level == nullptr) return fail_of_null("level");
  *level = thresholds[threshold];
  return 0;
}

}  // extern "C"
