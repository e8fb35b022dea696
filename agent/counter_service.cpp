// SPDX-License-Identifier: MIT
#include "agent/counter_service.h"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "agent/history.h"

namespace verbatim::agent {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kRefreshNs = 5'000'000;  ///< of a file that a reader has open
constexpr uint64_t kSumsForNs = 1'000'000;  ///< at least; where summing takes long, ten times that
constexpr size_t kFilesMax = 4096;

/// Its inode; 0: it is none of this user's.
uint64_t own_folder(const std::string& path) {
  struct stat status {};
  const bool own = lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
  return own ? status.st_ino : 0;
}

// "uverbs3": the fourth device of the list.
bool place_of(const std::string& name, uint32_t& device) {
  constexpr const char* kPrefix = "uverbs";
  if (!name.starts_with(kPrefix)) return false;
  const char* begin = name.c_str() + std::strlen(kPrefix);
  const auto [end, error] = std::from_chars(begin, name.c_str() + name.size(), device);
  return error == std::errc() && *end == 0 && end != begin && device < engine::kPortsShown;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

CounterService::CounterService(std::string path, std::function<void(HostSums&)> add_living)
    : path_(std::move(path)), add_living_(std::move(add_living)), gone_(load_sums(path_)) {}

CounterService::~CounterService() {
  for (Tree& tree : trees_)
    for (Counter& counter : tree.counters) {
      if (counter.leased) write(counter);
      close(counter.file);
    }
  if (signals_ >= 0) close(signals_);
}

// Of this thread alone: others of the process, where there are some, do not block the signal.
bool CounterService::prepare() {
  if (signals_ >= 0) return true;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGIO);
  if (pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) return false;
  signals_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  return signals_ >= 0;
}

Outcome CounterService::serve(const std::string& root) {
  forget_removed();
  const auto same = [&root](const Tree& tree) { return tree.root == root; };
  if (std::any_of(trees_.begin(), trees_.end(), same)) return Done{};
  const uint64_t inode = root.starts_with('/') ? own_folder(root) : 0;
  if (inode == 0) return Error{EINVAL, "it is no tree of this user's"};
  if (!prepare()) return Error{errno, "signals of files could not be had"};
  Tree tree{root, inode, {}};
  std::error_code error;
  for (fs::directory_iterator at(root + "/class/infiniband_verbs", error), end; !error && at != end;
       at.increment(error)) {
    uint32_t device = 0;
    if (place_of(at->path().filename(), device))
      add_device(tree, root + "/class/infiniband/" + first_line(at->path() / "ibdev"), device);
  }
  trees_.push_back(std::move(tree));
  for (Counter& counter : trees_.back().counters) {
    write(counter);
    counter.leased = lease(counter);
  }
  wait_for_closing();
  return Done{};
}

void CounterService::add_device(Tree& tree, const std::string& folder, uint32_t device) {
  size_t open_files = tree.counters.size();
  for (const Tree& each : trees_) open_files += each.counters.size();
  for (const CounterFile& what : counter_files()) {
    if (open_files++ >= kFilesMax) return;
    const int file = open((folder + "/ports/1/" + what.path).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) continue;
    tree.counters.push_back({file, device, &what});
  }
}

// False: somebody has it open, or there are no leases here.
bool CounterService::lease(Counter& counter) const {
  const f_owner_ex owner{F_OWNER_TID, static_cast<pid_t>(syscall(SYS_gettid))};
  return fcntl(counter.file, F_SETOWN_EX, &owner) == 0 && fcntl(counter.file, F_SETLEASE, F_WRLCK) == 0;
}

// In place: a reader has the file. What it reads is the old number or the new one, as one call writes it.
void CounterService::write(Counter& counter) {
  const uint64_t value = counter.what->value(sums()[counter.device]);
  if (value == counter.written) return;
  char text[24];
  const int length = std::snprintf(text, sizeof text, "%lu\n", static_cast<unsigned long>(value));
  if (pwrite(counter.file, text, static_cast<size_t>(length), 0) != length) return;
  if (value < counter.written) (void)!ftruncate(counter.file, length);
  counter.written = value;
}

void CounterService::let_readers_in() {
  signalfd_siginfo told;
  while (read(signals_, &told, sizeof told) == static_cast<ssize_t>(sizeof told)) {
  }
  for (Tree& tree : trees_)
    for (Counter& counter : tree.counters) {
      if (!counter.leased || fcntl(counter.file, F_GETLEASE) == F_WRLCK) continue;
      write(counter);
      fcntl(counter.file, F_SETLEASE, F_UNLCK);
      counter.leased = false;
    }
  wait_for_closing();
}

void CounterService::wait_for_closing() {
  refresh_at_ns_ = kNever;
  for (const Tree& tree : trees_)
    for (const Counter& counter : tree.counters)
      if (!counter.leased) refresh_at_ns_ = clock_.now_ns() + kRefreshNs;
}

void CounterService::step(uint64_t now_ns) {
  if (now_ns < refresh_at_ns_) return;
  for (Tree& tree : trees_)
    for (Counter& counter : tree.counters) {
      if (counter.leased) continue;
      counter.leased = lease(counter);
      if (!counter.leased) write(counter);
    }
  wait_for_closing();
}

void CounterService::forget_removed() {
  std::erase_if(trees_, [](Tree& tree) {
    if (own_folder(tree.root) == tree.inode) return false;
    for (const Counter& counter : tree.counters) close(counter.file);
    return true;
  });
  wait_for_closing();
}

void CounterService::process_gone(int published_file) {
  add_counts(published_file, gone_);
  store_sums(path_, gone_);
  sums_for_ns_ = 0;
}

const HostSums& CounterService::sums() {
  const uint64_t now_ns = clock_.now_ns();
  if (summed_at_ns_ != 0 && now_ns < summed_at_ns_ + sums_for_ns_) return sums_;
  sums_ = gone_;
  add_living_(sums_);
  summed_at_ns_ = clock_.now_ns();
  sums_for_ns_ = std::max(kSumsForNs, (summed_at_ns_ - now_ns) * 10);
  return sums_;
}

std::string sums_path(const std::string& agent) {
  std::string path = history_path(agent);
  if (const size_t dot = path.rfind('.'); dot != std::string::npos)
    path.replace(dot, std::string::npos, ".counters");
  return path;
}

}  // namespace verbatim::agent
