// SPDX-License-Identifier: MIT
// Actions of rules: ESP, with what the drivers of mlx5 took of it: AES-GCM with 16 bytes of check value,
// inline.
#include "lib/ibverbs/flow_action.h"

#include <cerrno>
#include <cstring>
#include <new>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/operations.h"

namespace verbatim::verbs {
namespace {

constexpr uint32_t kCheckBytes = 16;
constexpr uint32_t kFlags = IBV_FLOW_ACTION_ESP_FLAGS_TRANSPORT | IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT |
                            IBV_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW;

/// Code 0, or why the options are beyond what is offered.
Error check(const ibv_flow_action_esp_attr& attributes) {
  if ((attributes.comp_mask & ~static_cast<uint32_t>(IBV_FLOW_ACTION_ESP_MASK_ESN)) != 0)
    return {EOPNOTSUPP, "unknown bits in comp_mask"};
  if (attributes.replay_proto != IBV_FLOW_ACTION_ESP_REPLAY_NONE || attributes.replay_ptr != nullptr ||
      attributes.esp_encap != nullptr)
    return {EOPNOTSUPP, "the device neither puts headers around packets nor looks for replayed ones"};
  if (attributes.esp_attr == nullptr) return {};
  const ibv_flow_action_esp& esp = *attributes.esp_attr;
  if ((esp.flags & ~kFlags) != 0 || esp.spi != 0 || esp.seq != 0 || esp.tfc_pad != 0 ||
      esp.hard_limit_pkts != 0)
    return {EOPNOTSUPP, "the device encrypts inline; headers are the program's"};
  return {};
}

Error read_key(const ibv_flow_action_esp_attr& attributes, hw::EspSpec& spec) {
  ibv_flow_action_esp_keymat_aes_gcm material;
  if (attributes.keymat_ptr == nullptr || attributes.keymat_len != sizeof material)
    return {EINVAL, "there is no key material of AES-GCM"};
  if (attributes.keymat_proto != IBV_FLOW_ACTION_ESP_KEYMAT_AES_GCM)
    return {EOPNOTSUPP, "the device knows AES-GCM alone"};
  std::memcpy(&material, attributes.keymat_ptr, sizeof material);
  if (material.key_len != 16 && material.key_len != 24 && material.key_len != 32)
    return {EINVAL, "AES keys have 16, 24 or 32 bytes"};
  if (material.key_len == 24 || material.icv_len != kCheckBytes ||
      material.iv_algo != IBV_FLOW_ACTION_IV_ALGO_SEQ)
    return {EOPNOTSUPP,
            "the device takes keys of 16 or 32 bytes, check values of 16, and vectors in sequence"};
  const auto* key = reinterpret_cast<const uint8_t*>(material.aes_key);
  spec.key.assign(key, key + material.key_len);
  std::memcpy(spec.salt.data(), &material.salt, spec.salt.size());
  return {};
}

Error read(const ibv_flow_action_esp_attr& attributes, hw::EspSpec& spec) {
  if (const Error refusal = check(attributes); refusal.code != 0) return refusal;
  if (attributes.esp_attr == nullptr) return {EINVAL, "there are no parameters of ESP"};
  const uint32_t flags = attributes.esp_attr->flags;
  spec.encrypts = (flags & IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT) != 0;
  spec.new_window = (flags & IBV_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW) != 0;
  spec.extended = (attributes.comp_mask & IBV_FLOW_ACTION_ESP_MASK_ESN) != 0;
  spec.sequence_high = spec.extended ? attributes.esn : 0;
  if (spec.new_window && !spec.extended)
    return {EINVAL, "a window is of extended sequence numbers, which are not asked for"};
  return read_key(attributes, spec);
}

ibv_flow_action* create_esp(ibv_context* public_context, ibv_flow_action_esp_attr* attributes) {
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  const auto refused = [context](int code, const std::string& why) {
    return refuse_pointer(*context, code, "ibv_create_flow_action_esp: " + why);
  };
  if (context->hca->limits().max_frame_bytes == 0)
    return refused(EOPNOTSUPP, "actions are of Ethernet frames, which this port does not take");
  hw::EspSpec spec;
  if (const Error refusal = read(*attributes, spec); refusal.code != 0)
    return refused(refusal.code, refusal.reason);
  auto made = context->hca->create_esp_action(spec);
  if (!made) return refused(made.error().code, made.error().reason);
  auto* action = new (std::nothrow) EspFlowAction;
  if (action == nullptr) return refused(ENOMEM, "no memory for an action");
  action->device = std::move(*made);
  action->base.context = public_context;
  return &action->base;
}

int modify_esp(ibv_flow_action* public_action, ibv_flow_action_esp_attr* attributes) {
  Context& context = *Context::of(public_action->context);
  const auto refused = [&context](int code, const std::string& why) {
    return refuse(context, code, "ibv_modify_flow_action_esp: " + why);
  };
  if (const Error refusal = check(*attributes); refusal.code != 0)
    return refused(refusal.code, refusal.reason);
  if (attributes->keymat_ptr != nullptr) return refused(EOPNOTSUPP, "the key stays");
  if ((attributes->comp_mask & IBV_FLOW_ACTION_ESP_MASK_ESN) == 0)
    return refused(EINVAL, "nothing but the extended sequence number changes");
  const bool new_window = attributes->esp_attr != nullptr &&
                          (attributes->esp_attr->flags & IBV_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW) != 0;
  if (Outcome changed = EspFlowAction::of(public_action)->device->change(attributes->esn, new_window);
      !changed)
    return refused(changed.error().code, changed.error().reason);
  return 0;
}

int destroy_action(ibv_flow_action* public_action) {
  EspFlowAction* action = EspFlowAction::of(public_action);
  Context& context = *Context::of(public_action->context);
  if (action->flows != 0 && !context.abandoned)
    return refuse(context, EBUSY, "ibv_destroy_flow_action: rules still use the action");
  delete action;
  return 0;
}

}  // namespace

void install_flow_action_operations(verbs_context& verbs) {
  verbs.create_flow_action_esp = create_esp;
  verbs.modify_flow_action_esp = modify_esp;
  verbs.destroy_flow_action = destroy_action;
}

}  // namespace verbatim::verbs
