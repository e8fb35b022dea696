// SPDX-License-Identifier: MIT
#pragma once

// Events as event queue entries.

#include <cstdint>
#include <optional>

#include "abi/prm/events.h"
#include "device/hw/hca.h"

namespace verbatim::connectx {

/// A completion queue has something new.
hw::DeviceEvent completion_event(uint32_t cqn);

/// Something has happened to an object of that kind, as commands name it: "QP", "CQ", "SRQ", "RMP", "DCT" ...
hw::DeviceEvent object_event(prm::Event type, const char* kind, uint32_t number);

/// Which event the device raises for it; nullopt: none.
std::optional<prm::Event> event_type(hw::AsyncEvent event);

/// The port has gone up or down; nullopt: it is about something else.
std::optional<hw::DeviceEvent> port_event(hw::AsyncEvent event);

}  // namespace verbatim::connectx
