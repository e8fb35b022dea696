// SPDX-License-Identifier: MIT
#include "tools/doctor/report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/survey.h"

namespace verbatim::doctor {

namespace {

using nlohmann::json;
using tools::printable;

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kWell:
      return "well";
    case Verdict::kNote:
      return "note";
    case Verdict::kProblem:
      return "problem";
  }
  return "?";
}

std::string conclusion(const Report& report, const std::string& host) {
  const std::string others = host.empty() ? "other hosts" : host;
  if (const Finding* problem = report.first_problem())
    return "this host and " + others + " cannot talk: " + problem->text;
  return host.empty() ? "this host is ready to talk; name another one to look at the way to it"
                      : "this host and " + host + " can talk";
}

}  // namespace

void Report::well(std::string check, std::string text) {
  findings_.push_back({Verdict::kWell, std::move(check), std::move(text), {}});
}

void Report::note(std::string check, std::string text, std::string remedy) {
  findings_.push_back({Verdict::kNote, std::move(check), std::move(text), std::move(remedy)});
}

void Report::problem(std::string check, std::string text, std::string remedy) {
  findings_.push_back({Verdict::kProblem, std::move(check), std::move(text), std::move(remedy)});
}

const Finding* Report::first_problem() const {
  const auto found = std::find_if(findings_.begin(), findings_.end(),
                                  [](const Finding& each) { return each.verdict == Verdict::kProblem; });
  return found == findings_.end() ? nullptr : &*found;
}

void print_words(const Report& report, const std::string& host) {
  for (const Finding& each : report.findings()) {
    std::printf("%-8s %-10s %s\n", name_of(each.verdict), each.check.c_str(), printable(each.text).c_str());
    if (!each.remedy.empty()) std::printf("%-8s %-10s -> %s\n", "", "", printable(each.remedy).c_str());
  }
  std::printf("\n%s\n", printable(conclusion(report, host)).c_str());
}

void print_json(const Report& report, const std::string& host) {
  json out = {{"host", host},
              {"can_talk", !report.has_problem()},
              {"conclusion", conclusion(report, host)},
              {"findings", json::array()}};
  for (const Finding& each : report.findings())
    out["findings"].push_back({{"verdict", name_of(each.verdict)},
                               {"check", each.check},
                               {"text", each.text},
                               {"remedy", each.remedy}});
  std::printf("%s\n", out.dump(2, ' ', false, json::error_handler_t::replace).c_str());
}

}  // namespace verbatim::doctor
