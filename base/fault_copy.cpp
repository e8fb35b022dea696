// SPDX-License-Identifier: MIT
#include "base/fault_copy.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/first_faults.h"
#include "base/store_trap.h"
#include "base/trapped_memory.h"

#if defined(__x86_64__)
// The only instructions here that touch a program's buffers. A fault between verbatim_guarded_begin and
// verbatim_guarded_end goes on at verbatim_guarded_fault. All are leaf code without stack use, so that the
// return address is on top of the stack wherever the fault happens.
asm(R"(
    .text
    .p2align 6
    .hidden verbatim_guarded_begin, verbatim_guarded_end, verbatim_guarded_fault
    .hidden verbatim_guarded_copy, verbatim_guarded_add, verbatim_guarded_swap
    .hidden verbatim_guarded_fold_wide, verbatim_guarded_fold_double
    .globl verbatim_guarded_begin, verbatim_guarded_end, verbatim_guarded_fault
    .globl verbatim_guarded_copy, verbatim_guarded_add, verbatim_guarded_swap
    .globl verbatim_guarded_fold_wide, verbatim_guarded_fold_double
    .type verbatim_guarded_copy, @function
    .type verbatim_guarded_add, @function
    .type verbatim_guarded_swap, @function
    .type verbatim_guarded_fold_wide, @function
    .type verbatim_guarded_fold_double, @function
verbatim_guarded_begin:
verbatim_guarded_copy:                      # (to rdi, from rsi, length rdx) -> 1
    cmp     $16, %rdx
    ja      3f
    cmp     $8, %rdx
    jae     2f
    cmp     $4, %rdx
    jae     1f
    test    %rdx, %rdx
    je      9f
0:  mov     (%rsi), %al
    mov     %al, (%rdi)
    inc     %rsi
    inc     %rdi
    dec     %rdx
    jne     0b
    jmp     9f
1:  mov     (%rsi), %eax
    mov     -4(%rsi,%rdx), %ecx
    mov     %eax, (%rdi)
    mov     %ecx, -4(%rdi,%rdx)
    jmp     9f
2:  mov     (%rsi), %rax
    mov     -8(%rsi,%rdx), %rcx
    mov     %rax, (%rdi)
    mov     %rcx, -8(%rdi,%rdx)
    jmp     9f
3:  cmp     $32, %rdx
    ja      4f
    movdqu  (%rsi), %xmm0
    movdqu  -16(%rsi,%rdx), %xmm1
    movdqu  %xmm0, (%rdi)
    movdqu  %xmm1, -16(%rdi,%rdx)
    jmp     9f
4:  cmp     $1024, %rdx
    ja      6f
5:  cmp     $32, %rdx
    jbe     7f
    movdqu  (%rsi), %xmm0
    movdqu  16(%rsi), %xmm1
    movdqu  %xmm0, (%rdi)
    movdqu  %xmm1, 16(%rdi)
    add     $32, %rsi
    add     $32, %rdi
    sub     $32, %rdx
    jmp     5b
7:  movdqu  -32(%rsi,%rdx), %xmm0
    movdqu  -16(%rsi,%rdx), %xmm1
    movdqu  %xmm0, -32(%rdi,%rdx)
    movdqu  %xmm1, -16(%rdi,%rdx)
    jmp     9f
6:  test    $15, %dil                       # movsb is slow where the destination is not aligned
    jne     8f
    mov     %rdx, %rcx
    rep movsb
    jmp     9f
8:  movdqu  (%rsi), %xmm0
    movdqu  16(%rsi), %xmm1
    movdqu  32(%rsi), %xmm2
    movdqu  48(%rsi), %xmm3
    movdqu  %xmm0, (%rdi)
    movdqu  %xmm1, 16(%rdi)
    movdqu  %xmm2, 32(%rdi)
    movdqu  %xmm3, 48(%rdi)
    add     $64, %rsi
    add     $64, %rdi
    sub     $64, %rdx
    cmp     $96, %rdx
    ja      8b
    jmp     5b
9:  mov     $1, %eax
    ret
verbatim_guarded_add:                       # (word rdi, add rsi, old rdx) -> 1
    lock xaddq %rsi, (%rdi)
    mov     %rsi, (%rdx)
    mov     $1, %eax
    ret
verbatim_guarded_swap:                      # (word rdi, compare rsi, swap rdx, old rcx) -> 1
    mov     %rsi, %rax
    lock cmpxchgq %rdx, (%rdi)
    mov     %rax, (%rcx)
    mov     $1, %eax
    ret
verbatim_guarded_fold_wide:                 # (to rdi, from rsi, blocks rdx, sums rcx) -> 1
    vmovdqa64 256(%rcx), %zmm4
    vmovd   320(%rcx), %xmm5
    vmovdqu64 (%rsi), %zmm0
    vmovdqu64 64(%rsi), %zmm1
    vmovdqu64 128(%rsi), %zmm2
    vmovdqu64 192(%rsi), %zmm3
    vmovdqu64 %zmm0, (%rdi)
    vmovdqu64 %zmm1, 64(%rdi)
    vmovdqu64 %zmm2, 128(%rdi)
    vmovdqu64 %zmm3, 192(%rdi)
    vpxorq  %zmm5, %zmm0, %zmm0
    jmp     1f
0:  vmovdqu64 (%rsi), %zmm16
    vmovdqu64 64(%rsi), %zmm17
    vmovdqu64 128(%rsi), %zmm18
    vmovdqu64 192(%rsi), %zmm19
    vmovdqu64 %zmm16, (%rdi)
    vmovdqu64 %zmm17, 64(%rdi)
    vmovdqu64 %zmm18, 128(%rdi)
    vmovdqu64 %zmm19, 192(%rdi)
    vpclmulqdq $0x00, %zmm4, %zmm0, %zmm20
    vpclmulqdq $0x11, %zmm4, %zmm0, %zmm0
    vpclmulqdq $0x00, %zmm4, %zmm1, %zmm21
    vpclmulqdq $0x11, %zmm4, %zmm1, %zmm1
    vpclmulqdq $0x00, %zmm4, %zmm2, %zmm22
    vpclmulqdq $0x11, %zmm4, %zmm2, %zmm2
    vpclmulqdq $0x00, %zmm4, %zmm3, %zmm23
    vpclmulqdq $0x11, %zmm4, %zmm3, %zmm3
    vpternlogq $0x96, %zmm16, %zmm20, %zmm0
    vpternlogq $0x96, %zmm17, %zmm21, %zmm1
    vpternlogq $0x96, %zmm18, %zmm22, %zmm2
    vpternlogq $0x96, %zmm19, %zmm23, %zmm3
1:  add     $256, %rsi
    add     $256, %rdi
    dec     %rdx
    jne     0b
    vmovdqa64 %zmm0, (%rcx)
    vmovdqa64 %zmm1, 64(%rcx)
    vmovdqa64 %zmm2, 128(%rcx)
    vmovdqa64 %zmm3, 192(%rcx)
    vzeroupper
    mov     $1, %eax
    ret
verbatim_guarded_fold_double:               # the same by blocks of 128 bytes
    vmovdqa 256(%rcx), %ymm4
    vmovd   320(%rcx), %xmm5
    vmovdqu (%rsi), %ymm0
    vmovdqu 32(%rsi), %ymm1
    vmovdqu 64(%rsi), %ymm2
    vmovdqu 96(%rsi), %ymm3
    vmovdqu %ymm0, (%rdi)
    vmovdqu %ymm1, 32(%rdi)
    vmovdqu %ymm2, 64(%rdi)
    vmovdqu %ymm3, 96(%rdi)
    vpxor   %ymm5, %ymm0, %ymm0
    jmp     1f
0:  vmovdqu (%rsi), %ymm8
    vmovdqu 32(%rsi), %ymm9
    vmovdqu 64(%rsi), %ymm10
    vmovdqu 96(%rsi), %ymm11
    vmovdqu %ymm8, (%rdi)
    vmovdqu %ymm9, 32(%rdi)
    vmovdqu %ymm10, 64(%rdi)
    vmovdqu %ymm11, 96(%rdi)
    vpclmulqdq $0x00, %ymm4, %ymm0, %ymm12
    vpclmulqdq $0x11, %ymm4, %ymm0, %ymm0
    vpclmulqdq $0x00, %ymm4, %ymm1, %ymm13
    vpclmulqdq $0x11, %ymm4, %ymm1, %ymm1
    vpclmulqdq $0x00, %ymm4, %ymm2, %ymm14
    vpclmulqdq $0x11, %ymm4, %ymm2, %ymm2
    vpclmulqdq $0x00, %ymm4, %ymm3, %ymm15
    vpclmulqdq $0x11, %ymm4, %ymm3, %ymm3
    vpxor   %ymm8, %ymm12, %ymm12
    vpxor   %ymm9, %ymm13, %ymm13
    vpxor   %ymm10, %ymm14, %ymm14
    vpxor   %ymm11, %ymm15, %ymm15
    vpxor   %ymm12, %ymm0, %ymm0
    vpxor   %ymm13, %ymm1, %ymm1
    vpxor   %ymm14, %ymm2, %ymm2
    vpxor   %ymm15, %ymm3, %ymm3
1:  add     $128, %rsi
    add     $128, %rdi
    dec     %rdx
    jne     0b
    vmovdqa %ymm0, (%rcx)
    vmovdqa %ymm1, 64(%rcx)
    vmovdqa %ymm2, 128(%rcx)
    vmovdqa %ymm3, 192(%rcx)
    vzeroupper
    mov     $1, %eax
    ret
verbatim_guarded_end:
verbatim_guarded_fault:
    cld
    xor     %eax, %eax
    ret
    .size verbatim_guarded_copy, verbatim_guarded_add - verbatim_guarded_copy
)");

extern "C" {
extern const char verbatim_guarded_begin[], verbatim_guarded_end[], verbatim_guarded_fault[];
int verbatim_guarded_copy(void* to, const void* from, size_t length);
int verbatim_guarded_add(uint64_t* word, uint64_t add, uint64_t* old);
int verbatim_guarded_swap(uint64_t* word, uint64_t compare, uint64_t swap, uint64_t* old);
int verbatim_guarded_fold_wide(void* to, const void* from, size_t blocks, verbatim::FoldedSums* sums);
int verbatim_guarded_fold_double(void* to, const void* from, size_t blocks, verbatim::FoldedSums* sums);
}
#endif

namespace verbatim {

namespace {

std::atomic<bool> guarded{false};

// Where a sandbox forbids process_vm_readv even on ourselves, bytes go through a pipe: its ends report bad
// addresses too. Never waits: a page at most lies in a pipe of its own.
bool pipe_copy(void* to, const void* from, size_t length) {
  constexpr size_t kAtOnce = 4096;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  bool done = true;
  while (done && length > 0) {
    const ssize_t sent = write(ends[1], from, std::min(length, kAtOnce));
    done = sent > 0 && read(ends[0], to, static_cast<size_t>(sent)) == sent;
    if (!done) break;
    to = static_cast<char*>(to) + sent;
    from = static_cast<const char*>(from) + sent;
    length -= static_cast<size_t>(sent);
  }
  close(ends[0]);
  close(ends[1]);
  return done;
}

// Copies through the kernel, which reports a bad address instead of raising a signal.
bool kernel_copy(void* to, const void* from, size_t length) {
  while (length > 0) {
    const iovec here{to, length}, there{const_cast<void*>(from), length};
    const ssize_t moved = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    if (moved < 0 && errno != EFAULT) return pipe_copy(to, from, length);
    if (moved <= 0) return false;
    to = static_cast<char*>(to) + moved;
    from = static_cast<const char*>(from) + moved;
    length -= static_cast<size_t>(moved);
  }
  return true;
}

// True when the word can be read and written just now.
bool kernel_probe(uint64_t* word) {
  uint64_t value;
  if (!kernel_copy(&value, word, sizeof value)) return false;
  // futex(FUTEX_WAKE_OP) updates a word in the kernel, atomically, and reports EFAULT: adding 0 changes
  // nothing.
  uint32_t dummy = 0;
  return syscall(SYS_futex, &dummy, FUTEX_WAKE_OP, 0, 0, word,
                 FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)) >= 0;
}

#if defined(__x86_64__)

struct sigaction earlier_segv, earlier_bus;
const FirstFaults* first_faults = nullptr;  ///< where these faults come here first for good

int kernel_action(int signal, const struct sigaction* wanted, struct sigaction* before) {
  return first_faults ? first_faults->kernel_action(signal, wanted, before)
                      : sigaction(signal, wanted, before);
}

struct sigaction next_action(int signal) {
  struct sigaction next = signal == SIGBUS ? earlier_bus : earlier_segv;
  if (first_faults) first_faults->program_action(signal, &next);
  return next;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction earlier = next_action(signal);
  const bool sent = info->si_code <= 0;  // by somebody: there is no instruction that faults again
  if (!(earlier.sa_flags & SA_SIGINFO) && earlier.sa_handler == SIG_IGN && sent) return;
  if (!(earlier.sa_flags & SA_SIGINFO) && (earlier.sa_handler == SIG_DFL || earlier.sa_handler == SIG_IGN)) {
    // The instruction faults again on return, and then meets the default.
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    kernel_action(signal, &plain, nullptr);
    if (sent) raise(signal);
    return;
  }
  // What the kernel would have blocked for it.
  sigset_t before, wanted = earlier.sa_mask;
  if (!(earlier.sa_flags & SA_NODEFER)) sigaddset(&wanted, signal);
  pthread_sigmask(SIG_BLOCK, &wanted, &before);
  if (earlier.sa_flags & SA_SIGINFO)
    earlier.sa_sigaction(signal, info, context);
  else
    earlier.sa_handler(signal);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  auto& pc = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  const char* at = reinterpret_cast<const char*>(pc);
  if (info->si_code > 0 && at >= verbatim_guarded_begin && at < verbatim_guarded_end) {
    pc = reinterpret_cast<greg_t>(verbatim_guarded_fault);
    return;
  }
  const int kept = errno;
  const bool carried_out =
      signal == SIGSEGV && (carry_out_store(*info, context) || carry_out_trapped(*info, context));
  errno = kept;
  if (carried_out) return;
  pass_on(signal, info, context);
}

bool ours(int signal) {
  struct sigaction now {};
  return kernel_action(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
         now.sa_sigaction == on_fault;
}

#endif

}  // namespace

void install_fault_guard() {
#if defined(__x86_64__)
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    if (void* offered = dlsym(RTLD_DEFAULT, kClaimFaults))
      first_faults = reinterpret_cast<ClaimFaults>(offered)(&action);
    guarded = first_faults || (sigaction(SIGSEGV, &action, &earlier_segv) == 0 &&
                               sigaction(SIGBUS, &action, &earlier_bus) == 0);
  });
#endif
}

void refresh_fault_guard() {
#if defined(__x86_64__)
  guarded.store(ours(SIGSEGV) && ours(SIGBUS), std::memory_order_relaxed);
#endif
}

bool sees_faults_first() {
#if defined(__x86_64__)
  return first_faults != nullptr && ours(SIGSEGV);
#else
  return false;
#endif
}

bool fault_guard_works() { return guarded.load(std::memory_order_relaxed); }

bool fault_copy(void* to, const void* from, size_t length) {
#if defined(__x86_64__)
  if (guarded.load(std::memory_order_relaxed)) return verbatim_guarded_copy(to, from, length) != 0;
#endif
  return kernel_copy(to, from, length);
}

#if defined(__x86_64__)
bool fault_copy_folding_wide(void* to, const void* from, size_t blocks, FoldedSums& sums) {
  return verbatim_guarded_fold_wide(to, from, blocks, &sums) != 0;
}

bool fault_copy_folding_double(void* to, const void* from, size_t blocks, FoldedSums& sums) {
  return verbatim_guarded_fold_double(to, from, blocks, &sums) != 0;
}
#endif

bool fault_fetch_add(uint64_t* address, uint64_t add, uint64_t* old) {
#if defined(__x86_64__)
  if (guarded.load(std::memory_order_relaxed)) return verbatim_guarded_add(address, add, old) != 0;
#endif
  if (!kernel_probe(address)) return false;
  *old = __atomic_fetch_add(address, add, __ATOMIC_SEQ_CST);
  return true;
}

bool fault_compare_swap(uint64_t* address, uint64_t compare, uint64_t swap, uint64_t* old) {
#if defined(__x86_64__)
  if (guarded.load(std::memory_order_relaxed)) return verbatim_guarded_swap(address, compare, swap, old) != 0;
#endif
  if (!kernel_probe(address)) return false;
  *old = compare;
  __atomic_compare_exchange_n(address, old, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return true;
}

}  // namespace verbatim
