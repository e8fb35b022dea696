// SPDX-License-Identifier: MIT
#include "agent/rule_service.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

namespace verbatim::agent {

using wire::tap::Board;
using wire::tap::NumberedRule;
using wire::tap::Rule;

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

template <size_t size>
std::string text_of(const char (&field)[size]) {
  return std::string(field, strnlen(field, size));
}

}  // namespace

RuleService::~RuleService() {
  if (board_) munmap(board_, sizeof(Board));
  if (file_ >= 0) close(file_);
}

Outcome RuleService::prepare() {
  file_ = memfd_create("verbatim-rules", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file_ < 0 || ftruncate(file_, sizeof(Board)) != 0 || fcntl(file_, F_ADD_SEALS, kSeals) != 0)
    return Error{errno, "no memory for the board of rules"};
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) return Error{errno, "no memory for the board of rules"};
  board_ = new (memory) Board{};
  const std::string environment = wire::tap::environment_text();
  if (environment.size() >= sizeof board_->environment)
    return Error{EINVAL, "VERBATIM_INJECT is longer than " + std::to_string(sizeof board_->environment - 1) +
                             " bytes"};
  uint32_t first = 0;
  if (environment.empty()) return Done{};
  if (Outcome added = add(environment.c_str(), first); !added) return added;
  std::memcpy(board_->environment, environment.c_str(), environment.size() + 1);
  board_->environment_rules = next_number_ - 1;
  changed_ = false;
  return Done{};
}

bool RuleService::any_added() const {
  return !rules_.empty() && rules_.back().number > board_->environment_rules;
}

bool RuleService::serves(Ask ask) {
  return ask == Ask::kAddRules || ask == Ask::kListRules || ask == Ask::kRemoveRules ||
         ask == Ask::kReturnRules;
}

Answer RuleService::answer(const Request& request, int returned) {
  Answer answer{};
  answer.version = kVersion;
  Outcome done = Done{};
  if (request.ask == Ask::kAddRules)
    done = add(text_of(request.text).c_str(), answer.slot);
  else if (request.ask == Ask::kListRules)
    done = list(request.index, answer);
  else if (request.ask == Ask::kRemoveRules)
    done = remove(request.index);
  else
    take_back(returned);
  if (done) return answer;
  answer.error = done.error().code;
  std::strncpy(answer.text, done.error().reason.c_str(), sizeof answer.text - 1);
  return answer;
}

// What was counted since the rules were written is kept.
void RuleService::take_counts() {
  const std::vector<NumberedRule> counted = read_rules(*board_);
  for (size_t i = 0; i < std::min(counted.size(), rules_.size()); i++) {
    rules_[i].matched = counted[i].matched;
    rules_[i].picked = counted[i].picked;
  }
}

Outcome RuleService::add(const char* text, uint32_t& first) {
  Expected<std::vector<Rule>> parsed = wire::tap::parse_rules(text, wire::tap::random_seed());
  if (!parsed) return parsed.error();
  if (parsed->empty()) return Error{EINVAL, "there is no rule in it"};
  if (rules_.size() + parsed->size() > wire::tap::kRulesMax)
    return Error{ENOSPC, "there are at most " + std::to_string(wire::tap::kRulesMax) + " rules"};
  take_counts();
  first = next_number_;
  for (const Rule& rule : *parsed) rules_.push_back({next_number_++, rule});
  changed_ = true;
  write_rules(*board_, rules_);
  return Done{};
}

Outcome RuleService::remove(uint32_t number) {
  take_counts();
  const size_t before = rules_.size();
  std::erase_if(rules_, [number](const NumberedRule& each) { return number == 0 || each.number == number; });
  if (number != 0 && rules_.size() == before)
    return Error{ENOENT, "there is no rule " + std::to_string(number)};
  changed_ = true;
  write_rules(*board_, rules_);
  return Done{};
}

Outcome RuleService::list(uint32_t after, Answer& answer) const {
  const std::vector<NumberedRule> counted = read_rules(*board_);
  for (size_t i = 0; i < rules_.size(); i++) {
    if (rules_[i].number <= after) continue;
    answer.slot = rules_[i].number;
    answer.matched = i < counted.size() ? counted[i].matched : 0;
    answer.picked = i < counted.size() ? counted[i].picked : 0;
    std::strncpy(answer.text, text_of(rules_[i].rule).c_str(), sizeof answer.text - 1);
    return Done{};
  }
  return Error{ENOENT, "no more"};
}

void RuleService::take_back(int file) {
  struct stat status {};
  const int seals = fcntl(file, F_GET_SEALS);
  if (changed_ || seals < 0 || (seals & kSeals) != kSeals || fstat(file, &status) != 0 ||
      status.st_size != static_cast<off_t>(sizeof(Board)))
    return;
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return;
  const auto* former = static_cast<const Board*>(memory);
  rules_ = read_rules(*former);
  std::sort(rules_.begin(), rules_.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  for (const NumberedRule& each : rules_) next_number_ = std::max(next_number_, each.number + 1);
  std::memcpy(board_->environment, former->environment, sizeof board_->environment - 1);
  board_->environment_rules = former->environment_rules;
  munmap(memory, sizeof(Board));
  changed_ = true;
  write_rules(*board_, rules_);
}

}  // namespace verbatim::agent
