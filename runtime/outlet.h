// SPDX-License-Identifier: MIT
#pragma once

#include <thread>

#include "engine/engine.h"
#include "engine/port.h"

namespace verbatim::runtime {

/// Ethernet frames between a device's port and a network outside: a TAP device or a packet socket
/// (agent/outlets.h). What comes in is read by a thread of its own, which sleeps until then, and handed to
/// all processes of this host; several processes read from one file, so that a frame is handed around once.
class Outlet final : public engine::FrameOutlet {
 public:
  /// Takes over the file. `engine` must outlive this.
  Outlet(int file, engine::Engine& engine);
  ~Outlet() override;
  /// False: the process may have no more threads.
  bool runs() const { return thread_.joinable(); }
  bool send(const wire::Piece* pieces, uint32_t count) override;
  /// In a forked child the thread does not exist: forgets it.
  void abandon();

 private:
  void run();
  /// A frame's bytes, 0: there is none, or none that fits.
  uint32_t read(uint8_t* frame);
  uint32_t read_packet(uint8_t* frame);

  const int file_;
  const int stop_;        ///< an eventfd
  const bool is_socket_;  ///< what it tells beside frames has to be put into them
  engine::Engine& engine_;
  std::thread thread_;
};

}  // namespace verbatim::runtime
