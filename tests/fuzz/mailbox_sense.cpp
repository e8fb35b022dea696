// SPDX-License-Identifier: MIT
#include "tests/fuzz/mailbox_sense.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "abi/prm/capabilities.h"
#include "abi/prm/completion_queues.h"
#include "abi/prm/crypto.h"
#include "abi/prm/events.h"
#include "abi/prm/general.h"
#include "abi/prm/memory.h"
#include "abi/prm/ports.h"
#include "abi/prm/queue_pairs.h"
#include "abi/prm/raw_queues.h"
#include "abi/prm/receive_steering.h"
#include "abi/prm/scheduling.h"
#include "device/connectx/prm/qp_context.h"
#include "device/connectx/prm/view.h"

namespace verbatim::fuzz {

namespace {

using prm::Writer;
using Box = MailboxSense::Box;

/// The answer to a query about an object.
template <class Query>
Box ask(hw::Hca& hca, uint32_t uid, prm::Field<typename Query::In, 24> id, uint32_t number) {
  Box in(Query::In::kBits / 8), out(Query::Out::kBits / 8);
  const Writer<prm::MboxIn> head(in);
  head.set(prm::MboxIn::opcode, Query::kOpcode);
  head.set(prm::MboxIn::uid, uid);
  Writer<typename Query::In>(in).set(id, number);
  hca.execute(in, out);
  return out;
}

bool done(const Box& out) { return out[0] == 0; }

uint32_t user_of(const Box& box) { return prm::View<prm::MboxIn>(box)[prm::MboxIn::uid]; }

void append_word(Box& box, uint32_t word) {
  for (const int shift : {24, 16, 8, 0}) box.push_back(static_cast<uint8_t>(word >> shift));
}

/// Where a queue without a queue pair goes from a state: RST, RDY, ERR.
constexpr uint32_t kWays[][3] = {{0, 1, 1}, {1, 0, 3}, {0, 3, 3}};

/// The import KEK and the credential that a device has without a file are counted up (docs/protection.md).
/// Credential 0 and the key 0, 1, ... 31, wrapped with import KEK 0.
constexpr std::array<uint8_t, 48> kWrappedCredential = {
    0x56, 0x0f, 0x28, 0x1c, 0x26, 0xed, 0x5e, 0xa6, 0x99, 0x32, 0xde, 0x97, 0xc7, 0xf9, 0xdc, 0x40,
    0x73, 0x0b, 0x4c, 0xee, 0x8a, 0xea, 0x3e, 0xa5, 0x29, 0x81, 0x11, 0xd5, 0x5b, 0x54, 0x69, 0x61,
    0xb5, 0x66, 0x31, 0x9a, 0xdd, 0xba, 0x11, 0x79, 0xa7, 0xe7, 0x2b, 0xa6, 0x0f, 0xcb, 0xe0, 0xb7};
constexpr std::array<uint8_t, 40> kWrappedKey = {0x0e, 0x78, 0x08, 0xf5, 0x06, 0xf2, 0xc3, 0xe7, 0xaa, 0x6e,
                                                 0xda, 0xd7, 0x93, 0xac, 0x44, 0x95, 0xb0, 0x93, 0xeb, 0x48,
                                                 0x2e, 0x5c, 0x7c, 0xa9, 0xc1, 0x70, 0xc9, 0xfa, 0xa0, 0x7d,
                                                 0xc0, 0xcb, 0xbb, 0x87, 0x51, 0x2e, 0x19, 0xfd, 0x40, 0x92};

constexpr uint32_t kRights = prm::kOptRemoteRead | prm::kOptRemoteAtomic | prm::kOptRemoteWrite;

}  // namespace

/// A transition: where it begins, and what may be named in opt_param_mask.
struct MailboxSense::Step {
  uint16_t opcode;
  prm::QpState from;
  uint32_t optional;
};
const MailboxSense::Step MailboxSense::kSteps[] = {
    {prm::Rst2initQp::kOpcode, prm::QpState::kRst, prm::kOptCounterSet},
    {prm::Init2initQp::kOpcode, prm::QpState::kInit,
     kRights | prm::kOptPkeyIndex | prm::kOptPort | prm::kOptQkey},
    {prm::Init2rtrQp::kOpcode, prm::QpState::kInit, kRights | prm::kOptPkeyIndex | prm::kOptQkey},
    {prm::Rtr2rtsQp::kOpcode, prm::QpState::kRtr, kRights | prm::kOptMigration | prm::kOptQkey},
    {prm::Rts2rtsQp::kOpcode, prm::QpState::kRts, kRights | prm::kOptMigration | prm::kOptQkey},
    {prm::Sqd2rtsQp::kOpcode, prm::QpState::kSqd, kRights | prm::kOptMigration | prm::kOptQkey},
    {prm::Sqerr2rtsQp::kOpcode, prm::QpState::kSqer, kRights | prm::kOptQkey},
};

struct MailboxSense::Rule {
  std::string_view command;
  void (MailboxSense::*apply)(Box& box) const;
};
const MailboxSense::Rule MailboxSense::kRules[] = {
    {"CREATE_MKEY", &MailboxSense::memory_key},
    {"CREATE_QP", &MailboxSense::queue_pair},
    {"MODIFY_CQ", &MailboxSense::completion_queue},
    {"MODIFY_RQ", &MailboxSense::receive_queue},
    {"MODIFY_SQ", &MailboxSense::send_queue},
    {"CREATE_DEK", &MailboxSense::encryption_key},
    {"CREATE_CRYPTO_LOGIN", &MailboxSense::login},
    {"CREATE_SCHED_ELEM", &MailboxSense::scheduling_element},
    {"MODIFY_SCHED_ELEM", &MailboxSense::scheduling_element},
    {"CREATE_EQ", &MailboxSense::event_queue},
    {"ACCESS_REGISTER", &MailboxSense::device_register},
    {"QUERY_HCA_CAP", &MailboxSense::capabilities},
    {"MODIFY_RQT", &MailboxSense::receive_table},
};

void MailboxSense::make(const prm::CommandInfo& command, Box& box) const {
  const auto* step = std::ranges::find(kSteps, command.opcode, &Step::opcode);
  if (step != std::end(kSteps)) return take_step(command, *step, box);
  const auto* rule = std::ranges::find(kRules, std::string_view(command.name), &Rule::command);
  if (rule != std::end(kRules)) (this->*rule->apply)(box);
}

std::optional<uint32_t> MailboxSense::queue_pair_in(uint32_t state, uint32_t uid) const {
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; i++) {
    const LiveObjects::Object* object = objects_.pick("QP", random_);
    if (object == nullptr) return {};
    const Box is = ask<prm::QueryQp>(hca_, uid, prm::QueryQpIn::qpn, object->number);
    if (done(is) && prm::View<prm::QueryQpOut>(is)[prm::QueryQpOut::qpc][prm::Qpc::state] == state)
      return object->number;
  }
  return {};
}

// These mailboxes have the same layout.
void MailboxSense::take_step(const prm::CommandInfo& command, const Step& step, Box& box) const {
  using In = prm::Rts2rtsQpIn;
  const Writer<In> in(box);
  if (const auto qpn = queue_pair_in(static_cast<uint32_t>(step.from), user_of(box))) in.set(In::qpn, *qpn);
  in.set(In::opt_param_mask, random_.one_in(2) ? 0 : random_.next() & step.optional);
  if (random_.one_in(2)) in[In::qpc].set(prm::Qpc::counter_set_id, 0);
  const bool both = command.opcode == prm::Rts2rtsQp::kOpcode || command.opcode == prm::Init2initQp::kOpcode;
  if (both && random_.one_in(3)) change_extras(box);
}

// What the specification of queue pairs does not have: it follows the context.
void MailboxSense::change_extras(Box& box) const {
  using In = prm::Rts2rtsQpIn;
  box.resize((In::qpc_data_ext.offset + prm::QpcExt::kBits) / 8);
  const Writer<In> in(box);
  const auto number = [this](std::string_view kind) {
    const LiveObjects::Object* object = random_.one_in(4) ? nullptr : objects_.pick(kind, random_);
    return object ? object->number : 0;
  };
  in.set(In::qpc_ext, true);
  in.set(In::opt_param_mask_95_32,
         random_.one_in(2) ? static_cast<uint64_t>(prm::QpOptional32::kQosQueueGroupId) : random_.below(8));
  in[In::qpc][prm::Qpc::primary_address_path].set(prm::Ads::udp_sport, random_.next());
  const auto extension = in[In::qpc_data_ext];
  extension.set(prm::QpcExt::dci_stream_channel_id, random_.below(4));
  extension.set(prm::QpcExt::qos_queue_group_id_requester, number("SCHED_ELEM"));
  extension.set(prm::QpcExt::qos_queue_group_id_responder, random_.one_in(2) ? 0 : number("SCHED_ELEM"));
}

void MailboxSense::memory_key(Box& box) const {
  const auto context = Writer<prm::CreateMkeyIn>(box)[prm::CreateMkeyIn::memory_key_mkey_entry];
  context.set(prm::Mkc::access_mode_4_2, 0);
  random_.one_in(2) ? key_of_umem(box) : key_of_list(box);
}

void MailboxSense::key_of_umem(Box& box) const {
  constexpr uint32_t kPage = 4096;  // what every umem has at least
  const Writer<prm::CreateMkeyIn> in(box);
  const auto context = in[prm::CreateMkeyIn::memory_key_mkey_entry];
  in.set(prm::CreateMkeyIn::mkey_umem_valid, true);
  const uint32_t offset = random_.below(kPage);
  in.set(prm::CreateMkeyIn::mkey_umem_offset, offset);
  context.set(prm::Mkc::access_mode_1_0, prm::MkeyAccessMode::kMtt);
  context.set(prm::Mkc::len, random_.below(kPage - offset + 1));
  context.set(prm::Mkc::length64, false);
  context.set(prm::Mkc::bsf_en, false);
  context.set(prm::Mkc::crypto_en, 0);
  if (context[prm::Mkc::free]) context.set(prm::Mkc::umr_en, true);
}

void MailboxSense::key_of_list(Box& box) const {
  constexpr uint32_t kRoomMax = 16;
  const uint32_t room = random_.below(kRoomMax + 1), given = random_.below(room + 1);
  const bool equal = random_.one_in(2);
  const Writer<prm::CreateMkeyIn> in(box);
  const auto context = in[prm::CreateMkeyIn::memory_key_mkey_entry];
  in.set(prm::CreateMkeyIn::mkey_umem_valid, false);
  in.set(prm::CreateMkeyIn::translations_octword_actual_size, given);
  context.set(prm::Mkc::access_mode_1_0, equal ? prm::MkeyAccessMode::kKsm : prm::MkeyAccessMode::kKlms);
  context.set(prm::Mkc::translations_octword_size, room);
  context.set(prm::Mkc::log_page_size, equal ? 1 + random_.below(20) : 0);
  const bool updatable = !random_.one_in(3), protects = updatable && random_.one_in(2);
  context.set(prm::Mkc::umr_en, updatable);
  context.set(prm::Mkc::free, updatable && random_.one_in(3));
  context.set(prm::Mkc::bsf_en, protects);
  context.set(prm::Mkc::crypto_en, protects && random_.one_in(2));
  box.resize(prm::CreateMkeyIn::klm_pas_mtt.offset / 8);
  for (uint32_t i = 0; i < given; i++) {
    const LiveObjects::Object* key = objects_.pick("MKEY", random_);
    append_word(box, random_.below(4096));
    append_word(box, key ? key->number << 8 : random_.below(1 << 16));
    append_word(box, 0);
    append_word(box, random_.below(4096));
  }
}

void MailboxSense::queue_pair(Box& box) const {
  constexpr uint32_t kServices[] = {
      static_cast<uint32_t>(prm::QpService::kRc), static_cast<uint32_t>(prm::QpService::kUc),
      static_cast<uint32_t>(prm::QpService::kUd), static_cast<uint32_t>(prm::QpService::kDci)};
  constexpr uint32_t kOwnQueue = 0, kNoQueue = 3;
  const auto context = Writer<prm::CreateQpIn>(box)[prm::CreateQpIn::qpc];
  const uint32_t service = kServices[random_.below(4)];
  context.set(prm::Qpc::st, service);
  const bool sends_only = service == static_cast<uint32_t>(prm::QpService::kDci) || random_.one_in(6);
  if (sends_only) context.set(prm::Qpc::rq_type, kNoQueue);
  const LiveObjects::Object* shared = objects_.pick("RMP", random_);
  if (!sends_only && !shared) context.set(prm::Qpc::rq_type, kOwnQueue);
  if (shared) context.set(prm::Qpc::srqn_rmpn_xrqn, shared->number);
}

// A change, or another ring.
void MailboxSense::completion_queue(Box& box) const {
  using In = prm::ModifyCqIn;
  const Writer<In> in(box);
  const bool resizes = random_.one_in(2);
  in.set(In::op_mod, resizes ? prm::ModifyCqMode::kResizeCq : prm::ModifyCqMode::kModifyCq);
  if (!resizes) return;
  const auto fields = in[In::modify_field_select_resize_field_select]
                        [prm::ModifyFieldSelectResizeFieldSelectAuto::resize_field_select];
  fields.set(prm::ResizeFieldSelect::resize_field_select, prm::ResizeCqField::kLogCqSize);
}

void MailboxSense::receive_queue(Box& box) const {
  using In = prm::ModifyRqIn;
  const Writer<In> in(box);
  const Box is = ask<prm::QueryRq>(hca_, user_of(box), prm::QueryRqIn::rqn, in[In::rqn]);
  if (!done(is)) return;
  const uint32_t state = prm::View<prm::QueryRqOut>(is)[prm::QueryRqOut::rq_context][prm::Rqc::state];
  in.set(In::rq_state, state);
  in[In::ctx].set(prm::Rqc::state, kWays[std::min(state, 2u)][random_.below(3)]);
  in.set(In::modify_bitmask, random_.one_in(4) ? prm::ModifyRqField::kRqCounterSetId : prm::ModifyRqField{});
}

void MailboxSense::send_queue(Box& box) const {
  using In = prm::ModifySqIn;
  const Writer<In> in(box);
  const Box is = ask<prm::QuerySq>(hca_, user_of(box), prm::QuerySqIn::sqn, in[In::sqn]);
  if (!done(is)) return;
  const uint32_t state = prm::View<prm::QuerySqOut>(is)[prm::QuerySqOut::sq_context][prm::Sqc::state];
  in.set(In::sq_state, state);
  in[In::ctx].set(prm::Sqc::state, kWays[std::min(state, 2u)][random_.below(3)]);
}

void MailboxSense::encryption_key(Box& box) const {
  const auto object = Writer<prm::CreateEncryptionKeyObjIn>(box)[prm::CreateEncryptionKeyObjIn::key_obj];
  if (!wrapped_) return;
  object.set(prm::EncryptionKeyObj::key_size, prm::DekSize::k128);
  object.set(prm::EncryptionKeyObj::has_keytag, false);
  for (size_t i = 0; i < kWrappedKey.size(); i++) object.set(prm::EncryptionKeyObj::key, i, kWrappedKey[i]);
}

void MailboxSense::login(Box& box) const {
  const auto object = Writer<prm::CreateCryptoLoginObjIn>(box)[prm::CreateCryptoLoginObjIn::login_obj];
  object.set(prm::CryptoLoginObj::credential_pointer, 0);
  object.set(prm::CryptoLoginObj::session_import_kek_ptr, 0);
  for (size_t i = 0; i < kWrappedCredential.size(); i += 4) {
    uint32_t word = 0;
    for (size_t byte = 0; byte < 4; byte++) word = word << 8 | kWrappedCredential[i + byte];
    object.set(prm::CryptoLoginObj::credential, i / 4, word);
  }
}

// A root has no leaf in its place, and nothing to share.
void MailboxSense::scheduling_element(Box& box) const {
  const auto element = Writer<prm::CreateSchedElemIn>(box)[prm::CreateSchedElemIn::sched_elem];
  const auto context = element[prm::SchedElem::sched_context];
  if (!objects_.pick("SCHED_ELEM", random_) || random_.one_in(3))
    context.set(prm::SchedContext::parent_element_id, 0);
  if (context[prm::SchedContext::parent_element_id] != 0) return;
  context.set(prm::SchedContext::element_type, prm::SchedulingType::kTsar);
  context.set(prm::SchedContext::bw_share, 0);
  context.set(prm::SchedContext::max_average_bw, 0);
}

void MailboxSense::event_queue(Box& box) const {
  const auto context = Writer<prm::CreateEqIn>(box)[prm::CreateEqIn::eq_context_entry];
  context.set(prm::Eqc::log_page_size, 2);
}

void MailboxSense::device_register(Box& box) const {
  constexpr uint32_t kPortMtu = 0x5003, kPortState = 0x5006, kDataBytes = 64;
  using In = prm::AccessRegisterIn;
  box.resize(std::max<size_t>(box.size(), In::register_data.offset / 8 + kDataBytes));
  const Writer<In> in(box);
  const bool mtu = random_.one_in(2);
  in.set(In::op_mod, mtu || random_.one_in(2) ? prm::RegisterAccess::kRead : prm::RegisterAccess::kWrite);
  in.set(In::register_id, mtu ? kPortMtu : kPortState);
  if (mtu)
    in.overlay<prm::PmtuReg>(In::register_data).set(prm::PmtuReg::local_port, 1);
  else
    in.overlay<prm::PaosReg>(In::register_data).set(prm::PaosReg::local_port, 1);
}

void MailboxSense::capabilities(Box& box) const {
  Writer<prm::QueryHcaCapIn>(box).set(prm::QueryHcaCapIn::op_mod, random_.below(64));
}

void MailboxSense::receive_table(Box& box) const {
  Writer<prm::ModifyRqtIn>(box)[prm::ModifyRqtIn::bitmask].set(prm::RqtBitmask::rqn_list, true);
}

}  // namespace verbatim::fuzz
