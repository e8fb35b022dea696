// SPDX-License-Identifier: MIT
#include "device/connectx/prm/handlers.h"

namespace verbatim::prm {

const CommandTable& command_table() {
  static const CommandTable table{
      general_commands(),          capability_commands(), domain_commands(),       port_commands(),
      register_commands(),         qp_commands(),         key_commands(),          event_queue_commands(),
      completion_queue_commands(), work_queue_commands(), scheduling_commands(),   counter_commands(),
      steering_commands(),         raw_queue_commands(),  user_context_commands(), dct_commands(),
      protection_commands(),
  };
  return table;
}

}  // namespace verbatim::prm
