// SPDX-License-Identifier: MIT
// A device's number is its place in the list of names, as for as long as programs have the same devices.
#include "tools/redirect/rdma_answers.h"

#include <fcntl.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tools/redirect/next.h"
#include "tools/redirect/paths.h"

namespace verbatim::redirect {

namespace {

constexpr size_t kDevicesMax = 64, kNameMax = 64, kTextMax = 256, kGuidCharacters = 19;
constexpr uint32_t kPort = 1;  ///< of each device
constexpr uint8_t kSharedNamespaces = 1;

struct Text {
  char bytes[kTextMax] = "";
  bool is(const char* other) const { return std::strcmp(bytes, other) == 0; }
};

struct Device {
  char name[kNameMax];

  /// A path below the device's folder.
  Text path(const char* below) const {
    Text text;
    const char* const parts[] = {"/sys/class/infiniband/", name, "/", below};
    for (const char* part : parts)
      std::strncat(text.bytes, part, sizeof text.bytes - 1 - std::strlen(text.bytes));
    return text;
  }
  /// What that file says, without its line end.
  Text read(const char* below) const {
    Text text;
    const Target target(path(below).bytes);
    const int file = g_next.open(target.path(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return text;
    const ssize_t got = ::read(file, text.bytes, sizeof text.bytes - 1);
    ::close(file);
    text.bytes[got > 0 ? got : 0] = 0;
    text.bytes[std::strcspn(text.bytes, "\n")] = 0;
    return text;
  }
  uint64_t number(const char* below) const { return std::strtoull(read(below).bytes, nullptr, 0); }
  /// "0123:4567:89ab:cdef", or what a GID begins with.
  uint64_t guid(const char* below) const {
    const Text text = read(below);
    uint64_t value = 0;
    for (size_t i = 0; i < kGuidCharacters && text.bytes[i] != 0; i++) {
      const char digit[] = {text.bytes[i], 0};
      if (digit[0] != ':') value = value << 4 | std::strtoul(digit, nullptr, 16);
    }
    return value;
  }
};

struct Devices {
  Device list[kDevicesMax];
  uint32_t count = 0;

  Devices() {
    const Target target("/sys/class/infiniband");
    DIR* folder = g_next.opendir(target.path());
    if (folder == nullptr) return;
    while (const dirent* entry = readdir(folder)) {
      if (entry->d_name[0] == '.' || std::strlen(entry->d_name) >= kNameMax || count == kDevicesMax) continue;
      std::strcpy(list[count++].name, entry->d_name);
    }
    closedir(folder);
    std::sort(list, list + count, [](const Device& a, const Device& b) {
      const size_t left = std::strlen(a.name), right = std::strlen(b.name);
      return left != right ? left < right : std::strcmp(a.name, b.name) < 0;
    });
  }
};

/// A message with its attributes.
class Message {
 public:
  Message(const nlmsghdr& request, uint16_t type, uint16_t flags) {
    header().nlmsg_len = NLMSG_HDRLEN;
    header().nlmsg_type = type;
    header().nlmsg_flags = flags;
    header().nlmsg_seq = request.nlmsg_seq;
    header().nlmsg_pid = request.nlmsg_pid;
  }
  void put(uint16_t type, const void* data, size_t bytes) {
    const size_t room = sizeof bytes_ - header().nlmsg_len;
    if (NLA_ALIGN(NLA_HDRLEN + bytes) > room) return;
    const nlattr attribute{static_cast<uint16_t>(NLA_HDRLEN + bytes), type};
    std::memcpy(bytes_ + header().nlmsg_len, &attribute, sizeof attribute);
    append(data, bytes, NLA_HDRLEN);
  }
  template <class T>
  void put(uint16_t type, T value) {
    put(type, &value, sizeof value);
  }
  void put_text(uint16_t type, const char* text) { put(type, text, std::strlen(text) + 1); }
  /// What is no attribute.
  void append(const void* data, size_t bytes, size_t behind = 0) {
    std::memcpy(bytes_ + header().nlmsg_len + behind, data, bytes);
    header().nlmsg_len += static_cast<uint32_t>(NLA_ALIGN(behind + bytes));
  }
  nlmsghdr& header() { return *reinterpret_cast<nlmsghdr*>(bytes_); }

 private:
  alignas(nlmsghdr) char bytes_[1024] = {};
};

/// A number that a request names; `otherwise` if it does not.
uint32_t named(const nlmsghdr& request, uint16_t type, uint32_t otherwise) {
  const char* at = reinterpret_cast<const char*>(&request) + NLMSG_HDRLEN;
  const char* const end = reinterpret_cast<const char*>(&request) + request.nlmsg_len;
  while (end - at >= NLA_HDRLEN) {
    nlattr attribute;
    std::memcpy(&attribute, at, sizeof attribute);
    if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > end - at) break;
    if ((attribute.nla_type & NLA_TYPE_MASK) == type && attribute.nla_len >= NLA_HDRLEN + sizeof otherwise)
      std::memcpy(&otherwise, at + NLA_HDRLEN, sizeof otherwise);
    at += NLA_ALIGN(attribute.nla_len);
  }
  return otherwise;
}

void describe(Message& message, const Device& device, uint32_t index) {
  message.put(RDMA_NLDEV_ATTR_DEV_INDEX, index);
  message.put_text(RDMA_NLDEV_ATTR_DEV_NAME, device.name);
}

void describe_device(Message& message, const Device& device, uint32_t index) {
  const bool ethernet = device.read("ports/1/link_layer").is("Ethernet");
  describe(message, device, index);
  message.put(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);  // of a device: how many
  message.put_text(RDMA_NLDEV_ATTR_FW_VERSION, device.read("fw_ver").bytes);
  message.put(RDMA_NLDEV_ATTR_NODE_GUID, device.guid("node_guid"));
  message.put(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, device.guid("sys_image_guid"));
  message.put(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, static_cast<uint8_t>(device.number("node_type")));
  message.put_text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, ethernet ? "roce" : "ib");
}

/// The interface of the host that the port seems to be.
Text interface_of(const Device& device) {
  Text name;
  const Target target(device.path("device/net").bytes);
  DIR* folder = g_next.opendir(target.path());
  if (folder == nullptr) return name;
  while (const dirent* entry = readdir(folder))
    if (entry->d_name[0] != '.' && std::strlen(entry->d_name) < IFNAMSIZ)
      std::strcpy(name.bytes, entry->d_name);
  closedir(folder);
  return name;
}

void describe_port(Message& message, const Device& device, uint32_t index) {
  describe(message, device, index);
  message.put(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
  message.put(RDMA_NLDEV_ATTR_CAP_FLAGS, device.number("ports/1/cap_mask"));
  if (!device.read("ports/1/link_layer").is("Ethernet")) {
    message.put(RDMA_NLDEV_ATTR_SUBNET_PREFIX, device.guid("ports/1/gids/0"));
    message.put(RDMA_NLDEV_ATTR_LID, static_cast<uint32_t>(device.number("ports/1/lid")));
    message.put(RDMA_NLDEV_ATTR_SM_LID, static_cast<uint32_t>(device.number("ports/1/sm_lid")));
    message.put(RDMA_NLDEV_ATTR_LMC, static_cast<uint8_t>(device.number("ports/1/lid_mask_count")));
  }
  message.put(RDMA_NLDEV_ATTR_PORT_STATE, static_cast<uint8_t>(device.number("ports/1/state")));
  message.put(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, static_cast<uint8_t>(device.number("ports/1/phys_state")));
  const Text interface = interface_of(device);
  if (interface.is("")) return;
  message.put(RDMA_NLDEV_ATTR_NDEV_INDEX, if_nametoindex(interface.bytes));
  message.put_text(RDMA_NLDEV_ATTR_NDEV_NAME, interface.bytes);
}

/// 0: the request was understood; with what it asked for, and a note about it where that was wanted.
void end(const nlmsghdr& request, const Deliver& deliver, int error) {
  Message message(request, NLMSG_ERROR, 0);
  const nlmsgerr status{-error, request};
  message.append(&status, sizeof status);
  deliver.call(deliver, message.header());
}

using Describe = void (*)(Message& message, const Device& device, uint32_t index);

/// One device or port, or all of them.
void answer_about(const nlmsghdr& request, const Deliver& deliver, Describe describe_it) {
  const Devices devices;
  const bool all = (request.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
  const uint32_t wanted = named(request, RDMA_NLDEV_ATTR_DEV_INDEX, UINT32_MAX);
  const bool no_port = named(request, RDMA_NLDEV_ATTR_PORT_INDEX, kPort) != kPort;
  if (!all && (wanted >= devices.count || no_port)) return end(request, deliver, EINVAL);
  for (uint32_t i = 0; i < devices.count; i++) {
    if (wanted != UINT32_MAX && i != wanted) continue;
    Message message(request, request.nlmsg_type, all ? NLM_F_MULTI : 0);
    describe_it(message, devices.list[i], i);
    deliver.call(deliver, message.header());
  }
  if (!all && (request.nlmsg_flags & NLM_F_ACK) != 0) end(request, deliver, 0);
  if (!all) return;
  Message done(request, NLMSG_DONE, NLM_F_MULTI);
  const int status = 0;
  done.append(&status, sizeof status);
  deliver.call(deliver, done.header());
}

void answer_about_system(const nlmsghdr& request, const Deliver& deliver) {
  Message message(request, request.nlmsg_type, 0);
  message.put(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, kSharedNamespaces);
  deliver.call(deliver, message.header());
  if ((request.nlmsg_flags & NLM_F_ACK) != 0) end(request, deliver, 0);
}

}  // namespace

void answer(const nlmsghdr& request, const Deliver& deliver) {
  if (request.nlmsg_type == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET))
    return answer_about(request, deliver, describe_device);
  if (request.nlmsg_type == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_PORT_GET))
    return answer_about(request, deliver, describe_port);
  if (request.nlmsg_type == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET))
    return answer_about_system(request, deliver);
  end(request, deliver, EOPNOTSUPP);
}

}  // namespace verbatim::redirect
