// SPDX-License-Identifier: MIT
#include "agent/history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "agent/own_folders.h"
#include "engine/published.h"
#include "wire/link/shm/layout.h"

namespace verbatim::agent {

namespace {

constexpr size_t kFilesKept = 16;

/// An explanation in the file.
struct Kept {
  static constexpr uint64_t kMagic = 0x5645524245585031;
  uint64_t magic;
  uint64_t time_ns;
  uint32_t pid, qpn, status, reserved;
  char program[32];
  char text[224];
};
static_assert(sizeof(Kept) == 288);

template <size_t size>
std::string text_of(const char (&field)[size]) {
  return std::string(field, strnlen(field, size));
}

template <size_t size>
void put_text(char (&field)[size], const std::string& text) {
  std::memcpy(field, text.data(), std::min(text.size(), size - 1));
}

// Agents of namespaces and names that are no more leave theirs behind: only the newest few stay.
void make_room(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    const fs::file_time_type time = entry->last_write_time(gone);
    if (!gone) files.emplace_back(time, entry->path());
  }
  std::sort(files.rbegin(), files.rend());
  for (size_t i = kFilesKept; i < files.size(); i++) fs::remove(files[i].second, error);
}

}  // namespace

std::vector<Explanation> read_reasons(int file, uint32_t pid) {
  std::vector<Explanation> found;
  constexpr size_t kBytes = offsetof(engine::Published, qps);
  const std::unique_ptr<char[]> copy(new char[kBytes]());
  if (pread(file, copy.get(), kBytes, wire::shm::kPage) != static_cast<ssize_t>(kBytes)) return found;
  const auto& header = *reinterpret_cast<const engine::PublishedHeader*>(copy.get());
  const auto* reasons =
      reinterpret_cast<const engine::Reason*>(copy.get() + offsetof(engine::Published, reasons));
  if (header.magic != engine::PublishedHeader::kMagic) return found;
  const std::string program = text_of(header.program);
  std::vector<std::pair<uint64_t, const engine::Reason*>> in_order;
  for (uint32_t i = 0; i < engine::kReasonsMax; i++)
    if (reasons[i].number != 0) in_order.emplace_back(reasons[i].number, &reasons[i]);
  std::sort(in_order.begin(), in_order.end());
  for (const auto& [number, reason] : in_order)
    found.push_back({reason->time_ns, pid, reason->qpn, reason->status, program, text_of(reason->text)});
  return found;
}

History::History(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  for (Explanation& each : load_history(path_)) kept_.push_back(std::move(each));
}

void History::add(std::vector<Explanation> reasons) {
  if (reasons.empty()) return;
  for (Explanation& reason : reasons) kept_.push_back(std::move(reason));
  while (kept_.size() > kMax) kept_.pop_front();
  if (!path_.empty()) store();
}

// Written beside and renamed: whoever reads sees the old one or the new one. Without room there is no file.
void History::store() const {
  std::vector<Kept> records(kept_.size(), Kept{});
  for (size_t i = 0; i < kept_.size(); i++) {
    Kept& record = records[i];
    const Explanation& each = kept_[i];
    record.magic = Kept::kMagic;
    record.time_ns = each.time_ns;
    record.pid = each.pid;
    record.qpn = each.qpn;
    record.status = each.status;
    put_text(record.program, each.program);
    put_text(record.text, each.text);
  }
  const std::string fresh = path_ + ".new";
  const int file = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return;
  const size_t bytes = records.size() * sizeof(Kept);
  const bool whole = write(file, records.data(), bytes) == static_cast<ssize_t>(bytes);
  close(file);
  if (!whole || rename(fresh.c_str(), path_.c_str()) != 0) unlink(fresh.c_str());
  make_room(std::filesystem::path(path_).parent_path());
}

std::string history_path(const std::string& agent) {
  const std::vector<std::string> folders = own_folders();
  if (folders.empty()) return "";
  struct stat space {};
  if (stat("/proc/self/ns/net", &space) != 0) space.st_ino = 0;
  std::string file = agent + "." + std::to_string(space.st_ino) + ".history";
  std::replace(file.begin(), file.end(), '/', '.');
  return folders.front() + "/" + file;
}

std::vector<Explanation> load_history(const std::string& path) {
  std::vector<Explanation> found;
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return found;
  struct stat status {};
  const bool mine = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
  std::vector<Kept> records(History::kMax);
  const ssize_t got = mine ? read(file, records.data(), records.size() * sizeof(Kept)) : 0;
  close(file);
  records.resize(got > 0 ? static_cast<size_t>(got) / sizeof(Kept) : 0);
  for (const Kept& record : records)
    if (record.magic == Kept::kMagic)
      found.push_back({record.time_ns, record.pid, record.qpn, record.status, text_of(record.program),
                       text_of(record.text)});
  return found;
}

}  // namespace verbatim::agent
