// SPDX-License-Identifier: MIT
#include "tests/fuzz/mailbox_writer.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "abi/prm/general.h"
#include "abi/prm/memory.h"
#include "device/connectx/prm/object_life.h"
#include "device/connectx/prm/view.h"

namespace verbatim::fuzz {

namespace {

/// What a field of that name holds: the number of an object.
struct Reference {
  std::string_view name, kind;
};
constexpr Reference kReferences[] = {
    {"pd", "PD"},
    {"cqn", "CQ"},
    {"cqn_snd", "CQ"},
    {"cqn_rcv", "CQ"},
    {"c_eqn", "EQ"},
    {"c_eqn_or_apu_element", "EQ"},
    {"eqn", "EQ"},
    {"eq_number", "EQ"},
    {"uar", "UAR"},
    {"uar_page", "UAR"},
    {"srqn_rmpn_xrqn", "RMP"},
    {"srqn", "RMP"},
    {"srqn_xrqn", "RMP"},
    {"dctn", "DCT"},
    {"dct_number", "DCT"},
    {"rmpn", "RMP"},
    {"rqn", "RQ"},
    {"inline_rqn", "RQ"},
    {"sqn", "SQ"},
    {"tis_num_0", "TIS"},
    {"indirect_table", "RQT"},
    {"transport_domain", "TRANSPORT_DOMAIN"},
    {"xrcd", "XRCD"},
    {"counter_set_id", "Q_COUNTER"},
    {"remote_qpn", "QP"},
    {"qpn", "QP"},
    {"translations_mkey", "MKEY"},
    {"wq_umem_id", "UMEM"},
    {"dbr_umem_id", "UMEM"},
    {"cq_umem_id", "UMEM"},
    {"eq_umem_id", "UMEM"},
    {"mkey_umem_id", "UMEM"},
};

/// A range that values of a field come from when nothing is wrong with them.
struct Habit {
  std::string_view name;
  uint64_t least, most, step;
};
constexpr Habit kHabits[] = {
    {"wq_umem_valid", 1, 1, 1},
    {"dbr_umem_valid", 1, 1, 1},
    {"cq_umem_valid", 1, 1, 1},
    {"eq_umem_valid", 1, 1, 1},
    {"mkey_umem_valid", 1, 1, 1},
    {"wq_umem_offset", 0, 8192, 64},
    {"cq_umem_offset", 0, 8192, 4096},
    {"eq_umem_offset", 0, 8192, 4096},
    {"mkey_umem_offset", 0, 8192, 1},
    {"dbr_addr", 0, 16000, 8},
    {"log_wq_stride", 4, 6, 1},
    {"log_wq_sz", 0, 7, 1},
    {"log_wqe_stride_size", 0, 7, 1},
    {"log_wqe_num_of_strides", 0, 7, 1},
    {"log_rq_size", 0, 5, 1},
    {"log_rq_stride", 0, 2, 1},
    {"log_sq_size", 0, 6, 1},
    {"log_cq_size", 0, 6, 1},
    {"log_eq_size", 4, 7, 1},
    {"wq_type", 0, 3, 1},
    {"rq_type", 0, 3, 1},
    {"st", 0, 3, 1},
    {"pm_state", 3, 3, 1},
    {"mtu", 1, 5, 1},
    {"vhca_port_num", 1, 1, 1},
    {"hop_limit", 1, 64, 1},
    {"retry_count", 0, 7, 1},
    {"rnr_retry", 0, 7, 1},
    {"log_sra_max", 0, 4, 1},
    {"log_rra_max", 0, 4, 1},
    {"disp_type", 0, 1, 1},
    {"rx_hash_fn", 0, 2, 1},
    {"rqt_max_size", 4, 8, 1},
    {"rqt_actual_size", 1, 4, 1},
    {"state", 0, 3, 1},
    {"rq_state", 0, 3, 1},
    {"sq_state", 0, 3, 1},
    {"rmp_state", 0, 1, 1},
    {"intr", 0, 3, 1},
    {"log_page_size", 1, 2, 1},
    {"cqe_sz", 0, 1, 1},
    {"no_sq", 0, 1, 1},
    {"oi", 0, 1, 1},
    {"event_bitmask", 0, UINT32_MAX, 1},
    {"opt_param_mask", 0, 0xffff, 0xffff},
    {"access_mode_1_0", 0, 3, 1},
    {"umr_en", 0, 1, 1},
    {"lw", 0, 1, 1},
    {"lr", 0, 1, 1},
    {"rw", 0, 1, 1},
    {"rr", 0, 1, 1},
    {"a", 0, 1, 1},
    {"len", 0, 16384, 1},
    {"start_addr", 0, 1u << 20, 1},
    {"tis_lst_sz", 0, 1, 1},
    {"user_index", 0, 0xffffff, 1},
    {"flush_in_error_en", 0, 1, 1},
    {"num_psv", 1, 4, 1},
    {"key_size", 0, 1, 1},
    {"key_purpose", 0, 3, 1},
};

std::string_view last_name(std::string_view path) { return path.substr(path.rfind('.') + 1); }

/// The fields of a layout; the table has them one after the other.
std::span<const prm::FieldInfo> fields_of(std::string_view layout) {
  static const auto index = [] {
    std::unordered_map<std::string_view, std::span<const prm::FieldInfo>> by_layout;
    const auto all = prm::all_fields();
    for (size_t i = 0, end = 0; i < all.size(); i = end) {
      while (end < all.size() && std::string_view(all[end].layout) == all[i].layout) end++;
      by_layout[all[i].layout] = all.subspan(i, end - i);
    }
    return by_layout;
  }();
  const auto found = index.find(layout);
  return found == index.end() ? std::span<const prm::FieldInfo>{} : found->second;
}

uint64_t mask_of(uint32_t width) { return width >= 64 ? UINT64_MAX : (uint64_t{1} << width) - 1; }

}  // namespace

uint64_t MailboxWriter::number_of(std::string_view kind) {
  const LiveObjects::Object* object = objects_.pick(kind, random_);
  return object && !random_.one_in(40) ? object->number : random_.below(64);
}

uint64_t MailboxWriter::value_of(std::string_view path, uint32_t width) {
  const std::string_view name = last_name(path);
  if (oddity_ && random_.one_in(oddity_)) return random_.next();
  // A key is for all queue pairs.
  if (path.ends_with("mkey_entry.qpn")) return random_.one_in(8) ? number_of("QP") : UINT64_MAX;
  if (const auto* found = std::ranges::find(kReferences, name, &Reference::name);
      found != std::end(kReferences))
    return random_.one_in(24) ? 0 : number_of(found->kind);
  if (creating_ && name == "state") return random_.one_in(16) ? 1 : 0;
  if (const auto* found = std::ranges::find(kHabits, name, &Habit::name); found != std::end(kHabits)) {
    const uint64_t steps = (found->most - found->least) / found->step + 1;
    return found->least + random_.next() % steps * found->step;
  }
  if (!sloppy_) return 0;
  if (name.starts_with("log_") && random_.one_in(2)) return random_.below(8);
  return width <= 2 && random_.one_in(16) ? random_.next() : 0;
}

uint64_t MailboxWriter::element(const prm::FieldInfo& field, uint32_t index, const Surroundings& around) {
  const std::string_view name = last_name(field.path);
  if (name == "rgid_rip" && !random_.one_in(64)) return around.gid.bytes[index % around.gid.bytes.size()];
  if (name == "pas") return around.pages;
  return value_of(field.path, field.width);
}

void MailboxWriter::write_fields(const prm::CommandInfo& command, std::vector<uint8_t>& box,
                                 const Surroundings& around) {
  for (const prm::FieldInfo& field : fields_of(command.in_layout)) {
    const uint32_t elements = field.count == prm::kToTheEnd ? random_.below(4) : std::min(field.count, 32u);
    for (uint32_t i = 0; i < elements; i++)
      prm::write_bits(box, field.offset + uint64_t{i} * field.width, field.width,
                      element(field, i, around) & mask_of(field.width));
  }
}

// Lists of structures to the end of the mailbox are in no table of fields.
void MailboxWriter::add_list(std::string_view layout, std::vector<uint8_t>& box, const Surroundings& around) {
  if (layout == "create_rqt_in" || layout == "modify_rqt_in") {
    for (uint32_t i = 0; i < 4; i++) {
      const uint64_t number = number_of("RQ");
      for (const int shift : {24, 16, 8, 0}) box.push_back(static_cast<uint8_t>(number >> shift));
    }
  } else if (layout == "create_umem_in") {
    const prm::Writer<prm::Umem> umem = prm::Writer<prm::CreateUmemIn>(box)[prm::CreateUmemIn::umem];
    umem.set(prm::Umem::num_of_mtt, around.page_count);
    umem.set(prm::Umem::log_page_size, 0);
    const uint64_t rights = random_.one_in(8) ? 1 : 3;
    for (uint32_t i = 0; i < around.page_count; i++) {
      const uint64_t entry = (around.pages + uint64_t{i} * 4096) | rights;
      for (int shift = 56; shift >= 0; shift -= 8) box.push_back(static_cast<uint8_t>(entry >> shift));
    }
  }
}

std::vector<uint8_t> MailboxWriter::write(const prm::CommandInfo& command, const Surroundings& around) {
  // Room for an element of a list that the layout ends with.
  std::vector<uint8_t> box(command.in_bytes +
                           (std::string_view(command.in_layout) == "create_eq_in" ? 8 : 0));
  sloppy_ = random_.one_in(3);
  oddity_ = sloppy_ && random_.one_in(2) ? 8 + random_.below(64) : 0;
  creating_ = command.undo != 0;
  write_fields(command, box, around);
  add_list(command.in_layout, box, around);
  const prm::Writer<prm::MboxIn> head(box);
  head.set(prm::MboxIn::opcode, command.opcode);
  head.set(prm::MboxIn::op_mod, command.mod != prm::CommandInfo::kAnyMod ? command.mod
                                : random_.one_in(8)                      ? random_.below(80)
                                                                         : 0);
  const LiveObjects::Object* user = random_.one_in(32) ? objects_.pick("UCTX", random_) : nullptr;
  head.set(prm::MboxIn::uid, user ? user->number : random_.one_in(24) ? 0 : 1);
  if (command.id_in.width && !random_.one_in(16))
    prm::write_bits(box, command.id_in.offset, command.id_in.width, number_of(prm::object_kind(command)));
  return box;
}

void MailboxWriter::spoil(std::vector<uint8_t>& box) {
  switch (random_.below(4)) {
    case 0:
      box.resize(random_.below(static_cast<uint32_t>(box.size()) + 64));
      break;
    case 1:
      random_.fill(box.data() + std::min<size_t>(box.size(), 8),
                   box.size() - std::min<size_t>(box.size(), 8));
      break;
    default:
      for (uint32_t left = 1 + random_.below(8); left > 0 && !box.empty(); left--)
        box[random_.below(static_cast<uint32_t>(box.size()))] ^= static_cast<uint8_t>(1u << random_.below(8));
  }
}

}  // namespace verbatim::fuzz
