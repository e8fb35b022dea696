// SPDX-License-Identifier: MIT
#pragma once

// The contexts that are open, and the objects of each that have function pointers of their own: what the
// child of a fork has to make harmless.

#include "lib/ibverbs/provider.h"

namespace verbatim::verbs {

/// The context of an object if calls on it can work: nullptr, and errno EIO, in the child of a fork, and when
/// the device has failed.
Context* usable(ibv_context* context);
/// The same also when the device has failed: its events are still told.
Context* still_there(ibv_context* context);
/// As usable(), with an errno value: 0 or EIO.
int check_usable(ibv_context* context);

void add_context(Context& context);
void remove_context(Context& context);
void add_object(Context& context, CompletionQueue& cq);
void remove_object(CompletionQueue& cq);
void add_object(Context& context, QueuePair& qp);
void remove_object(QueuePair& qp);

}  // namespace verbatim::verbs
