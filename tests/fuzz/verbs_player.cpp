// SPDX-License-Identifier: MIT
#include "tests/fuzz/verbs_player.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace verbatim::fuzz {

namespace {

/// What manual pages name, and what a host without means says.
constexpr int kErrors[] = {EINVAL, ENOMEM, EOPNOTSUPP, EBUSY,   EFAULT, ENOENT,       EPERM,
                           EACCES, EEXIST, EBADF,      ENODATA, EAGAIN, EHOSTUNREACH, EMFILE,
                           ENFILE, ENOSYS, E2BIG,      ENOSPC,  ENODEV, EIO,          EOVERFLOW};

/// Domains of domains, windows of regions and attachments that are dropped at random take a few each.
constexpr int kRoundsMax = 64;
/// At first, so that there is something to play with.
constexpr uint32_t kCalmSteps = 150;

std::vector<Action> all_actions() {
  std::vector<Action> all;
  for (const auto some : {memory_actions(), queue_actions(), queue_pair_actions(), packet_actions(),
                          posting_actions(), query_actions()})
    for (const Action& action : some) all.insert(all.end(), action.weight, action);
  return all;
}

}  // namespace

Player::Player(const Common& shared_parts, const Arena& arena, uint64_t seed)
    : common(shared_parts), arguments(seed, arena) {}

void Player::step() {
  static const std::vector<Action> kActions = all_actions();
  arguments.next(steps_++ < kCalmSteps);
  errno = 0;
  kActions[below(static_cast<uint32_t>(kActions.size()))].play(*this);
}

void Player::fail(const std::string& what) const {
  std::fprintf(stderr, "FAILED [%d] seed %llu: %s\n", getpid(), static_cast<unsigned long long>(common.seed),
               what.c_str());
  std::_Exit(1);
}

void Player::note(const char* call, bool done, int error) {
  Ends& ends = tally_[call];
  ++(done ? ends.done : ends.refused);
  if (!done && std::ranges::find(kErrors, error) == std::end(kErrors))
    fail(std::string(call) + ": error " + std::to_string(error));
}

bool Player::took(const char* call, int result) {
  note(call, result == 0, result);
  return result == 0;
}

bool Player::took_or_minus(const char* call, int result) {
  if (result != 0 && result != -1) fail(std::string(call) + " returns " + std::to_string(result));
  note(call, result == 0, errno);
  return result == 0;
}

ibv_pd* Player::some_pd() {
  if (arguments.odd()) return one_in(2) ? nullptr : common.strange_pd;
  return any(pds);
}

ibv_gid Player::some_gid() {
  ibv_gid gid = common.gid;
  if (arguments.odd()) arguments.random.fill(gid.raw, one_in(2) ? sizeof gid.raw : 2);
  return gid;
}

ibv_ah_attr Player::some_address() {
  ibv_ah_attr address{};
  address.is_global = arguments.number<uint8_t>(common.lid == 0 ? 1 : 0);
  address.dlid = arguments.number<uint16_t>(common.lid);
  address.grh.dgid = some_gid();
  address.grh.sgid_index = arguments.number<uint8_t>(0);
  address.grh.hop_limit = arguments.number<uint8_t>(64);
  address.grh.flow_label = arguments.number<uint32_t>(below(1 << 20));
  address.grh.traffic_class = arguments.number<uint8_t>(0);
  address.sl = arguments.number<uint8_t>(0);
  address.src_path_bits = arguments.number<uint8_t>(0);
  address.static_rate = arguments.number<uint8_t>(0);
  address.port_num = arguments.number<uint8_t>(1);
  return address;
}

ibv_sge Player::some_piece() {
  const ibv_mr* mr = any(mrs);
  ibv_sge piece{};
  piece.addr = mr != nullptr ? starts[mr] + below(512) * 8 : reinterpret_cast<uint64_t>(arguments.address());
  piece.length = one_in(8) ? below(1 << 16) : 8 * below(64);
  piece.lkey = mr != nullptr ? mr->lkey : 0;
  if (arguments.odd()) piece.addr = reinterpret_cast<uint64_t>(arguments.address());
  if (arguments.odd()) piece.length = one_in(8) ? 1u << 31 : below(1 << 21);
  if (arguments.odd()) piece.lkey = one_in(2) ? common.strange_mr->lkey : arguments.number<uint32_t>(0);
  return piece;
}

uint32_t Player::some_qpn() {
  const ibv_qp* qp = any(qps);
  return arguments.number<uint32_t>(qp != nullptr ? qp->qp_num : 0);
}

// Events that were taken and not acknowledged would keep it waiting, as its page says.
void Player::before_destruction(ibv_cq* cq) {
  const auto found = unacknowledged.find(cq);
  if (found == unacknowledged.end()) return;
  ibv_ack_cq_events(cq, found->second);
  unacknowledged.erase(found);
}

void Player::before_destruction(ibv_qp* qp) {
  if (!one_in(2)) return;
  std::erase_if(attachments, [&](Attachment& each) {
    return each.qp == qp && took("ibv_detach_mcast", ibv_detach_mcast(qp, &each.gid, each.lid));
  });
}

void Player::destroy_what_goes() {
  flows.destroy_all(*this), qps.destroy_all(*this), tables.destroy_all(*this), wqs.destroy_all(*this);
  srqs.destroy_all(*this), cqs.destroy_all(*this), channels.destroy_all(*this), mws.destroy_all(*this);
  ahs.destroy_all(*this), mrs.destroy_all(*this), dms.destroy_all(*this), dmahs.destroy_all(*this);
  bufs.destroy_all(*this), flow_actions.destroy_all(*this), counters.destroy_all(*this);
  comp_cntrs.destroy_all(*this), xrc_domains.destroy_all(*this), pds.destroy_all(*this);
  tds.destroy_all(*this);
}

std::string Player::left() const {
  return flows.left() + qps.left() + tables.left() + wqs.left() + srqs.left() + cqs.left() + channels.left() +
         mws.left() + ahs.left() + mrs.left() + dms.left() + dmahs.left() + bufs.left() +
         flow_actions.left() + counters.left() + comp_cntrs.left() + xrc_domains.left() + pds.left() +
         tds.left();
}

// What others still use is refused, and goes in a later round.
void Player::finish() {
  for (int round = 0; round < kRoundsMax && !left().empty(); round++) destroy_what_goes();
  if (!left().empty()) fail("cannot be destroyed:" + left());
  expect(allocations.empty(), "memory of a parent domain's allocator was not freed");
}

}  // namespace verbatim::fuzz
