// SPDX-License-Identifier: MIT
// What happens to the device and its port from outside: the host's interfaces, whoever lets things happen on
// purpose, and a program that has the port for itself.
#include "device/connectx/connectx_hca.h"
#include "device/connectx/device_event.h"
#include "engine/queue_pair.h"

namespace verbatim::connectx {

// What happens to the host's interfaces does not concern a port that is none of them.
void ConnectxHca::port_event(hw::AsyncEvent event) {
  if (!port_.is_infiniband()) tell_of_port(event);
}

void ConnectxHca::take_port_setting() {
  const engine::PortSetting setting = engine_.host().port_setting(port_.device);
  if (!owns_port_) port_.down = setting.down;
  engine_.show_port(port_.device, setting.down);
  if (!port_.is_infiniband()) return;
  port_.lid = setting.lid ? setting.lid : first_lid_;
  take_pkeys(setting);
}

// What the port was made with comes first.
void ConnectxHca::take_pkeys(const engine::PortSetting& setting) {
  size_t made = 0;
  while (made < first_pkeys_.size() && first_pkeys_[made] != 0) made++;
  for (size_t i = 0; i < port_.pkeys.size(); i++)
    port_.pkeys[i] = i < made                          ? first_pkeys_[i]
                     : i - made < setting.pkeys.size() ? setting.pkeys[i - made]
                                                       : uint16_t{0};
}

void ConnectxHca::raise(hw::AsyncEvent event) {
  take_port_setting();
  {
    const std::lock_guard hold(lock_);
    for (QpObject* qp = qps_.first(); qp; qp = qp->next) {
      qp->queue_pair->take_port();
      if (event == hw::AsyncEvent::kDeviceFatal) qp->queue_pair->enter_error();
    }
  }
  tell_of_port(event);
}

void ConnectxHca::take_over_port(bool down) {
  owns_port_ = true;
  port_.down = down;
}

void ConnectxHca::train_link() {
  if (!owns_port_) return;
  if (!port_.down.exchange(false)) tell_of_port(hw::AsyncEvent::kPortError);
  tell_of_port(hw::AsyncEvent::kPortActive);
}

void ConnectxHca::tell_of_port(hw::AsyncEvent event) {
  sink_.on_async(event, nullptr);
  if (const auto told = connectx::port_event(event)) router_.raise(*told);
}

}  // namespace verbatim::connectx
