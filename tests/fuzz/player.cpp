// SPDX-License-Identifier: MIT
#include "tests/fuzz/player.h"

namespace verbatim::fuzz {

// Half of the worlds know nothing of each kind of damage: what lies behind it is reached, too.
uint32_t Player::now_and_then(uint32_t often) { return random_.one_in(2) ? 0 : often << random_.below(4); }

Player::Player(hw::Hca& hca, hw::Pd* pd, hw::QpType type, uint64_t seed)
    : hca_(hca),
      pd_(pd),
      type_(type),
      random_(seed),
      temper_{now_and_then(16), now_and_then(16), now_and_then(8), now_and_then(8),
              now_and_then(64), now_and_then(32), now_and_then(2)},
      memories_(hca, pd, random_),
      queues_(std::make_unique<RawQueues>(hca, pd, Shape::any(type, random_), random_)) {}

Player::~Player() = default;

Card Player::card() const {
  Card card;
  card.qpn = queues_->qpn();
  for (uint32_t i = 0; i < Memories::kTargets; i++) card.targets[i] = memories_.target(i, card.qpn);
  return card;
}

void Player::meet(const Card& peer) {
  peer_ = peer;
  const uint32_t often = temper_.odd_connections;
  queues_->connect(peer_.qpn, often != 0 && random_.one_in(often));
}

void Player::be_born_again() {
  taken_ += queues_->taken();
  queues_.reset();
  queues_ = std::make_unique<RawQueues>(hca_, pd_, Shape::any(type_, random_), random_);
  queues_->connect(peer_.qpn, false);
}

bool Player::misbehave() {
  const auto due = [&](uint32_t often) { return often != 0 && random_.one_in(often); };
  if (due(temper_.doorbells)) return queues_->damage_doorbells(), true;
  if (due(temper_.queues)) return queues_->damage_queues(), true;
  if (due(temper_.memories)) return memories_.disturb(), true;
  if (due(temper_.resizes)) return queues_->resize(), true;
  if (due(temper_.shoves)) return queues_->shove(), true;
  if (due(temper_.rebirths)) return be_born_again(), true;
  return false;
}

void Player::step() {
  if (misbehave()) return;
  switch (random_.below(16)) {
    case 0:
      return queues_->arm();
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
      return queues_->post_receives(1 + random_.below(8), memories_);
    case 6:
    case 7:
    case 8:
      queues_->take_completions();
      return;
    default:
      return queues_->post_sends(1 + random_.below(4), memories_,
                                 peer_.targets[random_.one_in(4) ? random_.below(Memories::kTargets) : 0]);
  }
}

void Player::add_taken(Taken& sum) const {
  sum += queues_->taken();
  sum += taken_;
}

}  // namespace verbatim::fuzz
