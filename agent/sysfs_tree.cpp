// SPDX-License-Identifier: MIT
#include "agent/sysfs_tree.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>

#include "agent/own_folders.h"

namespace verbatim::agent {

namespace {

namespace fs = std::filesystem;

constexpr const char* kTree = "sys-";
constexpr const char* kUnfinished = ".sys-";
constexpr const char* kStamp = ".stamp";
constexpr int kHoldAttempts = 20;
constexpr timespec kBetweenAttempts{0, 2'000'000};

std::string unique_name() {
  static std::atomic<unsigned> count{0};
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return kUnfinished + std::to_string(getpid()) + "-" + std::to_string(count.fetch_add(1)) + "-" +
         std::to_string(now.tv_nsec);
}

// FNV-1a, also over what separates the parts.
uint64_t hash(const std::string& text, uint64_t from = 0xcbf29ce484222325) {
  for (const char each : text + '\n') from = (from ^ static_cast<unsigned char>(each)) * 0x100000001b3;
  return from;
}

std::string hexadecimal(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016lx", static_cast<unsigned long>(value));
  return text;
}

std::string stamp_of(const std::vector<SysfsEntry>& entries) {
  uint64_t value = hash("1");
  for (const SysfsEntry& entry : entries) {
    const bool counter = entry.kind == SysfsEntry::Kind::kCounter;
    value = hash(counter ? "" : entry.text, hash(entry.path, value) + static_cast<uint64_t>(entry.kind));
  }
  return hexadecimal(value);
}

std::string read_small(const std::string& path) {
  char text[4096];
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return "";
  const ssize_t got = read(file, text, sizeof text);
  close(file);
  return std::string(text, got > 0 ? static_cast<size_t>(got) : 0);
}

// Written beside and renamed, so that readers find the old contents or the new.
bool write_file(const std::string& root, const std::string& path, const std::string& text,
                mode_t mode = 0444) {
  const std::string fresh = root + "/" + unique_name();
  const int file = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (file < 0) return false;
  bool done = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (close(file) != 0) done = false;
  done = done && rename(fresh.c_str(), path.c_str()) == 0;
  if (!done) unlink(fresh.c_str());
  return done;
}

// Makes an entry that is no file of its own, in place of what has its name: readers find the one or the
// other.
template <class Make>
bool put(const std::string& root, const std::string& path, const Make& make) {
  if (make(path) == 0) return true;
  if (errno != EEXIST) return false;
  const std::string fresh = root + "/" + unique_name();
  const bool done = make(fresh) == 0 && rename(fresh.c_str(), path.c_str()) == 0;
  const int why = errno;
  unlink(fresh.c_str());  // which is still there, too, if both are names of one file
  errno = why;
  return done;
}

bool write_entry(const std::string& root, const SysfsEntry& entry) {
  const std::string path = root + "/" + entry.path;
  switch (entry.kind) {
    case SysfsEntry::Kind::kFolder:
      return mkdir(path.c_str(), 0755) == 0 || errno == EEXIST;
    case SysfsEntry::Kind::kLink: {
      char target[512];
      const ssize_t length = readlink(path.c_str(), target, sizeof target);
      if (length >= 0 && entry.text == std::string(target, static_cast<size_t>(length))) return true;
      return put(root, path, [&](const std::string& at) { return symlink(entry.text.c_str(), at.c_str()); });
    }
    case SysfsEntry::Kind::kTwin: {
      const std::string twin = root + "/" + entry.text;
      struct stat here {
      }, there{};
      if (lstat(twin.c_str(), &there) != 0) return false;
      if (lstat(path.c_str(), &here) == 0 && here.st_ino == there.st_ino) return true;
      return put(root, path, [&](const std::string& at) { return link(twin.c_str(), at.c_str()); });
    }
    case SysfsEntry::Kind::kFile:
      return read_small(path) == entry.text || write_file(root, path, entry.text);
    case SysfsEntry::Kind::kCounter:  // not opened: the agent may hold it (counter_service.h)
      return access(path.c_str(), F_OK) == 0 || write_file(root, path, entry.text, 0644);
  }
  return false;
}

// What an earlier state had and this one has not, such as a GID's type.
void remove_others(const std::string& root, const std::vector<SysfsEntry>& entries) {
  std::set<std::string> wanted;
  for (const SysfsEntry& entry : entries) wanted.insert(root + "/" + entry.path);
  std::error_code error;
  std::vector<fs::path> others;
  for (fs::recursive_directory_iterator at(root, error), end; !error && at != end; at.increment(error))
    if (at->path().filename().native()[0] != '.' && !wanted.contains(at->path().native()))
      others.push_back(at->path());
  for (const fs::path& path : others) fs::remove_all(path, error);
}

bool write_all(const std::string& root, const std::vector<SysfsEntry>& entries) {
  const std::string stamp = stamp_of(entries);
  if (read_small(root + "/" + kStamp) == stamp) return true;
  bool whole = true;
  for (const SysfsEntry& entry : entries) whole = write_entry(root, entry) && whole;
  remove_others(root, entries);
  return whole && write_file(root, root + "/" + kStamp, stamp);
}

// A lock on a folder that is still the one of that name; -1: there is none (ENOENT), or somebody holds it
// otherwise.
int lock_folder(const std::string& path, int kind) {
  const int file = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return -1;
  struct stat here {
  }, there{};
  if (flock(file, kind | LOCK_NB) == 0 && fstat(file, &here) == 0 && lstat(path.c_str(), &there) == 0 &&
      here.st_ino == there.st_ino && here.st_dev == there.st_dev)
    return file;
  close(file);
  errno = EBUSY;
  return -1;
}

// Away from its name first: whoever looks for it meanwhile makes another one.
void remove_unless_held(const fs::path& path) {
  const int file = lock_folder(path, LOCK_EX);
  if (file < 0) return;
  const fs::path gone = path.parent_path() / unique_name();
  std::error_code error;
  fs::rename(path, gone, error);
  if (!error) fs::remove_all(gone, error);
  close(file);
}

void sweep(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> trees;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (name.starts_with(kTree) || name.starts_with(kUnfinished)) trees.push_back(at->path());
  }
  for (const fs::path& path : trees) remove_unless_held(path);
}

}  // namespace

std::unique_ptr<SysfsTree> SysfsTree::hold(const std::string& root) {
  for (int attempt = 0; attempt < kHoldAttempts; attempt++) {
    const int file = lock_folder(root, LOCK_SH);
    if (file >= 0) return std::unique_ptr<SysfsTree>(new SysfsTree(root, file));
    if (errno != EBUSY) return nullptr;
    nanosleep(&kBetweenAttempts, nullptr);
  }
  return nullptr;
}

// Made under another name, so that nobody meets half a tree; the lock stays with the folder.
std::unique_ptr<SysfsTree> SysfsTree::build(const std::string& folder, const std::string& root,
                                            const std::vector<SysfsEntry>& entries) {
  const std::string fresh = folder + "/" + unique_name();
  if (mkdir(fresh.c_str(), 0755) != 0) return nullptr;
  const int file = lock_folder(fresh, LOCK_SH);
  if (file >= 0 && write_all(fresh, entries) && rename(fresh.c_str(), root.c_str()) == 0)
    return std::unique_ptr<SysfsTree>(new SysfsTree(root, file));
  const int why = errno;
  if (file >= 0) close(file);
  remove_unless_held(fresh);
  errno = why;
  return nullptr;
}

Expected<std::unique_ptr<SysfsTree>> SysfsTree::publish(const std::string& key,
                                                        const std::vector<SysfsEntry>& entries) {
  int why = ENOENT;
  for (const std::string& folder : own_folders()) {
    sweep(folder);
    const std::string root = folder + "/" + kTree + hexadecimal(hash(key));
    std::unique_ptr<SysfsTree> tree = hold(root);
    if (!tree) tree = build(folder, root, entries);
    if (!tree) why = errno;
    if (!tree) tree = hold(root);  // somebody else has made it meanwhile
    if (tree && tree->refresh(entries)) return tree;
  }
  return Error{why, "no folder takes the tree that stands in for /sys"};
}

bool SysfsTree::refresh(const std::vector<SysfsEntry>& entries) { return write_all(root_, entries); }

// The descriptor first: a child of a fork shares its lock, and goes on holding the tree.
SysfsTree::~SysfsTree() {
  close(file_);
  remove_unless_held(root_);
}

void sweep_sysfs_trees() {
  for (const std::string& folder : own_folders()) sweep(folder);
}

}  // namespace verbatim::agent
