// SPDX-License-Identifier: MIT
#include "wire/format/cm.h"

namespace verbatim::roce::cm {

namespace {

/// Reads the data as the alternative that has the attribute. False: none has.
template <size_t kIndex = 0>
bool read_body(uint16_t attribute, const uint8_t* data, Body& to) {
  if constexpr (kIndex == std::variant_size_v<Body>) {
    return false;
  } else {
    using T = std::variant_alternative_t<kIndex, Body>;
    if (attribute != T::kAttribute) return read_body<kIndex + 1>(attribute, data, to);
    T::Layout::read(data, to.emplace<T>());
    return true;
  }
}

uint16_t attribute_of(const Body& body) {
  return std::visit([](const auto& message) { return message.kAttribute; }, body);
}

}  // namespace

Message Message::of(Body body, uint64_t transaction) {
  Message message;
  message.header.management_class = MadHeader::kCmClass;
  message.header.class_version = MadHeader::kCmClassVersion;
  message.header.method = MadHeader::kSend;
  message.header.transaction = transaction;
  message.header.attribute = attribute_of(body);
  message.body = std::move(body);
  return message;
}

Parsed<Message> Message::parse(std::span<const uint8_t> mad) {
  if (mad.size() < kMadBytes) return Refusal::kTooShort;
  Parsed<Message> message{Message{}};
  MadHeader& header = message->header;
  MadHeader::Layout::read(mad.data(), header);
  if (header.base_version != MadHeader::kBaseVersion) return Refusal::kMadVersion;
  if (header.management_class != MadHeader::kCmClass) return Refusal::kMadClass;
  if (header.class_version != MadHeader::kCmClassVersion) return Refusal::kMadClassVersion;
  if (header.method != MadHeader::kSend) return Refusal::kMadMethod;
  if (!read_body(header.attribute, mad.data() + MadHeader::kBytes, message->body))
    return Refusal::kMadAttribute;
  return message;
}

size_t Message::emit(std::span<uint8_t> out) const {
  if (out.size() < kMadBytes) return 0;
  MadHeader with_attribute = header;
  with_attribute.attribute = attribute_of(body);
  with_attribute.emit(out);
  std::visit(
      [&](const auto& message) {
        std::decay_t<decltype(message)>::Layout::emit(message, out.subspan(MadHeader::kBytes));
      },
      body);
  return kMadBytes;
}

const char* name_of(const Body& body) {
  static constexpr const char* kNames[] = {"REQ",  "MRA",      "REJ",      "REP", "RTU", "DREQ",
                                           "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};
  static_assert(std::size(kNames) == std::variant_size_v<Body>);
  return kNames[body.index()];
}

}  // namespace verbatim::roce::cm
