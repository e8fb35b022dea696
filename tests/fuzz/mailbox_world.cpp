// SPDX-License-Identifier: MIT
#include "tests/fuzz/mailbox_world.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "abi/prm/events.h"
#include "abi/prm/general.h"
#include "abi/prm/memory.h"
#include "abi/prm/queue_pairs.h"
#include "device/connectx/prm/command_table.h"
#include "device/connectx/prm/object_life.h"
#include "engine/status.h"
#include "tests/fuzz/published_objects.h"

namespace verbatim::fuzz {

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kBlock = 64;
/// Of several that one command makes, only the first is shown.
constexpr std::string_view kSignatureValue = "PSV";

/// The commands that the device offers.
const std::vector<const prm::CommandInfo*>& offered() {
  static const auto all = [] {
    std::vector<const prm::CommandInfo*> found;
    for (const prm::CommandInfo& command : prm::all_commands())
      if (prm::command_table().offers(command)) found.push_back(&command);
    return found;
  }();
  return all;
}

/// The command in a mailbox, whatever it was meant to be.
const prm::CommandInfo* find(const std::vector<uint8_t>& in) {
  const prm::View<prm::MboxIn> head(in);
  return prm::command_table().find(static_cast<uint16_t>(head[prm::MboxIn::opcode]),
                                   static_cast<uint16_t>(head[prm::MboxIn::op_mod]));
}

/// What takes a queue pair back to the beginning, so that others would not get far.
bool begins_anew(const prm::CommandInfo& command) {
  return command.opcode == prm::Qp2rst::kOpcode || command.opcode == prm::Qp2err::kOpcode ||
         command.opcode == prm::DestroyQp::kOpcode;
}

bool is_status(uint8_t byte) {
  switch (static_cast<prm::Status>(byte)) {
    case prm::Status::kOk:
    case prm::Status::kBadOpErr:
    case prm::Status::kBadParamErr:
    case prm::Status::kBadResErr:
    case prm::Status::kBadResStateErr:
    case prm::Status::kLimErr:
    case prm::Status::kBadInpLenErr:
    case prm::Status::kBadOutpLenErr:
      return true;
    default:
      return false;  // nothing in here is beyond the device's control
  }
}

}  // namespace

MailboxWorld::MailboxWorld(hw::Hca& hca, uint64_t seed, const MailboxKind& kind)
    : hca_(hca), alone_(kind.alone), random_(seed), sense_(hca, objects_, random_, kind.wrapped) {
  for (std::byte*& area : areas_) {
    void* room = mmap(nullptr, kAreaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) std::abort();
    area = static_cast<std::byte*>(room);
    const auto umem = hca_.create_umem({reinterpret_cast<uint64_t>(area), kAreaBytes,
                                        engine::kLocalWrite | engine::kRemoteWrite | engine::kRemoteRead});
    if (!umem) {
      fail("a umem is refused: " + umem.error().reason);
      return;
    }
    umems_.push_back(*umem);
    objects_.add("UMEM", (*umem)->number);
  }
  make_host_objects();
}

MailboxWorld::~MailboxWorld() {
  for (std::byte* area : areas_)
    if (area) munmap(area, kAreaBytes);
}

void MailboxWorld::fail(const std::string& what) {
  if (failure_.empty()) failure_ = what;
}

void MailboxWorld::make_host_objects() {
  constexpr uint32_t kEntries = 64;
  cq_ring_.assign(kEntries * kBlock, std::byte{0xff});
  const auto pd = hca_.create_pd();
  hw::CqSpec cq_spec;
  cq_spec.ring = {cq_ring_.data(), cq_ring_.size(), kEntries, kBlock};
  cq_spec.doorbell = cq_doorbell_.data();
  cq_spec.ignore_overrun = true;
  const auto cq = hca_.create_cq(cq_spec);
  if (!pd || !cq) return fail("the host side's own objects are refused");
  pd_ = *pd;
  cq_ = *cq;
  objects_.add("PD", pd_->number);
  objects_.add("CQ", cq_->number);
  objects_.add("EQ", 1);  // of the host side's first completion vector
  for (const hw::QpType type : {hw::QpType::kRc, hw::QpType::kUc, hw::QpType::kUd}) make_queue_pair(type);
}

void MailboxWorld::make_queue_pair(hw::QpType type) {
  constexpr uint32_t kBlocks = 16;
  constexpr size_t kBytes = 2 * kBlocks * kBlock;
  if (qp_rings_.empty()) qp_rings_.resize(kQueuePairs * kBytes);
  std::byte* ring = qp_rings_.data() + qps_.size() * kBytes;
  hw::QpSpec spec;
  spec.type = type;
  spec.pd = pd_;
  spec.send_cq = spec.receive_cq = cq_;
  spec.send = {ring, kBytes / 2, kBlocks, kBlock};
  spec.receive = {ring + kBytes / 2, kBytes / 2, kBlocks, kBlock};
  spec.doorbell = qp_doorbells_[qps_.size()].data();
  const auto qp = hca_.create_qp(spec);
  if (!qp) return fail("the host side's own queue pair is refused");
  qps_.push_back(*qp);
  objects_.add("QP", (*qp)->number);
}

void MailboxWorld::step() {
  const uint32_t what = random_.below(64);
  if (what == 0) return disturb_memory();
  if (what == 1) return hca_.poll();
  if (what == 2) return ring();
  if (what == 3) return disturb_queue_pair();
  // So many objects that there is one of each kind, and no more.
  if (random_.below(kObjects) < objects_.count_made()) return send_undo(true);
  send_command();
}

/// What is not offered is tried now and then.
const prm::CommandInfo& MailboxWorld::choose() {
  const auto all = prm::all_commands();
  if (random_.one_in(64)) return all[random_.below(static_cast<uint32_t>(all.size()))];
  const prm::CommandInfo* command = nullptr;
  do command = offered()[random_.below(static_cast<uint32_t>(offered().size()))];
  while (begins_anew(*command) && !random_.one_in(4));
  return *command;
}

uint8_t MailboxWorld::execute(std::vector<uint8_t>& in, std::vector<uint8_t>& out) {
  // Exactly as long as they are, so that a sanitizer sees a step beyond.
  in.shrink_to_fit();
  out.shrink_to_fit();
  hca_.execute(in, out);
  // Without an output nobody can say how it ended; it was too short for any command.
  if (out.empty()) return static_cast<uint8_t>(prm::Status::kBadOutpLenErr);
  const uint8_t status = out[0];
  const uint32_t syndrome = prm::View<prm::MboxOut>(out)[prm::MboxOut::syndrome];
  if (!is_status(status)) fail("a command ends with status " + std::to_string(status));
  if (out.size() >= 8 && (status == 0) != (syndrome == 0))
    fail("a syndrome without a refusal, or none with one");
  return status;
}

void MailboxWorld::send_command() {
  const prm::CommandInfo& command = choose();
  const Surroundings around{reinterpret_cast<uint64_t>(areas_[random_.below(kAreas)]), 1 + random_.below(4),
                            hca_.gid(0).gid};
  std::vector<uint8_t> in = writer_.write(command, around);
  std::vector<uint8_t> out(random_.one_in(32) ? random_.below(command.out_bytes + 64)
                                              : command.out_bytes + 16);
  if (random_.one_in(8)) writer_.spoil(in);
  if (!is_harmless(in)) return;
  if (random_.one_in(32)) {
    // Both mailboxes in the same bytes, the output behind the head of the input. What became of an object
    // could not be told any more, so that none is made or destroyed this way.
    const prm::CommandInfo* real = find(in);
    if (!real || real->undo != 0 || real->kind == prm::Kind::kDestroy) return;
    const size_t skipped = std::min<size_t>(in.size(), random_.below(2) * 8);
    const std::span<uint8_t> all(in);
    return hca_.execute(all, all.subspan(skipped));
  }
  const bool done = execute(in, out) == 0;
  tally_[command.name][done ? 0 : 1]++;
  if (done) note(command, in, out);
}

/// What a spoilt mailbox has become counts, not what it was meant to be.
void MailboxWorld::note(const prm::CommandInfo& meant, const std::vector<uint8_t>& in,
                        const std::vector<uint8_t>& out) {
  const prm::CommandInfo* command = find(in);
  if (!command) return fail(std::string(meant.name) + " is carried out although it is unknown");
  const std::string_view kind = prm::object_kind(*command);
  const uint32_t number = prm::object_number(*command, in, out);
  const auto uid = static_cast<uint16_t>(kind == "UCTX" ? 0 : prm::View<prm::MboxIn>(in)[prm::MboxIn::uid]);
  if (prm::ends_object(*command)) objects_.forget(command->opcode, uid, kind, number);
  if (command->undo == 0) return;
  std::vector<uint8_t> undo = prm::undo_input(prm::command_table(), *command, in, out);
  // A user context is the owner's, whose ever the mailbox was.
  if (kind == "UCTX") prm::Writer<prm::MboxIn>(undo).set(prm::MboxIn::uid, 0);
  if (command->opcode == prm::CreatePsv::kOpcode) return note_values(undo, out);
  objects_.add(kind, number, std::move(undo));
}

// One command makes up to four.
void MailboxWorld::note_values(const std::vector<uint8_t>& undo, const std::vector<uint8_t>& out) {
  constexpr prm::Field<prm::CreatePsvOut, 24> kNumbers[] = {
      prm::CreatePsvOut::psv0_index, prm::CreatePsvOut::psv1_index, prm::CreatePsvOut::psv2_index,
      prm::CreatePsvOut::psv3_index};
  for (const auto field : kNumbers) {
    const uint32_t number = prm::View<prm::CreatePsvOut>(out)[field];
    if (number == 0) continue;
    std::vector<uint8_t> own = undo;
    prm::Writer<prm::DestroyPsvIn>(own).set(prm::DestroyPsvIn::psvn, number);
    objects_.add(kSignatureValue, number, std::move(own));
  }
}

// To where no command leads: SQD, or an entry that means nothing, which ends at SQE or ERR.
void MailboxWorld::disturb_queue_pair() {
  size_t which = random_.below(kQueuePairs);
  for (size_t i = 0; i < kQueuePairs; i++)
    if (hca_.query_qp(qps_[(which + i) % kQueuePairs]).state == hw::QpState::kRts) {
      which += i;
      break;
    }
  which %= kQueuePairs;
  if (random_.one_in(2)) {
    hw::QpAttributes to;
    to.state = hw::QpState::kSqd;
    (void)hca_.modify_qp(qps_[which], to, engine::kQpState);
    return;
  }
  auto* record = reinterpret_cast<uint8_t*>(&qp_doorbells_[which][1]);
  record[3]++;
  hca_.ring_send(qps_[which]);
}

void MailboxWorld::send_undo(bool by_any_program) {
  const LiveObjects::Object* object = objects_.pick_made(random_);
  if (!object) return;
  std::vector<uint8_t> in = object->undo, out(16);
  if (by_any_program && random_.one_in(8))
    prm::Writer<prm::MboxIn>(in).set(prm::MboxIn::uid, random_.below(4));
  const uint16_t opcode = static_cast<uint16_t>(in[0] << 8 | in[1]);
  const uint16_t uid = static_cast<uint16_t>(object->undo[2] << 8 | object->undo[3]);
  const uint8_t status = execute(in, out);
  const bool gone = !alone_ && in == object->undo && status == static_cast<uint8_t>(prm::Status::kBadResErr);
  if (status == 0 || gone) objects_.forget(opcode, uid, object->kind, object->number);
}

void MailboxWorld::disturb_memory() {
  std::byte* area = areas_[random_.below(kAreas)];
  switch (random_.below(4)) {
    case 0:
      mprotect(area + random_.below(3) * kPage, 2 * kPage, random_.one_in(2) ? PROT_NONE : PROT_READ);
      break;
    case 1:
      mprotect(area, kAreaBytes, PROT_READ | PROT_WRITE);
      random_.fill(area + random_.below(64) * 64, 1 + random_.below(4096));
      break;
    default:
      mprotect(area, kAreaBytes, PROT_READ | PROT_WRITE);
  }
}

// Any doorbell, of queues that there may be; doorbell records say whatever they say.
void MailboxWorld::ring() {
  constexpr uint32_t kOffsets[] = {0x20, 0x40, 0x48, 0x800, 0x900};
  for (uint32_t left = 8; left > 0; left--) {
    const uint32_t word = random_.below(32);
    const size_t at = random_.below(kAreaBytes / 8) * 8;
    std::byte* area = areas_[random_.below(kAreas)];
    mprotect(area, kAreaBytes, PROT_READ | PROT_WRITE);
    area[at + 3] = area[at + 7] = static_cast<std::byte>(word);
  }
  const LiveObjects::Object* uar = objects_.pick("UAR", random_);
  hca_.ring_register(uar ? uar->number : random_.below(8), kOffsets[random_.below(5)], random_.next());
}

// The owner of a device may give it any memory of the process, and is not told that it was wrong.
bool MailboxWorld::is_harmless(const std::vector<uint8_t>& in) const {
  const prm::CommandInfo* command = find(in);
  uint64_t address = 0, bytes = 0;
  if (command && command->opcode == prm::CreateEq::kOpcode) {
    const prm::View<prm::CreateEqIn> box(in);
    address = box.at(prm::CreateEqIn::pas, 0);
    bytes = uint64_t{64} << box[prm::CreateEqIn::eq_context_entry][prm::Eqc::log_eq_size];
  } else if (command && command->opcode == prm::CreateUmem::kOpcode) {
    const auto umem = prm::View<prm::CreateUmemIn>(in)[prm::CreateUmemIn::umem];
    const auto page = umem.at(prm::Umem::mtt, 0);
    address = uint64_t{page[prm::Mtt::ptag_63_32]} << 32 | uint64_t{page[prm::Mtt::ptag_31_8]} << 8;
    bytes = umem[prm::Umem::num_of_mtt] << (12 + umem[prm::Umem::log_page_size]);
  } else {
    return true;
  }
  return std::ranges::any_of(areas_, [&](const std::byte* area) {
    const auto begin = reinterpret_cast<uint64_t>(area);
    return address >= begin && address - begin <= kAreaBytes && bytes <= kAreaBytes - (address - begin);
  });
}

void MailboxWorld::expect_shown() {
  const PublishedObjects shown;
  for (const LiveObjects::Object& object : objects_.all())
    if (!object.undo.empty() && object.kind != kSignatureValue && !shown.has(object.kind, object.number))
      fail(std::string(object.kind) + " " + std::to_string(object.number) + " lives and is not shown");
}

void MailboxWorld::end_queue_pairs() {
  for (hw::Qp* qp : qps_)
    if (const Outcome gone = hca_.destroy_qp(qp); !gone)
      fail("a queue pair cannot be destroyed: " + gone.error().reason);
}

void MailboxWorld::end_host_objects() {
  const auto check = [this](const Outcome& gone, const char* what) {
    if (!gone) fail(std::string(what) + " cannot be destroyed: " + gone.error().reason);
  };
  for (hw::Umem* umem : umems_) check(hca_.destroy_umem(umem), "a umem");
  if (cq_) check(hca_.destroy_cq(cq_), "a completion queue");
  if (pd_) check(hca_.destroy_pd(pd_), "a protection domain");
}

void MailboxWorld::end(std::initializer_list<MailboxWorld*> worlds) {
  constexpr uint32_t kTriesMax = 200'000;
  // Queue pairs of the host side may count for sets.
  for (MailboxWorld* world : worlds) world->end_queue_pairs();
  bool any = true;
  for (uint32_t tries = 0; any && tries < kTriesMax; tries++) {
    any = false;
    for (MailboxWorld* world : worlds) {
      world->send_undo(false);
      any |= world->objects_.count_made() != 0;
    }
  }
  for (MailboxWorld* world : worlds) {
    if (const LiveObjects::Object* stuck = world->objects_.pick_made(world->random_))
      world->fail("objects that commands made cannot be destroyed, among them " + std::string(stuck->kind) +
                  " " + std::to_string(stuck->number) + " of " + std::to_string(stuck->undo[3]));
    world->end_host_objects();
  }
}

}  // namespace verbatim::fuzz
