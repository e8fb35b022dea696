// SPDX-License-Identifier: MIT
#include "agent/port_view.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "agent/client.h"
#include "agent/gid_table.h"

namespace verbatim::agent {

Expected<PortView> port_view() {
  PortView view;
  Expected<int> socket = connect_agent();
  if (!socket && socket.error().code == ECONNREFUSED) {
    view.gids = gid_order(host_addresses(view.up));
    return view;
  }
  if (!socket) return socket.error();
  Request request{};
  request.ask = Ask::kDirectory;
  Answer answer{};
  int files[kFilesMax], count = 0;
  Outcome asked = ask_agent(*socket, request, answer, files, count);
  const auto directory = std::make_unique<Directory>();
  const bool whole = asked && count > 0 &&
                     pread(files[0], static_cast<void*>(directory.get()), sizeof *directory, 0) ==
                         static_cast<ssize_t>(sizeof *directory);
  close_files(files, count);
  close(*socket);
  if (!asked) return asked.error();
  if (!whole || directory->magic != Directory::kMagic)
    return Error{EPROTO, "the agent's directory is of another version"};
  view.up = directory->link_up != 0;
  for (size_t device = 0; device < view.settings.size(); device++)
    view.settings[device] = setting_of(directory->ports[device]);
  view.gids.assign(directory->gids, directory->gids + std::min<uint32_t>(directory->gid_count, kGidsMax));
  return view;
}

}  // namespace verbatim::agent
