# SPDX-License-Identifier: MIT
# The shared libraries of the interface: file versions and package versions as in the release that Verbatim
# follows, public headers and what their programs link besides. A library that no folder builds yet costs nothing.

set(VERBATIM_IBVERBS_VERSION 1.18.${VERBATIM_ABI_RELEASE})
set(VERBATIM_RDMACM_VERSION 1.5.${VERBATIM_ABI_RELEASE})
set(VERBATIM_MLX5_VERSION 1.27.${VERBATIM_ABI_RELEASE})
set(VERBATIM_MLX4_VERSION 1.0.${VERBATIM_ABI_RELEASE})
set(VERBATIM_EFA_VERSION 1.7.${VERBATIM_ABI_RELEASE})
set(VERBATIM_HNS_VERSION 1.0.${VERBATIM_ABI_RELEASE})
set(VERBATIM_MANA_VERSION 1.0.${VERBATIM_ABI_RELEASE})
set(VERBATIM_RPMA_VERSION 0.0.0)
set(VERBATIM_RPMA_PACKAGE_VERSION 1.3.0)

set(VERBATIM_IBVERBS_DESCRIPTION "RDMA verbs in user space, without RDMA hardware")
set(VERBATIM_RDMACM_DESCRIPTION "RDMA connection manager and sockets over RDMA")
set(VERBATIM_MLX5_DESCRIPTION "Direct verbs of ConnectX devices")
set(VERBATIM_MLX4_DESCRIPTION "Direct verbs of ConnectX-3 devices")
set(VERBATIM_EFA_DESCRIPTION "Direct verbs of EFA devices")
set(VERBATIM_HNS_DESCRIPTION "Direct verbs of HNS devices")
set(VERBATIM_MANA_DESCRIPTION "Direct verbs of MANA devices")
set(VERBATIM_RPMA_DESCRIPTION "Remote persistent memory access")

set(VERBATIM_IBVERBS_HEADERS
  infiniband/ib_user_ioctl_verbs.h infiniband/opcode.h infiniband/sa.h infiniband/tm_types.h
  infiniband/verbs.h infiniband/verbs_api.h)
set(VERBATIM_RDMACM_HEADERS infiniband/ib.h rdma/rdma_cma.h rdma/rdma_verbs.h rdma/rsocket.h)
set(VERBATIM_MLX5_HEADERS infiniband/mlx5_api.h infiniband/mlx5_user_ioctl_verbs.h infiniband/mlx5dv.h)
set(VERBATIM_MLX4_HEADERS infiniband/mlx4dv.h)
set(VERBATIM_EFA_HEADERS infiniband/efadv.h)
set(VERBATIM_HNS_HEADERS infiniband/hnsdv.h)
set(VERBATIM_MANA_HEADERS infiniband/manadv.h)
set(VERBATIM_RPMA_HEADERS librpma.h)

set(VERBATIM_RPMA_REQUIRES "librdmacm, libibverbs")
