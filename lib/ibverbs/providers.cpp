// SPDX-License-Identifier: MIT
// Provider libraries: who has registered, and loading one that has not.
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/ibverbs/device_list.h"

namespace verbatim::verbs {
namespace {

constexpr size_t kProvidersMax = 8;
// Written while a library is loaded, so that no lock of ours may be taken.
std::array<std::atomic<const Provider*>, kProvidersMax> g_providers{};

const Provider* find_registered(const std::string& name) {
  for (auto& slot : g_providers) {
    const Provider* provider = slot.load(std::memory_order_acquire);
    if (provider != nullptr && name == provider->name) return provider;
  }
  return nullptr;
}

std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string{} : path.substr(0, slash + 1);
}

}  // namespace

extern "C" void verbatim_register_provider(const Provider* provider) {
  for (auto& slot : g_providers) {
    const Provider* empty = nullptr;
    if (slot.compare_exchange_strong(empty, provider, std::memory_order_acq_rel)) return;
  }
}

const Provider* find_provider(const std::string& name) {
  if (const Provider* provider = find_registered(name)) return provider;
  const std::string path = own_folder() + "lib" + name + ".so.1";
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_NODELETE) == nullptr) {
    explain_aloud(std::string("no provider for ") + name + " devices: " + dlerror());
    return nullptr;
  }
  return find_registered(name);
}

void explain_aloud(const std::string& text) {
  const char* wanted = std::getenv("VERBATIM_EXPLAIN");
  if (wanted != nullptr && std::strcmp(wanted, "0") != 0 && *wanted != '\0')
    std::fprintf(stderr, "verbatim: %s\n", text.c_str());
}

}  // namespace verbatim::verbs
