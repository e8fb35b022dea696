// SPDX-License-Identifier: MIT
// What the owner of a device gives to its programs: user contexts, and memory that they may name.
#include "abi/prm/domains.h"
#include "abi/prm/memory.h"
#include "device/connectx/prm/handlers.h"
#include "device/connectx/prm/object_commands.h"
#include "engine/status.h"

namespace verbatim::prm {

namespace {

constexpr uint32_t kLogPageMin = 12;

// User contexts are the owner's, whoever asks for them.
Result create_uctx(Command<CreateUctx>& c) {
  const Expected<uint32_t> uid =
      c.unit.objects().create(0, ObjectKind::kUserContext, object_of(c.in[CreateUctxIn::uctx]));
  if (!uid) return refuse(uid.error());
  c.out.set(CreateUctxOut::uid, *uid);
  return {};
}

Result destroy_uctx(Command<DestroyUctx>& c) {
  const uint32_t uid = c.in[DestroyUctxIn::uid];
  ObjectStore& objects = c.unit.objects();
  const auto number = static_cast<uint16_t>(uid);
  if (uid != 0 && (objects.has_objects_of(number) || c.unit.has_objects_of(number)))
    return refuse(Status::kBadResStateErr, "the user context still has objects");
  return result_of(objects.destroy(0, {ObjectKind::kUserContext, uid}));
}

uint64_t address_of(View<Mtt> page) {
  return uint64_t{page[Mtt::ptag_63_32]} << 32 | uint64_t{page[Mtt::ptag_31_8]} << 8;
}

/// The memory that a list of pages is: pages of this process, each right behind the other.
Result read_pages(View<Umem> umem, hw::UmemSpec& spec) {
  const uint64_t pages = umem[Umem::num_of_mtt];
  const uint32_t log_page = kLogPageMin + umem[Umem::log_page_size];
  const uint64_t page = uint64_t{1} << log_page, offset = umem[Umem::page_offset];
  if (umem[Umem::ats])
    return refuse(Status::kBadParamErr, "the device translates no addresses with the host");
  if (pages == 0 || pages > umem.size(Umem::mtt))
    return refuse(Status::kBadInpLenErr, "the umem has no pages, or more than the mailbox");
  if (offset >= page) return refuse(Status::kBadParamErr, "the umem begins beyond its first page");
  if (pages > UINT64_MAX >> log_page) return refuse(Status::kBadParamErr, "the umem is longer than memory");
  const View<Mtt> first = umem.at(Umem::mtt, 0);
  for (size_t i = 1; i < pages; i++)
    if (address_of(umem.at(Umem::mtt, i)) != address_of(first) + i * page ||
        umem.at(Umem::mtt, i)[Mtt::wr_en] != first[Mtt::wr_en])
      return refuse(Status::kBadParamErr, "the umem's pages do not follow each other with the same rights");
  spec.address = address_of(first) + offset;
  spec.length = (pages << log_page) - offset;
  spec.access = engine::kRemoteRead;
  if (first[Mtt::wr_en]) spec.access |= engine::kLocalWrite | engine::kRemoteWrite;
  return {};
}

Result create_umem(Command<CreateUmem>& c) {
  hw::UmemSpec spec;
  if (Result read = read_pages(c.in[CreateUmemIn::umem], spec); !read.ok()) return read;
  const Expected<uint32_t> umem = c.unit.create_umem(c.uid, spec);
  if (!umem) return refuse(umem.error());
  c.out.set(CreateUmemOut::umem_id, *umem);
  return {};
}

Result destroy_umem(Command<DestroyUmem>& c) {
  return result_of(c.unit.destroy_umem(c.uid, c.in[DestroyUmemIn::umem_id]));
}

}  // namespace

std::span<const Entry> user_context_commands() {
  static constexpr Entry kEntries[] = {
      entry<create_uctx>(),
      entry<destroy_uctx>(),
      entry<create_umem>(),
      entry<destroy_umem>(),
  };
  return kEntries;
}

}  // namespace verbatim::prm
