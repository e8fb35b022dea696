// SPDX-License-Identifier: MIT
// Calls that the library has and no device of this release can do: they say EOPNOTSUPP. abi/missing.txt lists
// them.
//
// The public header is left out, so that one form serves whatever a call takes.
#include <cerrno>

#define EXPORTED extern "C" __attribute__((visibility("default")))
/// Returns the error.
#define REFUSE(name) \
  EXPORTED int name() { return EOPNOTSUPP; }
/// Returns a pointer.
#define REFUSE_POINTER(name) \
  EXPORTED void* name() {    \
    errno = EOPNOTSUPP;      \
    return nullptr;          \
  }
/// Returns a number, -1 on failure.
#define REFUSE_NUMBER(name) \
  EXPORTED long name() {    \
    errno = EOPNOTSUPP;     \
    return -1;              \
  }
/// Takes what could not be made here.
#define REFUSE_QUIETLY(name) \
  EXPORTED void name() {}

// Cryptography.
REFUSE(mlx5dv_crypto_login)
REFUSE_POINTER(mlx5dv_crypto_login_create)
REFUSE(mlx5dv_crypto_login_destroy)
REFUSE(mlx5dv_crypto_login_query)
REFUSE(mlx5dv_crypto_login_query_state)
REFUSE(mlx5dv_crypto_logout)
REFUSE_POINTER(mlx5dv_dek_create)
REFUSE(mlx5dv_dek_destroy)
REFUSE(mlx5dv_dek_query)

// DEVX.
REFUSE_POINTER(mlx5dv_devx_alloc_msi_vector)
REFUSE_POINTER(mlx5dv_devx_alloc_uar)
REFUSE(mlx5dv_devx_cq_modify)
REFUSE(mlx5dv_devx_cq_query)
REFUSE_POINTER(mlx5dv_devx_create_cmd_comp)
REFUSE_POINTER(mlx5dv_devx_create_eq)
REFUSE_POINTER(mlx5dv_devx_create_event_channel)
REFUSE_QUIETLY(mlx5dv_devx_destroy_cmd_comp)
REFUSE(mlx5dv_devx_destroy_eq)
REFUSE_QUIETLY(mlx5dv_devx_destroy_event_channel)
REFUSE(mlx5dv_devx_free_msi_vector)
REFUSE_QUIETLY(mlx5dv_devx_free_uar)
REFUSE(mlx5dv_devx_general_cmd)
REFUSE(mlx5dv_devx_get_async_cmd_comp)
REFUSE_NUMBER(mlx5dv_devx_get_event)
REFUSE(mlx5dv_devx_ind_tbl_modify)
REFUSE(mlx5dv_devx_ind_tbl_query)
REFUSE_POINTER(mlx5dv_devx_obj_create)
REFUSE(mlx5dv_devx_obj_destroy)
REFUSE(mlx5dv_devx_obj_export)
REFUSE_POINTER(mlx5dv_devx_obj_import)
REFUSE(mlx5dv_devx_obj_modify)
REFUSE(mlx5dv_devx_obj_query)
REFUSE(mlx5dv_devx_obj_query_async)
REFUSE_QUIETLY(mlx5dv_devx_obj_unimport)
REFUSE(mlx5dv_devx_qp_modify)
REFUSE(mlx5dv_devx_qp_query)
REFUSE(mlx5dv_devx_query_eqn)
REFUSE(mlx5dv_devx_srq_modify)
REFUSE(mlx5dv_devx_srq_query)
REFUSE(mlx5dv_devx_subscribe_devx_event)
REFUSE(mlx5dv_devx_subscribe_devx_event_fd)
REFUSE_NUMBER(mlx5dv_devx_uar_export_dmabuf_fd)
REFUSE(mlx5dv_devx_umem_dereg)
REFUSE(mlx5dv_devx_umem_export)
REFUSE_POINTER(mlx5dv_devx_umem_import)
REFUSE_POINTER(mlx5dv_devx_umem_reg)
REFUSE_POINTER(mlx5dv_devx_umem_reg_ex)
REFUSE_QUIETLY(mlx5dv_devx_umem_unimport)
REFUSE(mlx5dv_devx_wq_modify)
REFUSE(mlx5dv_devx_wq_query)
REFUSE_POINTER(mlx5dv_dr_action_create_dest_devx_tir)

// Emulation doorbells.
REFUSE_POINTER(mlx5dv_alloc_var)
REFUSE_QUIETLY(mlx5dv_free_var)
REFUSE(mlx5dv_var_export)
REFUSE_POINTER(mlx5dv_var_import)
REFUSE_QUIETLY(mlx5dv_var_unimport)

// Flow steering.
REFUSE_POINTER(__mlx5dv_create_flow)
REFUSE_POINTER(mlx5dv_create_flow)
REFUSE_POINTER(mlx5dv_create_flow_action_esp)
REFUSE_POINTER(mlx5dv_create_flow_action_modify_header)
REFUSE_POINTER(mlx5dv_create_flow_action_packet_reformat)
REFUSE_POINTER(mlx5dv_create_flow_matcher)
REFUSE_POINTER(mlx5dv_create_steering_anchor)
REFUSE(mlx5dv_destroy_flow_matcher)
REFUSE(mlx5dv_destroy_steering_anchor)

// Memory keys.
REFUSE(_mlx5dv_mkey_check)
REFUSE_POINTER(mlx5dv_create_mkey)
REFUSE(mlx5dv_destroy_mkey)

// Others.
REFUSE_QUIETLY(_mlx5dv_get_export_sizes)
REFUSE(_mlx5dv_query_port)
REFUSE_POINTER(mlx5dv_alloc_dm)
REFUSE_POINTER(mlx5dv_create_wq)
REFUSE(mlx5dv_dci_stream_id_reset)
REFUSE_POINTER(mlx5dv_dm_map_op_addr)
REFUSE(mlx5dv_get_data_direct_sysfs_path)
REFUSE(mlx5dv_map_ah_to_qp)
REFUSE(mlx5dv_modify_qp_lag_port)
REFUSE(mlx5dv_modify_qp_udp_sport)
REFUSE(mlx5dv_qp_cancel_posted_send_wrs)
REFUSE(mlx5dv_query_qp_lag_port)
REFUSE_POINTER(mlx5dv_reg_dmabuf_mr)
REFUSE(mlx5dv_reserved_qpn_alloc)
REFUSE(mlx5dv_reserved_qpn_dealloc)
REFUSE(mlx5dv_set_context_attr)

// Packet pacing.
REFUSE_POINTER(mlx5dv_pp_alloc)
REFUSE_QUIETLY(mlx5dv_pp_free)

// Schedulers.
REFUSE(mlx5dv_modify_qp_sched_elem)
REFUSE_POINTER(mlx5dv_sched_leaf_create)
REFUSE(mlx5dv_sched_leaf_destroy)
REFUSE(mlx5dv_sched_leaf_modify)
REFUSE_POINTER(mlx5dv_sched_node_create)
REFUSE(mlx5dv_sched_node_destroy)
REFUSE(mlx5dv_sched_node_modify)

// Software steering.
REFUSE_POINTER(mlx5dv_dr_action_create_aso)
REFUSE_POINTER(mlx5dv_dr_action_create_default_miss)
REFUSE_POINTER(mlx5dv_dr_action_create_dest_array)
REFUSE_POINTER(mlx5dv_dr_action_create_dest_ib_port)
REFUSE_POINTER(mlx5dv_dr_action_create_dest_ibv_qp)
REFUSE_POINTER(mlx5dv_dr_action_create_dest_root_table)
REFUSE_POINTER(mlx5dv_dr_action_create_dest_table)
REFUSE_POINTER(mlx5dv_dr_action_create_dest_vport)
REFUSE_POINTER(mlx5dv_dr_action_create_drop)
REFUSE_POINTER(mlx5dv_dr_action_create_flow_counter)
REFUSE_POINTER(mlx5dv_dr_action_create_flow_meter)
REFUSE_POINTER(mlx5dv_dr_action_create_flow_sampler)
REFUSE_POINTER(mlx5dv_dr_action_create_modify_header)
REFUSE_POINTER(mlx5dv_dr_action_create_packet_reformat)
REFUSE_POINTER(mlx5dv_dr_action_create_pop_vlan)
REFUSE_POINTER(mlx5dv_dr_action_create_push_vlan)
REFUSE_POINTER(mlx5dv_dr_action_create_tag)
REFUSE(mlx5dv_dr_action_destroy)
REFUSE(mlx5dv_dr_action_modify_aso)
REFUSE(mlx5dv_dr_action_modify_flow_meter)
REFUSE(mlx5dv_dr_aso_other_domain_link)
REFUSE(mlx5dv_dr_aso_other_domain_unlink)
REFUSE_QUIETLY(mlx5dv_dr_domain_allow_duplicate_rules)
REFUSE_POINTER(mlx5dv_dr_domain_create)
REFUSE(mlx5dv_dr_domain_destroy)
REFUSE_QUIETLY(mlx5dv_dr_domain_set_reclaim_device_memory)
REFUSE(mlx5dv_dr_domain_sync)
REFUSE_POINTER(mlx5dv_dr_matcher_create)
REFUSE(mlx5dv_dr_matcher_destroy)
REFUSE(mlx5dv_dr_matcher_set_layout)
REFUSE_POINTER(mlx5dv_dr_rule_create)
REFUSE(mlx5dv_dr_rule_destroy)
REFUSE_POINTER(mlx5dv_dr_table_create)
REFUSE(mlx5dv_dr_table_destroy)
REFUSE(mlx5dv_dump_dr_domain)
REFUSE(mlx5dv_dump_dr_matcher)
REFUSE(mlx5dv_dump_dr_rule)
REFUSE(mlx5dv_dump_dr_table)

// VFIO.
REFUSE_POINTER(mlx5dv_get_vfio_device_list)
REFUSE_NUMBER(mlx5dv_vfio_get_events_fd)
REFUSE(mlx5dv_vfio_process_events)
