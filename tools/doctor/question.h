// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>

#include "agent/cm/protocol.h"
#include "tools/doctor/address.h"

namespace verbatim::doctor {

/// A question that every RoCEv2 host with a connection manager answers, at its queue pair 1: "who serves
/// datagrams at RDMA port 0?" (SIDR_REQ). Nobody can, and the host says so.
///
/// The agent asks, as it does for librdmacm: the answer comes to port 4791 of this host.
class Question {
 public:
  /// What has become of it.
  struct News {
    bool answered = false;
    std::string why;  ///< otherwise: what kept it from being asked or answered
  };

  /// Errors: what the agent says.
  static Expected<std::unique_ptr<Question>> open();
  ~Question();
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  /// Asks; may be repeated, because datagrams are lost. Errors: what the connection manager refuses; ENODEV
  /// the address that packets would come from is in no device's GID table.
  Outcome ask(const Address& host);
  /// Readable when there is news.
  int file() const { return bell_; }
  std::optional<News> news();

 private:
  Question() = default;
  Outcome request(agent::cm::Request& request, agent::cm::Answer& answer, int file = -1);
  Outcome await_step(uint32_t wanted);
  std::optional<agent::cm::Event> event();

  int control_ = -1, bell_ = -1;
  uint32_t channel_ = 0, serial_ = 0;
};

}  // namespace verbatim::doctor
