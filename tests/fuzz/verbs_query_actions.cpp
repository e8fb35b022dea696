// SPDX-License-Identifier: MIT
// What can be asked of devices and ports, names, events, and opening devices once more.
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "lib/ibverbs/undeclared.h"
#include "tests/fuzz/verbs_player.h"

namespace verbatim::fuzz {

namespace {

/// A record of the caller's, exactly as large as it says.
struct Sized {
  explicit Sized(size_t size) : bytes(size), memory(std::make_unique<std::byte[]>(size)) {}
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(memory.get());
  }
  size_t bytes;
  std::unique_ptr<std::byte[]> memory;
};

void query_device(Player& p) {
  ibv_device_attr attr{};
  p.took("ibv_query_device", ibv_query_device(p.common.context, &attr));
  Sized record(p.arguments.odd() ? p.below(sizeof(ibv_device_attr_ex) + 64) : sizeof(ibv_device_attr_ex));
  const ibv_query_device_ex_input input{p.arguments.number<uint32_t>(0)};
  verbs_context* verbs = verbs_get_ctx_op(p.common.context, query_device_ex);
  p.expect(verbs != nullptr, "no query_device_ex");
  p.took("ibv_query_device_ex", verbs->query_device_ex(p.common.context, p.one_in(2) ? &input : nullptr,
                                                       record.as<ibv_device_attr_ex>(), record.bytes));
}

void query_port(Player& p) {
  const auto port = p.arguments.number<uint8_t>(1);
  ibv_port_attr attr{};
  p.took("ibv_query_port",
         (ibv_query_port)(p.common.context, port, reinterpret_cast<_compat_ibv_port_attr*>(&attr)));
  Sized record(p.arguments.odd() ? p.below(sizeof(ibv_port_attr) + 16) : sizeof(ibv_port_attr));
  verbs_context* verbs = verbs_get_ctx_op(p.common.context, query_port);
  p.took("ibv_query_port",
         verbs->query_port(p.common.context, port, record.as<ibv_port_attr>(), record.bytes));
  uint64_t speed = 0;
  p.took("ibv_query_port_speed",
         ibv_query_port_speed(p.common.context, p.arguments.number<uint32_t>(1), &speed));
  ibv_values_ex values{};
  values.comp_mask = p.arguments.number<uint32_t>(IBV_VALUES_MASK_RAW_CLOCK);
  p.took("ibv_query_rt_values_ex", ibv_query_rt_values_ex(p.common.context, &values));
  ibv_comp_cntr_caps caps{};
  p.took("ibv_query_comp_cntr_caps", ibv_query_comp_cntr_caps(p.common.context, &caps));
}

void query_gids(Player& p) {
  const auto port = p.arguments.number<uint8_t>(1);
  const int index = p.arguments.number<int>(static_cast<int>(p.below(4)));
  ibv_gid gid{};
  p.took_or_minus("ibv_query_gid", ibv_query_gid(p.common.context, port, index, &gid));
  errno = 0;
  ibv_gid_type_sysfs type{};
  p.took_or_minus("ibv_query_gid_type",
                  ibv_query_gid_type(p.common.context, port, static_cast<unsigned>(index), &type));
  Sized record(p.arguments.odd() ? p.below(sizeof(ibv_gid_entry) + 8) : sizeof(ibv_gid_entry));
  p.took("ibv_query_gid_ex",
         _ibv_query_gid_ex(p.common.context, port, static_cast<uint32_t>(index), record.as<ibv_gid_entry>(),
                           p.arguments.number<uint32_t>(0), record.bytes));
  const uint32_t entries = p.arguments.odd() ? p.below(3) : 256;
  Sized table(entries * record.bytes);
  const ssize_t count = _ibv_query_gid_table(p.common.context, table.as<ibv_gid_entry>(), entries,
                                             p.arguments.number<uint32_t>(0), record.bytes);
  p.note("ibv_query_gid_table", count >= 0, static_cast<int>(-count));
  p.expect(count <= static_cast<ssize_t>(entries), "ibv_query_gid_table: more than there was room for");
}

void query_pkeys(Player& p) {
  __be16 key = 0;
  errno = 0;
  p.took_or_minus("ibv_query_pkey", ibv_query_pkey(p.common.context, p.arguments.number<uint8_t>(1),
                                                   p.arguments.number<int>(0), &key));
  const int index = ibv_get_pkey_index(p.common.context, p.arguments.number<uint8_t>(1),
                                       p.arguments.number<uint16_t>(0xffff));
  p.note("ibv_get_pkey_index", index >= 0, EINVAL);
}

/// Which must be there for every value.
void names(Player& p) {
  const int value = p.arguments.number<int>(static_cast<int>(p.below(24)));
  const char* const all[] = {ibv_wc_status_str(static_cast<ibv_wc_status>(value)),
                             ibv_wr_opcode_str(static_cast<ibv_wr_opcode>(value)),
                             ibv_node_type_str(static_cast<ibv_node_type>(value)),
                             ibv_port_state_str(static_cast<ibv_port_state>(value)),
                             ibv_event_type_str(static_cast<ibv_event_type>(value)),
                             ibv_get_device_name(p.common.context->device)};
  for (const char* name : all) p.expect(name != nullptr && std::strlen(name) < 128, "a value without a name");
  const int mult = ibv_rate_to_mult(static_cast<ibv_rate>(value));
  const int mbps = ibv_rate_to_mbps(static_cast<ibv_rate>(value));
  p.expect(mult >= -1 && mbps >= -1, "a rate that is none");
  p.expect(mult_to_ibv_rate(value) >= IBV_RATE_MAX && mbps_to_ibv_rate(value) >= IBV_RATE_MAX, "no rate");
  p.note("ibv_wc_status_str", true, 0);
}

void get_async_event(Player& p) {
  ibv_async_event event{};
  if (!p.took_or_minus("ibv_get_async_event", ibv_get_async_event(p.common.context, &event))) return;
  const bool of_cq = event.event_type == IBV_EVENT_CQ_ERR;
  const bool of_srq =
      event.event_type == IBV_EVENT_SRQ_ERR || event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED;
  const bool of_qp =
      event.event_type <= IBV_EVENT_PATH_MIG_ERR || event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
  if (p.common.alone) {
    p.expect(!of_cq || p.cqs.has(event.element.cq), "an event of no completion queue");
    p.expect(!of_srq || p.srqs.has(event.element.srq), "an event of no shared receive queue");
    p.expect(of_cq || !of_qp || p.qps.has(event.element.qp), "an event of no queue pair");
  }
  ibv_ack_async_event(&event);
}

/// A context of its own with an object or two, closed after them.
void open_again(Player& p) {
  int count = 0;
  ibv_device** list = p.made("ibv_get_device_list", ibv_get_device_list(&count));
  if (list == nullptr) return;
  ibv_device* device = list[p.below(static_cast<uint32_t>(count))];
  p.expect(ibv_get_device_index(device) >= -1, "ibv_get_device_index");
  ibv_context* context = p.made("ibv_open_device", ibv_open_device(device));
  ibv_free_device_list(list);
  if (context == nullptr) return;
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);
  p.expect(cq == nullptr || ibv_destroy_cq(cq) == 0, "ibv_destroy_cq");
  p.expect(pd == nullptr || ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
  p.took("ibv_close_device", ibv_close_device(context));
}

void import_device(Player& p) {
  const int file = p.arguments.number<int>(p.one_in(2) ? p.common.context->cmd_fd : p.common.file);
  // It becomes the context's own.
  const int copy = dup(file);
  errno = 0;
  ibv_context* context = p.made("ibv_import_device", ibv_import_device(copy));
  if (context != nullptr)
    p.took("ibv_close_device", ibv_close_device(context));
  else if (copy >= 0)
    close(copy);
}

/// No descriptor is left for a while: nothing may break but what needs one.
void run_out_of_files(Player& p) {
  rlimit usual{};
  if (!p.common.alone || getrlimit(RLIMIT_NOFILE, &usual) != 0) return;
  const rlimit none{3, usual.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  for (uint32_t i = p.below(6); i != 0; i--) p.step();
  setrlimit(RLIMIT_NOFILE, &usual);
}

constexpr Action kActions[] = {
    {query_device, 3},     {query_port, 3}, {query_gids, 3},    {query_pkeys, 2},      {names, 1},
    {get_async_event, 12}, {open_again, 1}, {import_device, 1}, {run_out_of_files, 1},
};

}  // namespace

std::span<const Action> query_actions() { return kActions; }

}  // namespace verbatim::fuzz
