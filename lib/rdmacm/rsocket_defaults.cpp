// SPDX-License-Identifier: MIT
#include "lib/rdmacm/rsocket_defaults.h"

#include <algorithm>
#include <cstdio>
#include <string>

namespace verbatim::rdmacm {
namespace {

constexpr char kFolder[] = "/etc/rdma/rsocket/";

/// Replaces a default by what the file of that name says, in these limits, if it does.
template <class Number>
void take(const char* name, Number& value, int64_t least, int64_t most) {
  std::FILE* file = std::fopen((kFolder + std::string(name)).c_str(), "re");
  if (file == nullptr) return;
  long long said = 0;
  if (std::fscanf(file, "%lld", &said) == 1)
    value = static_cast<Number>(std::clamp<int64_t>(said, least, most));
  std::fclose(file);
}

SocketDefaults read_all() {
  SocketDefaults all;
  StreamSizes& sizes = all.sizes;
  take("sqsize_default", sizes.send_entries, kEntriesMin, kEntriesMax);
  take("rqsize_default", sizes.receive_entries, kEntriesMin, kEntriesMax);
  take("inline_default", sizes.inline_bytes, 0, kEntriesMax);
  take("mem_default", sizes.receive_bytes, 1, kBufferMax);
  take("wmem_default", sizes.send_bytes, kBufferMin, kBufferMax);
  take("iomap_size", sizes.mappings, 0, kMappingsMax);
  sizes.mappings = unscale_mappings(scale_mappings(sizes.mappings));
  int64_t polling_us = all.polling.count(), interval_ms = all.wake_up_interval.count();
  constexpr int64_t kLongest = 1'000'000'000;
  take("polling_time", polling_us, 0, kLongest);
  take("wake_up_interval", interval_ms, 1, kLongest);
  all.polling = std::chrono::microseconds(polling_us);
  all.wake_up_interval = std::chrono::milliseconds(interval_ms);
  return all;
}

}  // namespace

const SocketDefaults& socket_defaults() {
  static const SocketDefaults defaults = read_all();
  return defaults;
}

}  // namespace verbatim::rdmacm
