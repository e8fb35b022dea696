// SPDX-License-Identifier: MIT
#pragma once

// XRC receivers: queue pairs that several handles may be of, in one context or in several.

#include <vector>

#include "base/spinlock.h"
#include "lib/ibverbs/provider.h"

namespace verbatim::verbs {

/// An XRC receiver of this process. It ends with its last handle. The device knows it by an object of its
/// own, which no program sees.
struct XrcReceiver {
  QueuePair* behind = nullptr;  ///< that object; of the context that made the receiver
  XrcDomain* domain = nullptr;  ///< that it was made in
  uint64_t identity = 0;        ///< of that domain
  SpinLock lock;                ///< of the next; taken where events are raised
  std::vector<QueuePair*> handles;
};

/// Puts an XRC receiver that the provider has made behind a first handle; nullptr with errno set, and the
/// receiver is gone.
QueuePair* make_receiver(Context& context, QueuePair* behind, XrcDomain& domain);
/// Whether it was the last handle: the receiver is to be ended with it.
bool is_last_handle(QueuePair& handle);
/// The handle hears of nothing any more.
void leave_receiver(QueuePair& handle);
/// After its last handle has left.
void release_receiver(XrcReceiver* receiver);

}  // namespace verbatim::verbs
