// SPDX-License-Identifier: MIT
#include "device/connectx/device_event.h"

#include <string_view>

#include "device/connectx/prm/view.h"

namespace verbatim::connectx {

namespace {

using prm::Eqe;
using prm::Event;
using prm::EventAuto;
using prm::Writer;

/// What a number in the event of a queue is the number of.
constexpr uint32_t kOfQp = 0, kOfRq = 1, kOfSq = 2, kOfDct = 6;
/// Sub-types of a change of the port.
constexpr uint32_t kPortDown = 1, kPortActive = 4, kLid = 6, kPkey = 7, kReregister = 9;
constexpr uint32_t kPort = 1;
constexpr uint32_t kOverflow = 1;  ///< syndrome of a completion queue

uint32_t queue_code(std::string_view kind) {
  if (kind == "RQ") return kOfRq;
  if (kind == "SQ") return kOfSq;
  return kind == "DCT" ? kOfDct : kOfQp;
}

hw::DeviceEvent begin(Event type, const char* kind, uint32_t number) {
  hw::DeviceEvent event;
  event.type = static_cast<uint16_t>(type);
  event.kind = kind;
  event.number = number;
  Writer<Eqe>(event.entry).set(Eqe::event_type, type);
  return event;
}

Writer<EventAuto> data_of(hw::DeviceEvent& event) { return Writer<Eqe>(event.entry)[Eqe::event_data]; }

uint32_t sub_type(hw::AsyncEvent change) {
  if (change == hw::AsyncEvent::kPortActive) return kPortActive;
  if (change == hw::AsyncEvent::kLidChange) return kLid;
  if (change == hw::AsyncEvent::kPkeyChange) return kPkey;
  return change == hw::AsyncEvent::kClientReregister ? kReregister : kPortDown;
}

}  // namespace

hw::DeviceEvent completion_event(uint32_t cqn) {
  hw::DeviceEvent event = begin(Event::kCompletionEvents, "CQ", cqn);
  data_of(event)[EventAuto::comp_event].set(prm::CompEvent::cq_number, cqn);
  return event;
}

hw::DeviceEvent object_event(Event type, const char* kind, uint32_t number) {
  hw::DeviceEvent event = begin(type, kind, number);
  if (type == Event::kCqError) {
    const auto data = data_of(event)[EventAuto::cq_error];
    data.set(prm::CqError::cqn, number);
    data.set(prm::CqError::syndrome, kOverflow);
    return event;
  }
  const auto data = data_of(event)[EventAuto::qp_events];
  data.set(prm::QpEvents::type, queue_code(kind));
  data.set(prm::QpEvents::qpn_rqn_sqn, number);
  return event;
}

std::optional<Event> event_type(hw::AsyncEvent event) {
  switch (event) {
    case hw::AsyncEvent::kCqError:
      return Event::kCqError;
    case hw::AsyncEvent::kQpFatal:
      return Event::kLocalWqCatastrophicError;
    case hw::AsyncEvent::kQpRequestError:
      return Event::kInvalidRequestLocalWqError;
    case hw::AsyncEvent::kQpAccessError:
      return Event::kLocalAccessViolationWqError;
    case hw::AsyncEvent::kCommEstablished:
      return Event::kCommunicationEstablished;
    case hw::AsyncEvent::kSqDrained:
      return Event::kSendQueueDrained;
    case hw::AsyncEvent::kPathMigrated:
      return Event::kPathMigratedSucceeded;
    case hw::AsyncEvent::kPathMigrateError:
      return Event::kPathMigrationFailed;
    case hw::AsyncEvent::kSrqError:
      return Event::kLocalSrqCatastrophicError;
    case hw::AsyncEvent::kSrqLimitReached:
      return Event::kSrqLimit;
    case hw::AsyncEvent::kQpLastWqeReached:
      return Event::kLastWqeReached;
    case hw::AsyncEvent::kPortActive:
    case hw::AsyncEvent::kPortError:
    case hw::AsyncEvent::kLidChange:
    case hw::AsyncEvent::kPkeyChange:
    case hw::AsyncEvent::kClientReregister:
      return Event::kPortStateChange;
    case hw::AsyncEvent::kTargetDrained:
      return Event::kDctAllConnectionsClosed;
    case hw::AsyncEvent::kTargetKeyViolation:
      return Event::kDctAccessKeyViolation;
    // A port's addresses are the host's, and its manager's LID comes with a request to register again.
    case hw::AsyncEvent::kSmChange:
    case hw::AsyncEvent::kGidChange:
    case hw::AsyncEvent::kDeviceFatal:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<hw::DeviceEvent> port_event(hw::AsyncEvent what) {
  if (event_type(what) != Event::kPortStateChange) return std::nullopt;
  hw::DeviceEvent event = begin(Event::kPortStateChange, "", 0);
  Writer<Eqe>(event.entry).set(Eqe::event_sub_type, sub_type(what));
  data_of(event)[EventAuto::port_state_change_event].set(prm::PortStateChangeEvent::port_num, kPort);
  return event;
}

}  // namespace verbatim::connectx
