// SPDX-License-Identifier: MIT
#include "tests/fuzz/mailbox_writer.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "abi/prm/general.h"
#include "abi/prm/memory.h"
#include "device/connectx/prm/object_life.h"
#include "device/connectx/prm/view.h"
#include "tests/fuzz/mailbox_habits.h"

namespace verbatim::fuzz {

namespace {

using Writable = MailboxWriter::Writable;

std::string_view last_name(std::string_view path) { return path.substr(path.rfind('.') + 1); }

/// The fields of a layout.
std::span<const Writable> fields_of(std::string_view layout) {
  static const auto index = [] {
    std::unordered_map<std::string_view, std::vector<Writable>> by_layout;
    for (const prm::FieldInfo& field : prm::all_fields())
      by_layout[field.layout].push_back({&field, habit_of(field.layout, field.path)});
    return by_layout;
  }();
  const auto found = index.find(layout);
  return found == index.end() ? std::span<const Writable>{} : found->second;
}

uint64_t mask_of(uint32_t width) { return width >= 64 ? UINT64_MAX : (uint64_t{1} << width) - 1; }

}  // namespace

uint64_t MailboxWriter::number_of(std::string_view kind) {
  // Older commands call a receive memory pool a shared receive queue.
  const LiveObjects::Object* object = objects_.pick(kind == "SRQ" ? "RMP" : kind, random_);
  return object && !random_.one_in(40) ? object->number : random_.below(64);
}

uint64_t MailboxWriter::value_of(const Writable& place) {
  const std::string_view path = place.field->path, name = last_name(path);
  if (oddity_ && random_.one_in(oddity_)) return random_.next();
  // A key is for all queue pairs.
  if (path.ends_with("mkey_entry.qpn")) return random_.one_in(8) ? number_of("QP") : UINT64_MAX;
  if (creating_ && name == "state") return random_.one_in(16) ? 1 : 0;
  if (const Habit* habit = place.habit) {
    if (!habit->kind.empty()) return random_.one_in(24) ? 0 : number_of(habit->kind);
    return habit->least + random_.next() % ((habit->most - habit->least) / habit->step + 1) * habit->step;
  }
  if (!sloppy_) return 0;
  if (name.starts_with("log_") && random_.one_in(2)) return random_.below(8);
  return place.field->width <= 2 && random_.one_in(16) ? random_.next() : 0;
}

uint64_t MailboxWriter::element(const Writable& place, uint32_t index, const Surroundings& around) {
  const std::string_view name = last_name(place.field->path);
  if (name == "rgid_rip" && !random_.one_in(64)) return around.gid.bytes[index % around.gid.bytes.size()];
  if (name == "pas") return around.pages;
  return value_of(place);
}

void MailboxWriter::write_fields(const prm::CommandInfo& command, std::vector<uint8_t>& box,
                                 const Surroundings& around) {
  for (const Writable& place : fields_of(command.in_layout)) {
    const prm::FieldInfo& field = *place.field;
    const uint32_t elements = field.count == prm::kToTheEnd ? random_.below(4) : std::min(field.count, 64u);
    for (uint32_t i = 0; i < elements; i++)
      prm::write_bits(box, field.offset + uint64_t{i} * field.width, field.width,
                      element(place, i, around) & mask_of(field.width));
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
  sloppy_ = random_.one_in(4);
  oddity_ = sloppy_ && random_.one_in(2) ? 8 + random_.below(64) : 0;
  creating_ = command.undo != 0;
  write_fields(command, box, around);
  add_list(command.in_layout, box, around);
  const prm::Writer<prm::MboxIn> head(box);
  head.set(prm::MboxIn::opcode, command.opcode);
  if (command.mod != prm::CommandInfo::kAnyMod)
    head.set(prm::MboxIn::op_mod, command.mod);
  else if (random_.one_in(8))
    head.set(prm::MboxIn::op_mod, random_.below(80));
  const LiveObjects::Object* user = random_.one_in(32) ? objects_.pick("UCTX", random_) : nullptr;
  head.set(prm::MboxIn::uid, user ? user->number : random_.one_in(24) ? 0 : 1);
  if (command.id_in.width && !random_.one_in(16))
    prm::write_bits(box, command.id_in.offset, command.id_in.width, number_of(prm::object_kind(command)));
  if (!random_.one_in(8)) sense_.make(command, box);
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
