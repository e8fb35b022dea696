// SPDX-License-Identifier: MIT
// The direct verbs of MANA. There is no MANA device in this release, and on a device of another kind these calls say so;
// the library is here because programs link it.
#include <cerrno>

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define REFUSE(name) \
  EXPORTED int name() { return EOPNOTSUPP; }

REFUSE(manadv_init_obj)
REFUSE(manadv_set_context_attr)
