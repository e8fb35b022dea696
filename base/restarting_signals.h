// SPDX-License-Identifier: MIT
#pragma once

namespace verbatim {

/// Whether a call that waits would go on after any signal that the program handles (SA_RESTART), faults
/// aside: poll(2) never does, and who uses it in place of read(2) has to ask.
bool signals_restart_calls();

}  // namespace verbatim
