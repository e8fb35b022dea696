// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "agent/cm/connection.h"
#include "base/clock.h"
#include "base/expected.h"

namespace verbatim::agent::cm {

/// Options of ECE beside a message.
struct Enhancement {
  uint32_t vendor_id = 0, options = 0;
};

/// What has happened to a connection.
struct Happening {
  enum class Kind : uint8_t {
    kReplied,       ///< active: REP
    kEstablished,   ///< passive: RTU
    kRejected,      ///< REJ: `reason`
    kUnreachable,   ///< nobody answered
    kDisconnected,  ///< DREQ or DREP; `timed_out`: nobody answered the DREQ
    kTimewaitOver,
    kDatagramReplied,  ///< SIDR_REP: `reason` its status, `qpn`, `qkey`
  };
  Kind kind;
  uint16_t reason = 0;
  bool timed_out = false;
  uint32_t qpn = 0, qkey = 0;
  Enhancement ece = {};
  std::span<const uint8_t> private_data = {};
};

/// A REQ or SIDR_REQ that came, seen from this end.
struct Proposal {
  Connection connection;
  bool datagram = false;
  Enhancement ece = {};
  std::span<const uint8_t> private_data;  ///< all of it
};

/// Whose connections they are.
class ConnectionUser {
 public:
  virtual ~ConnectionUser() = default;
  /// Something wants a connection. Its owner, never 0; or why there is none.
  enum class Admission : uint8_t { kTaken, kNobodyListens, kLater };
  virtual Admission admit(const Proposal& proposal, uint64_t& owner) = 0;
  virtual void happened(uint64_t owner, const Connection& connection, const Happening& what) = 0;
};

/// All connections of a host: the protocol of the connection manager. No clock: every call that may start a
/// timer is told the time before (`set_time`).
class Connections {
 public:
  /// `first_comm_id`: random, so that those of an agent before are not used again soon.
  Connections(MadWire& wire, ConnectionUser& user, uint64_t guid, uint32_t first_comm_id)
      : wire_(wire), user_(user), guid_(guid), next_comm_id_(first_comm_id) {}

  void set_time(uint64_t now_ns) { now_ns_ = now_ns; }
  /// When `step` has something to do; kNever.
  uint64_t deadline_ns() const;
  void step();
  void arrived(const Arrival& arrival);
  /// Processes may come back to take up connections of an agent before this: until then what is about nobody
  /// is not answered but kept, and seen again when something was restored and when the time is over. So is
  /// for a moment what nobody listens for: programs that have agreed to connect do not wait for each other.
  void expect_returns(uint64_t until_ns) { returns_until_ns_ = until_ns; }
  /// Somebody has come back, or listens.
  void somebody_came() { see_held_again(); }

  /// All below: by the connection's local communication id, 0: there is none.
  const Connection* find(uint32_t comm_id) const;
  /// Sends the REQ, with comm ids, GUID and path filled in from `connection` and the time limits from `req`.
  uint32_t connect(uint64_t owner, Connection connection, roce::cm::Req req, const Enhancement& ece);
  uint32_t connect_datagram(uint64_t owner, Connection connection, roce::cm::SidrReq req);
  /// EINVAL: the connection is not in the state for it; so are those below.
  Outcome accept(uint32_t comm_id, roce::cm::Rep rep, const Enhancement& ece);
  Outcome answer_datagram(uint32_t comm_id, roce::cm::SidrRep rep, const Enhancement& ece);
  Outcome ready(uint32_t comm_id);
  Outcome reject(uint32_t comm_id, roce::cm::RejectReason reason, std::span<const uint8_t> private_data);
  /// Asks for the end, or agrees to it.
  Outcome disconnect(uint32_t comm_id);
  /// As though the RTU had come: data did.
  Outcome establish(uint32_t comm_id);
  /// Its owner goes: ends it politely, without a word to the owner.
  void release(uint32_t comm_id);
  void set_owner(uint32_t comm_id, uint64_t owner);
  /// One of the agent before this. EBUSY: the comm id is in use.
  Outcome restore(uint64_t owner, const Connection& connection);

 private:
  struct Entry {
    Connection connection;
    uint64_t owner = 0;  ///< 0: gone; it ends by itself
    uint64_t due_ns = kNever;
  };
  struct Held {
    uint64_t since_ns, until_ns;
    Gid local, remote;
    std::array<uint8_t, roce::kMadBytes> mad;
  };
  using RemoteKey = std::tuple<std::array<uint8_t, 16>, uint64_t, uint32_t>;

  static constexpr uint64_t kTransactions = uint64_t{2} << 32;  ///< as an agent of the kernel numbers them

  static RemoteKey remote_key(const Connection& connection, uint32_t number);
  uint32_t new_comm_id();
  uint32_t add(Connection connection, uint64_t owner);
  void erase(uint32_t comm_id);
  Entry* entry(uint32_t comm_id);
  void set_due(Entry& entry, uint64_t due_ns);
  void send(const Entry& entry, roce::cm::Body body, const Enhancement& ece = {});
  void send_pending(Entry& entry, roce::cm::Body body, const Enhancement& ece = {});
  void stop(Entry& entry);
  void enter_idle(Entry& entry);
  void enter_timewait(Entry& entry);
  void index(const Entry& entry);
  void forget_qpn(const Entry& entry);
  void forget_index(const Entry& entry);
  void expired(Entry& entry);
  void tell(Entry& entry, const Happening& what);
  void send_dreq(Entry& entry, uint8_t retries);
  void send_drep(Entry& entry);
  void send_rtu(Entry& entry);

  void dispatch(const Arrival& arrival, uint64_t since_ns);
  bool hold(const Arrival& arrival, uint64_t until_ns);
  bool hold(const Arrival& arrival) { return hold(arrival, returns_until_ns_); }
  bool hold_for_listener(const Arrival& arrival, uint64_t service_id);
  void forget_held(const Gid& remote, uint32_t remote_comm_id);
  void see_held_again();
  void answer(const Arrival& arrival, uint64_t transaction, roce::cm::Body body);
  void admit(const Arrival& arrival, Proposal& proposal, roce::cm::Body refusal);
  Entry* known(const Arrival& arrival, uint32_t local, uint32_t remote);
  void on(const Arrival&, const roce::MadHeader&, const roce::cm::Req&);
  void on(const Arrival&, const roce::MadHeader&, const roce::cm::Mra&);
  void on(const Arrival&, const roce::MadHeader&, const roce::cm::Rej&);
  void on(const Arrival&, const roce::MadHeader&, const roce::cm::Rep&);
  void on(const Arrival&, const roce::MadHeader&, const roce::cm::Rtu&);
  void on(const Arrival&, const roce::MadHeader&, const roce::cm::Dreq&);
  void on(const Arrival&, const roce::MadHeader&, const roce::cm::Drep&);
  void on(const Arrival&, const roce::MadHeader&, const roce::cm::SidrReq&);
  void on(const Arrival&, const roce::MadHeader&, const roce::cm::SidrRep&);
  void on(const Arrival&, const roce::MadHeader&, const roce::cm::Lap&);
  void on(const Arrival&, const roce::MadHeader&, const roce::cm::Apr&) {}
  bool is_stale(const Arrival& arrival, uint64_t guid, uint32_t qpn, uint32_t own);
  void req_again(Entry& entry);
  void take_rep(Entry& entry, const roce::cm::Rep& rep);
  Entry* rejected(const Arrival& arrival, const roce::cm::Rej& rej);

  MadWire& wire_;
  ConnectionUser& user_;
  const uint64_t guid_;
  uint32_t next_comm_id_;
  uint64_t now_ns_ = 0, returns_until_ns_ = 0;
  uint64_t since_ns_ = 0;          ///< when the message that is looked at came
  uint64_t held_due_ns_ = kNever;  ///< the first of them
  std::unordered_map<uint32_t, Entry> entries_;
  std::map<RemoteKey, uint32_t> by_remote_id_, by_remote_qpn_;
  std::set<std::pair<uint64_t, uint32_t>> timers_;
  std::vector<Held> held_;
};

}  // namespace verbatim::agent::cm
