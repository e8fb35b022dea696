// SPDX-License-Identifier: MIT
#pragma once
// Public face first; the rest follows with the implementation.
#include "engine/engine.h"

namespace verbatim::engine {

/// One queue pair: state machine, requester and responder.
class QueuePairControl {
public:
    virtual ~QueuePairControl() = default;
    virtual uint32_t number() const = 0;
    /// Checks the transition and attributes (IBA 10.3, ibv_modify_qp(3)) and makes it. EINVAL with the reason.
    virtual Outcome modify(const QpAttributes& attributes, uint32_t mask) = 0;
    virtual QpAttributes query() = 0;
    /// The send doorbell was rung: runs the requester on the calling thread.
    virtual void ring() = 0;
};

}  // namespace verbatim::engine
