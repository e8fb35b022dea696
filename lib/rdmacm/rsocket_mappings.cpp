// SPDX-License-Identifier: MIT
// Memory of one end that the other writes to by name.
#include <endian.h>
#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "lib/rdmacm/result.h"
#include "lib/rdmacm/rsocket_conduit.h"

namespace verbatim::rdmacm {

const RemoteMapping* Conduit::find_mapping(uint64_t offset) const {
  for (const RemoteMapping* each = mappings(); each != mappings() + sizes_.mappings; ++each)
    if (offset >= each->offset && offset - each->offset < each->piece.length) return each;
  return nullptr;
}

ssize_t Conduit::send_to_mapping(Gather& from, size_t bytes_max, uint64_t offset) {
  const RemoteMapping* mapping = find_mapping(offset);
  if (mapping == nullptr) return 0;
  const uint64_t into = offset - mapping->offset;
  const auto bytes =
      static_cast<uint32_t>(std::min<uint64_t>({bytes_max, send_free_, mapping->piece.length - into}));
  const Write write{IBV_WR_RDMA_WRITE,
                    stream_message(StreamMessage::kDirect, bytes),
                    {mapping->piece.address + into, mapping->piece.key, 0}};
  return post_data(write, from, bytes) == 0 ? bytes : -1;
}

off_t Conduit::map(void* start, size_t bytes, int prot, off_t offset) {
  LocalMapping mapping;
  int access = IBV_ACCESS_LOCAL_WRITE;
  if ((prot & PROT_WRITE) != 0) {
    const auto place = std::find(taken_mappings_.begin(), taken_mappings_.end(), false);
    if (place == taken_mappings_.end()) return rdmacm::fail(ENOMEM);
    mapping.index = static_cast<int>(std::distance(taken_mappings_.begin(), place));
    access |= IBV_ACCESS_REMOTE_WRITE;
  }
  mapping.region = ibv_reg_mr(id_.pd, start, bytes, access);
  if (mapping.region == nullptr) return -1;
  mapping.offset = offset == -1 ? reinterpret_cast<uintptr_t>(start) : static_cast<uint64_t>(offset);
  if (mapping.index >= 0) taken_mappings_[static_cast<size_t>(mapping.index)] = true;
  (mapping.index >= 0 ? untold_ : told_).push_back(mapping);
  return static_cast<off_t>(mapping.offset);
}

int Conduit::unmap(void* start, size_t bytes) {
  for (std::list<LocalMapping>* each : {&told_, &untold_}) {
    const auto found = std::find_if(each->begin(), each->end(), [&](const LocalMapping& mapping) {
      return mapping.region->addr == start && mapping.region->length == bytes;
    });
    if (found == each->end()) continue;
    ibv_dereg_mr(found->region);
    if (found->index >= 0) taken_mappings_[static_cast<size_t>(found->index)] = false;
    each->erase(found);
    return 0;
  }
  return rdmacm::fail(EINVAL);
}

int Conduit::tell_of_mapping() {
  const LocalMapping& mapping = untold_.front();
  const auto index = static_cast<uint32_t>(mapping.index);
  RemoteMapping told{mapping.offset,
                     for_peer({reinterpret_cast<uintptr_t>(mapping.region->addr), mapping.region->rkey,
                               static_cast<uint32_t>(mapping.region->length)})};
  if (swapped_) told.offset = __builtin_bswap64(told.offset);
  ibv_sge piece{reinterpret_cast<uintptr_t>(&told), sizeof told, 0};
  const Write write{
      IBV_WR_RDMA_WRITE_WITH_IMM,
      stream_message(StreamMessage::kMapping, index),
      {peer_mappings_.address + uint64_t{index} * sizeof(RemoteMapping), peer_mappings_.key, 0}};
  ++sent_;
  ++sends_in_flight_;
  send_free_ -= sizeof(RemoteMapping);
  told_.splice(told_.end(), untold_, untold_.begin());
  return post(write, &piece, 1, true);
}

}  // namespace verbatim::rdmacm
