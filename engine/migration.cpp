// SPDX-License-Identifier: MIT
// Automatic path migration (IBA 17.2.8): a connection that has an alternate path, at both ends, goes over to
// it when the program asks for that, when the path fails, or when the peer has done so.
//
//   MIGRATED --program--> REARM --peer has one, too--> ARMED --program, failure, peer--> MIGRATED
//
// Each segment says whether its sender could still migrate. Attributes change with both locks held, so that
// what a segment or a failure asks for is noted, and done from the engine's ready list.
#include <mutex>
#include <string>

#include "engine/engine.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

// What is wrong with a wish for another state; empty: nothing.
std::string QueuePair::check_migration(const QpAttributes& a, uint32_t mask) const {
  if (!(mask & kQpPathMigState)) return "";
  if (a.path_mig_state > kArmed) return "there is no such state of path migration";
  if (a.path_mig_state == kMigrated) return "";
  const bool given = (mask & kQpAltPath) != 0;
  const AddressAttributes& path = given ? a.alternate_path : attributes_.alternate_path;
  if ((given ? a.alternate_port : attributes_.alternate_port) != 1) return "there is no alternate path";
  const std::string why = check_path(*spec_.port, engine_.host(), path, spec_.type);
  return why.empty() ? "" : "the alternate path cannot be taken: " + why;
}

// With both locks held. True: there is another path now.
bool QueuePair::apply_migration(uint8_t wanted) {
  if (wanted != kMigrated) {
    attributes_.path_mig_state = kRearm;
    peer_refused_ = false;
    return false;
  }
  if (attributes_.path_mig_state == kArmed) {
    take_other_path();
    return true;
  }
  attributes_.path_mig_state = kMigrated;
  return false;
}

// With both locks held.
void QueuePair::take_other_path() {
  attributes_.path = attributes_.alternate_path;
  attributes_.port = attributes_.alternate_port;
  attributes_.pkey_index = attributes_.alternate_pkey_index;
  pkey_index_ = attributes_.pkey_index;
  show_port();
  if (attributes_.alternate_timeout != 0) attributes_.timeout = attributes_.alternate_timeout;
  attributes_.path_mig_state = kMigrated;
  aim();
  requester_.change_way();
  if (spec_.events) spec_.events->on_event(AsyncEvent::kPathMigrated);
}

void QueuePair::note_peer_path(const wire::Segment& segment) {
  const Gid& here = attributes_.path.dgid;
  const Gid& there = attributes_.alternate_path.dgid;
  // Packets may be anybody's.
  if (segment.has_grh && segment.source_gid != here && segment.source_gid != there) return;
  const bool on_other = segment.has_grh && segment.source_gid != here;
  Wish wish = kNoWish;
  if (segment.has(wire::kMayMigrate))
    wish = attributes_.path_mig_state == kRearm ? kArm : kNoWish;
  else if (attributes_.path_mig_state == kArmed)
    wish = kMigrate;
  else if (on_other && !peer_refused_)
    wish = kRefusePeer;
  if (wish == kNoWish) return;
  migration_wish_.store(wish, std::memory_order_relaxed);
  engine_.schedule(*this);
}

bool QueuePair::leave_path() {
  if (attributes_.path_mig_state != kArmed) return false;
  engine_.explain(number_, static_cast<int>(Status::kRetryExceeded), 0,
                  "the peer does not answer on this path: the alternate one is taken");
  migration_wish_.store(kMigrate, std::memory_order_relaxed);
  engine_.schedule(*this);
  return true;
}

void QueuePair::settle_migration() {
  bool moved = false;
  {
    std::lock_guard<SpinLock> hold_requester(requester_.lock());
    std::lock_guard<SpinLock> hold_responder(responder_.lock());
    const auto wish = static_cast<Wish>(migration_wish_.exchange(kNoWish, std::memory_order_relaxed));
    if (wish == kArm && attributes_.path_mig_state == kRearm) attributes_.path_mig_state = kArmed;
    if (wish == kMigrate && attributes_.path_mig_state == kArmed) {
      take_other_path();
      moved = true;
    }
    if (wish == kRefusePeer && attributes_.path_mig_state == kRearm && !peer_refused_) {
      peer_refused_ = true;
      if (spec_.events) spec_.events->on_event(AsyncEvent::kPathMigrateError);
    }
  }
  if (moved) expect_peer();
}

}  // namespace verbatim::engine
