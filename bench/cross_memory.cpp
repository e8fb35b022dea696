// SPDX-License-Identifier: MIT
// What the kernel itself gives between two processes: the references of bench/run.sh.
// usage: cross_memory write|read BYTES ITERATIONS   prints MiB/s
//        cross_memory pingpong BYTES ITERATIONS     prints microseconds of one way
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void* pages(size_t bytes, int kind) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::exit(1);
  std::memset(at, 1, bytes);
  return at;
}

bool copy(bool write, pid_t peer, void* mine, void* its, size_t bytes) {
  const iovec local{mine, bytes}, remote{its, bytes};
  const ssize_t copied = write ? process_vm_writev(peer, &local, 1, &remote, 1, 0)
                               : process_vm_readv(peer, &local, 1, &remote, 1, 0);
  return copied == static_cast<ssize_t>(bytes);
}

int bandwidth(bool write, size_t bytes, size_t iterations) {
  void* mine = pages(bytes, MAP_PRIVATE);
  int ready[2], done[2];
  if (pipe(ready) != 0 || pipe(done) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    std::memset(mine, 2, bytes);  // pages of its own, at the same address
    char byte = 0;
    close(done[1]);
    if (::write(ready[1], &byte, 1) != 1) _exit(1);
    _exit(::read(done[0], &byte, 1) == 0 ? 0 : 1);
  }
  char byte;
  if (::read(ready[0], &byte, 1) != 1) return 1;
  for (size_t i = 0; i < iterations / 10 + 1; i++)
    if (!copy(write, child, mine, mine, bytes)) return 1;
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < iterations; i++)
    if (!copy(write, child, mine, mine, bytes)) return 1;
  const double seconds = seconds_since(begin);
  close(done[1]);
  waitpid(child, nullptr, 0);
  std::printf("%.2f\n", double(bytes) * double(iterations) / seconds / (1 << 20));
  return 0;
}

// Each side writes into the other's private page and spins on its own.
int pingpong(size_t bytes, size_t iterations) {
  auto* cell = static_cast<volatile uint8_t*>(pages(bytes, MAP_PRIVATE));
  auto* out = static_cast<uint8_t*>(pages(bytes, MAP_PRIVATE));
  cell[bytes - 1] = 0;
  const pid_t parent = getpid();
  const pid_t child = fork();
  const pid_t peer = child == 0 ? parent : child;
  auto exchange = [&](size_t i, bool first) {
    const auto value = static_cast<uint8_t>(i % 250 + 1);
    out[bytes - 1] = value;
    void* its = const_cast<uint8_t*>(cell);
    if (first && !copy(true, peer, out, its, bytes)) _exit(1);
    while (cell[bytes - 1] != value) {
    }
    if (!first && !copy(true, peer, out, its, bytes)) _exit(1);
  };
  if (child == 0) {
    for (size_t i = 0; i < iterations; i++) exchange(i, false);
    _exit(0);
  }
  std::vector<double> taken(iterations);
  for (size_t i = 0; i < iterations; i++) {
    const auto begin = std::chrono::steady_clock::now();
    exchange(i, true);
    taken[i] = seconds_since(begin);
  }
  waitpid(child, nullptr, 0);
  std::nth_element(taken.begin(), taken.begin() + long(iterations / 2), taken.end());
  std::printf("%.3f\n", taken[iterations / 2] / 2 * 1e6);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) {
    std::fprintf(stderr, "usage: cross_memory write|read|pingpong BYTES ITERATIONS\n");
    return 2;
  }
  const std::string what = words[1];
  const size_t bytes = std::strtoull(words[2], nullptr, 0);
  const size_t iterations = std::strtoull(words[3], nullptr, 0);
  if (bytes == 0 || iterations == 0) return 2;
  if (what == "pingpong") return pingpong(bytes, iterations);
  return bandwidth(what == "write", bytes, iterations);
}
