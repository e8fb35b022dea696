// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "agent/protocol.h"
#include "base/expected.h"
#include "wire/link/tap/board.h"

namespace verbatim::agent {

/// The rules that damage packets of the agent's processes, and the board that these see them on. Counts are
/// taken from the board, where any process may have written anything; the rules themselves are not.
class RuleService {
 public:
  RuleService() = default;
  ~RuleService();
  RuleService(const RuleService&) = delete;
  RuleService& operator=(const RuleService&) = delete;

  /// Makes the board. Rules of VERBATIM_INJECT are on it from the start. Errors: EINVAL they are wrong;
  /// ENOMEM and the like.
  Outcome prepare();
  /// A sealed memory file, which stays this object's.
  int board_file() const { return file_; }
  wire::tap::Board& board() { return *board_; }
  bool any() const { return !rules_.empty(); }
  /// Somebody has added rules, which are to stay when no process is there.
  bool any_added() const;

  static bool serves(Ask ask);
  /// Answers one of the requests that it serves. `returned`: the board of the agent before, with
  /// kReturnRules. The first that comes counts, unless somebody has changed rules since.
  Answer answer(const Request& request, int returned);

 private:
  Outcome add(const char* text, uint32_t& first);
  Outcome remove(uint32_t number);
  Outcome list(uint32_t after, Answer& answer) const;
  void take_back(int file);
  void take_counts();

  int file_ = -1;
  wire::tap::Board* board_ = nullptr;
  std::vector<wire::tap::NumberedRule> rules_;
  uint32_t next_number_ = 1;
  bool changed_ = false;  ///< since this agent started
};

}  // namespace verbatim::agent
