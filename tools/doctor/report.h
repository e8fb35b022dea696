// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbatim::doctor {

enum class Verdict : uint8_t {
  kWell,
  kNote,     ///< worth knowing, keeps nobody from talking
  kProblem,  ///< as long as it is so, nobody talks
};

/// What one check found.
struct Finding {
  Verdict verdict = Verdict::kWell;
  std::string check;   ///< "route"
  std::string text;    ///< what is so
  std::string remedy;  ///< what to do about it; empty: nothing
};

/// The findings, in the order of the checks.
class Report {
 public:
  void well(std::string check, std::string text);
  void note(std::string check, std::string text, std::string remedy = {});
  void problem(std::string check, std::string text, std::string remedy);

  bool has_problem() const { return first_problem() != nullptr; }
  const Finding* first_problem() const;
  const std::vector<Finding>& findings() const { return findings_; }

 private:
  std::vector<Finding> findings_;
};

/// `host`: as it was given; empty: this one was asked about alone.
void print_words(const Report& report, const std::string& host);
void print_json(const Report& report, const std::string& host);

}  // namespace verbatim::doctor
