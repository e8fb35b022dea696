// SPDX-License-Identifier: MIT
#include "tests/fuzz/published_objects.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "wire/link/shm/layout.h"

namespace verbatim::fuzz {

std::vector<std::byte*> own_mappings(const char* name) {
  std::vector<std::byte*> found;
  FILE* maps = fopen("/proc/self/maps", "re");
  if (!maps) return found;
  char line[512];
  while (fgets(line, sizeof line, maps)) {
    uint64_t from = 0;
    char rights[5] = "";
    if (!std::strstr(line, name) || std::sscanf(line, "%" SCNx64 "-%*x %4s", &from, rights) != 2) continue;
    if (rights[1] == 'w') found.push_back(reinterpret_cast<std::byte*>(from));
  }
  fclose(maps);
  return found;
}

PublishedObjects::PublishedObjects() {
  const std::vector<std::byte*> files = own_mappings("memfd:verbatim-published");
  if (files.size() != 1) std::abort();
  tables_ = reinterpret_cast<const engine::Published*>(files.front() + wire::shm::kPage);
}

std::string PublishedObjects::list() const {
  // Devices are counted, too, in front of these.
  constexpr const char* kKinds[] = {nullptr, "PDs", "MRs", "CQs", "QPs", "SRQs", "AHs", "channels"};
  std::string text;
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  for (size_t i = 1; i < std::size(kKinds); i++)
    if (const uint32_t count = tables_->header.objects[i]) add(std::to_string(count) + " " + kKinds[i]);
  for (uint32_t i = 0; i < tables_->header.shown_end; i++)
    if (const engine::PublishedObject& object = tables_->shown[i]; object.shown != 0)
      add(std::string(object.kind) + " " + std::to_string(object.number));
  return text;
}

bool PublishedObjects::has(std::string_view kind, uint32_t number) const {
  for (uint32_t i = 0; i < tables_->header.shown_end; i++)
    if (const engine::PublishedObject& object = tables_->shown[i];
        object.shown != 0 && object.number == number && object.kind == kind)
      return true;
  return false;
}

}  // namespace verbatim::fuzz
