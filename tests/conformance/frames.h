// SPDX-License-Identifier: MIT
#pragma once

// Ethernet frames and the rules that steer them, for raw packet queue pairs.

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "tests/conformance/players.h"

namespace verbatim::conformance {

inline constexpr Traits kFrames{.type = IBV_QPT_RAW_PACKET};
using Mac = std::array<uint8_t, 6>;
inline constexpr Mac kSource{2, 0, 0, 0, 0, 0xee};
inline constexpr Mac kGroup{1, 0, 0x5e, 0, 0, 7};

inline uint16_t big16(int value) { return __builtin_bswap16(static_cast<uint16_t>(value)); }
inline uint32_t big32(uint32_t value) { return __builtin_bswap32(value); }

/// What a frame is like. Its payload is counted up from `seed`.
struct FrameTraits {
  Mac to{}, from = kSource;
  int vlan = -1;    ///< the TCI of a tag; none
  int network = 4;  ///< 4 or 6: IP version; 0: no IP
  int transport = 17;
  uint32_t ip = 0x0a000002;  ///< destination, of IPv6 the last bytes
  int port = 5678;           ///< destination
  size_t payload = 32;
  uint8_t seed = 1;
};
std::vector<uint8_t> frame_of(const FrameTraits& traits);
void append(std::vector<uint8_t>& bytes, const std::vector<uint8_t>& more);
/// A frame whose IPv4 packet has this protocol and payload; of UDP, behind a header with that port.
std::vector<uint8_t> carrying(const Mac& to, int protocol, const std::vector<uint8_t>& payload,
                              int port = 5678);
void put(Endpoint& self, size_t offset, const std::vector<uint8_t>& frame);
bool lies_at(const Endpoint& self, size_t offset, const std::vector<uint8_t>& frame);
/// Sends a frame that is put at the beginning of the buffer and waits until it is sent.
void send(Endpoint& self, const std::vector<uint8_t>& frame, unsigned int flags = 0);

/// Bytes of a completion queue's entry, of 64, as programs find them that read queues themselves.
const uint8_t* completion_at(ibv_cq* cq, uint32_t index);

/// What a queue pair of frames is made with beside the usual.
struct FrameOptions {
  uint32_t create_flags = 0;
  uint16_t max_header = 0;  ///< of sends that are cut into frames
  uint64_t operations = 0;  ///< IBV_QP_EX_WITH_*
  uint32_t special = 0;     ///< MLX5DV_QP_CREATE_*
};
/// The key by which receive side scaling is verified everywhere.
inline constexpr std::array<uint8_t, 40> kKey{0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                                              0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                                              0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                                              0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};
/// A queue pair that spreads frames over a table by the Toeplitz hash of `fields`. `special`:
/// MLX5DV_QP_CREATE_*. nullptr, and errno.
ibv_qp* spreading_qp(Endpoint& self, ibv_rwq_ind_table* table, uint64_t fields, uint32_t special = 0);

/// Gives the endpoint another queue pair, in RTS. 0, or errno.
int remake(Endpoint& self, const FrameOptions& options);

/// A rule under construction, then in force until it goes out of scope.
class Rule {
 public:
  explicit Rule(ibv_flow_attr_type type = IBV_FLOW_ATTR_NORMAL);
  ~Rule();
  Rule(const Rule&) = delete;
  Rule& operator=(const Rule&) = delete;

  Rule& priority(uint16_t value);
  Rule& flags(uint32_t value);
  Rule& port(uint8_t value);
  template <class Spec>
  Rule& add(Spec spec) {
    spec.size = sizeof spec;
    return append(&spec, sizeof spec);
  }
  Rule& to(const Mac& mac);
  Rule& vlan(int tci);
  Rule& ipv4(uint32_t destination, uint8_t protocol = 0);
  Rule& ports(ibv_flow_spec_type type, int destination);
  Rule& tag(uint32_t value);
  /// 0, or errno.
  int put_in_force(ibv_qp* qp);
  /// It is destroyed before its time.
  void end();
  int put_in_force(Endpoint& self) { return put_in_force(self.qp); }

 private:
  Rule& append(const void* spec, size_t bytes);
  ibv_flow_attr& head() { return *reinterpret_cast<ibv_flow_attr*>(bytes_.data()); }
  std::vector<uint8_t> bytes_;
  ibv_flow* flow_ = nullptr;
};

}  // namespace verbatim::conformance
