// SPDX-License-Identifier: MIT
#include "device/connectx/umem_space.h"

#include <utility>

namespace verbatim::connectx {

Expected<UmemSpace> UmemSpace::hold(ObjectNumbers& numbers, uint16_t uid, const prm::Place& place,
                                    uint64_t bytes, bool writes, const char* what) {
  UmemObject* const named = visible(numbers.umems, uid, place.umem);
  if (named == nullptr) return nobodys("umem", place.umem);
  UmemObject& umem = *named;
  if (place.offset > umem.spec.length || bytes > umem.spec.length - place.offset)
    return Error{EINVAL, std::string("the ") + what + " reaches beyond its umem"};
  if (writes && !(umem.spec.access & engine::kLocalWrite))
    return Error{EINVAL, std::string("the ") + what + " is written, its umem was registered for reading"};
  umem.users++;
  return UmemSpace(umem, reinterpret_cast<std::byte*>(umem.spec.address + place.offset));
}

void UmemSpace::let_go(ObjectNumbers& numbers, const prm::Place& place) {
  const auto found = numbers.umems.find(place.umem);
  if (found != numbers.umems.end()) found->second->users--;
}

UmemSpace::UmemSpace(UmemSpace&& other) noexcept
    : umem_(std::exchange(other.umem_, nullptr)), base_(other.base_) {}

UmemSpace::~UmemSpace() {
  if (umem_ != nullptr) umem_->users--;
}

}  // namespace verbatim::connectx
