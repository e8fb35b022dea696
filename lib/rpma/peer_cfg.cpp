// SPDX-License-Identifier: MIT
// What a peer can do, and its form of one byte that the other side reads.
#include <atomic>
#include <memory>

#include "lib/rpma/log.h"

/// Thread safe.
struct rpma_peer_cfg {
  std::atomic<bool> direct_write_to_pmem = false;
};

using namespace verbatim::rpma;

namespace {
constexpr size_t kDescriptorBytes = 1;
}

extern "C" {

int rpma_peer_cfg_new(rpma_peer_cfg** pcfg_ptr) {
  if (pcfg_ptr == nullptr) return fail_of_null("pcfg_ptr");
  auto* made = new (std::nothrow) rpma_peer_cfg;
  if (made == nullptr) return fail_of_memory();
  *pcfg_ptr = made;
  return 0;
}

int rpma_peer_cfg_delete(rpma_peer_cfg** pcfg_ptr) {
  if (pcfg_ptr == nullptr) return fail_of_null("pcfg_ptr");
  delete *pcfg_ptr;
  *pcfg_ptr = nullptr;
  return 0;
}

int rpma_peer_cfg_set_direct_write_to_pmem(rpma_peer_cfg* pcfg, bool supported) {
  if (pcfg == nullptr) return fail_of_null("pcfg");
  pcfg->direct_write_to_pmem = supported;
  return 0;
}

int rpma_peer_cfg_get_direct_write_to_pmem(const rpma_peer_cfg* pcfg, bool* supported) {
  if (pcfg == nullptr || supported == nullptr) return fail_of_null("pcfg or supported");
  *supported = pcfg->direct_write_to_pmem;
  return 0;
}

int rpma_peer_cfg_get_descriptor(const rpma_peer_cfg* pcfg, void* desc) {
  if (pcfg == nullptr || desc == nullptr) return fail_of_null("pcfg or desc");
  *static_cast<uint8_t*>(desc) = pcfg->direct_write_to_pmem ? 1 : 0;
  return 0;
}

int rpma_peer_cfg_get_descriptor_size(const rpma_peer_cfg* pcfg, size_t* desc_size) {
  if (pcfg == nullptr || desc_size == nullptr) return fail_of_null("pcfg or desc_size");
  *desc_size = kDescriptorBytes;
  return 0;
}

int rpma_peer_cfg_from_descriptor(const void* desc, size_t desc_size, rpma_peer_cfg** pcfg_ptr) {
  if (desc == nullptr || pcfg_ptr == nullptr) return fail_of_null("desc or pcfg_ptr");
  if (desc_size < kDescriptorBytes)
    return fail(RPMA_E_INVAL, "a descriptor of {} bytes is shorter than {}", desc_size, kDescriptorBytes);
  if (const int result = rpma_peer_cfg_new(pcfg_ptr); result != 0) return result;
  (*pcfg_ptr)->direct_write_to_pmem = *static_cast<const uint8_t*>(desc) != 0;
  log(RPMA_LOG_LEVEL_INFO, "the peer says that direct write to persistent memory is {}",
      (*pcfg_ptr)->direct_write_to_pmem ? "supported" : "not supported");
  return 0;
}

}  // extern "C"
