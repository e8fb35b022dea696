// SPDX-License-Identifier: MIT
#include "tests/conformance/devx_parts.h"

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "abi/prm/completion_queues.h"
#include "abi/prm/domains.h"
#include "tests/conformance/mail.h"

namespace verbatim::conformance {

using connectx::Be32;
using connectx::Cqe;

namespace {

constexpr size_t kPage = 4096;
constexpr uint32_t kReceiveBytes = 16, kBlockBytes = 64;
constexpr uint8_t kMtu1K = 3, kRetries = 3, kTimeout = 14, kTimer = 1;

size_t receive_bytes(const DevxQpTraits& traits) {
  return traits.rmpn != 0 ? 0 : size_t{kReceiveBytes} << traits.log_receives;
}

int memory_of(size_t bytes) {
  const int file = memfd_create("devx", MFD_CLOEXEC);
  return ftruncate(file, static_cast<off_t>(bytes)) == 0 ? file : -1;
}

std::byte* view_of(int file, size_t bytes) {
  return static_cast<std::byte*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
}

void store(uint32_t* word, uint32_t value) { __atomic_store_n(word, Be32(value).raw(), __ATOMIC_RELEASE); }

template <class Spec>
int move(mlx5dv_devx_obj* qp, Mail<Spec>& mail, uint32_t number) {
  mail.in.set(Spec::In::qpn, number);
  return mail.modify(qp);
}

}  // namespace

NamedMemory::NamedMemory(ibv_context* context, size_t bytes, uint32_t access)
    : bytes_((bytes + kPage - 1) / kPage * kPage),
      file_(memory_of(bytes_)),
      base_(view_of(file_, bytes_)),
      known_(view_of(file_, bytes_)),
      umem_(mlx5dv_devx_umem_reg(context, known_, bytes_, access)) {}

NamedMemory::~NamedMemory() {
  (void)deregister();
  unmap();
  munmap(base_, bytes_);
  close(file_);
}

int NamedMemory::deregister() {
  const int error = umem_ != nullptr ? mlx5dv_devx_umem_dereg(umem_) : 0;
  if (error == 0) umem_ = nullptr;
  return error;
}

void NamedMemory::unmap() {
  if (known_ != nullptr) munmap(known_, bytes_);
  known_ = nullptr;
}

void NamedMemory::protect(bool on) {
  (void)mprotect(known_, bytes_, on ? PROT_NONE : PROT_READ | PROT_WRITE);
}

std::string first_address() {
  ibv_device** list = ibv_get_device_list(nullptr);
  const std::string path = std::filesystem::canonical(std::string(list[0]->ibdev_path) + "/device");
  ibv_free_device_list(list);
  return std::filesystem::path(path).filename();
}

ibv_context* take_over(uint32_t flags) {
  const std::string address = first_address();
  mlx5dv_vfio_context_attr wanted{address.c_str(), flags, 0};
  ibv_device** list = mlx5dv_get_vfio_device_list(&wanted);
  if (list == nullptr) return nullptr;
  ibv_context* context = list[1] == nullptr ? ibv_open_device(list[0]) : nullptr;
  ibv_free_device_list(list);
  return context;
}

DevxDevice::DevxDevice() : DevxDevice(open_with(MLX5DV_CONTEXT_FLAGS_DEVX)) {}

DevxDevice::DevxDevice(ibv_context* opened) : context(opened) {
  Mail<prm::AllocPd> domain;
  if (context == nullptr || (pd = domain.create(context)) == nullptr) return;
  pdn = domain.out[prm::AllocPdOut::pd];
  if (mlx5dv_devx_query_eqn(context, 0, &eqn) != 0 || ibv_query_gid(context, 1, 0, &gid) != 0) return;
  ibv_port_attr port{};
  if (ibv_query_port(context, 1, &port) != 0) return;
  lid = port.lid;
  uar = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_NC);
}

DevxDevice::~DevxDevice() {
  if (uar != nullptr) mlx5dv_devx_free_uar(uar);
  if (pd != nullptr) (void)mlx5dv_devx_obj_destroy(pd);
  if (context != nullptr) ibv_close_device(context);
}

void DevxDevice::ring(uint32_t offset, uint64_t bytes) const {
  auto* page = static_cast<std::byte*>(uar->base_addr);
  __atomic_store_n(reinterpret_cast<uint64_t*>(page + offset), bytes, __ATOMIC_RELEASE);
}

DevxCq::DevxCq(DevxDevice& device, uint32_t log_entries, uint32_t eqn, bool wide)
    : memory(device.context, (size_t{wide ? 128u : 64u} << log_entries) + kBlockBytes),
      device_(device),
      entries_(1u << log_entries),
      stride_(wide ? 128 : 64) {
  for (uint32_t i = 0; i < entries_; i++)
    reinterpret_cast<Cqe*>(entry(i))->opcode_owner = connectx::kCqeInvalid << 4 | 1;
  Mail<prm::CreateCq> mail;
  mail.in.set(prm::CreateCqIn::cq_umem_valid, true);
  mail.in.set(prm::CreateCqIn::cq_umem_id, memory.id());
  const auto context = mail.in[prm::CreateCqIn::cq_context];
  context.set(prm::Cqc::dbr_umem_valid, true);
  context.set(prm::Cqc::dbr_umem_id, memory.id());
  context.set(prm::Cqc::dbr_addr, size_t{entries_} * stride_);
  context.set(prm::Cqc::log_cq_size, log_entries);
  context.set(prm::Cqc::cqe_sz, wide ? prm::CqeSize::k128Bytes : prm::CqeSize::k64Bytes);
  context.set(prm::Cqc::c_eqn_or_apu_element, eqn);
  context.set(prm::Cqc::uar_page, device.uar->page_id);
  object = mail.create(device.context);
  status = mail.status();
  number = mail.out[prm::CreateCqOut::cqn];
}

int DevxCq::destroy() {
  const int error = object != nullptr ? mlx5dv_devx_obj_destroy(object) : 0;
  if (error == 0) object = nullptr;
  return error;
}

std::byte* DevxCq::entry(uint32_t index) const {
  return memory.at(size_t{index % entries_ + 1} * stride_ - sizeof(Cqe));
}

std::optional<Cqe> DevxCq::take() {
  const auto* cqe = reinterpret_cast<const Cqe*>(entry(consumed_));
  const uint8_t last = __atomic_load_n(&cqe->opcode_owner, __ATOMIC_ACQUIRE);
  const bool lap = (consumed_ & entries_) != 0;
  if ((last & 1) != lap || last >> 4 == connectx::kCqeInvalid) return std::nullopt;
  consumed_++;
  const Cqe taken = *cqe;
  store(memory.word(size_t{entries_} * stride_), consumed_ & connectx::kCqIndexMask);
  return taken;
}

std::optional<Cqe> DevxCq::wait() {
  for (int waited = 0; waited < 5000; waited++) {
    if (auto cqe = take()) return cqe;
    poll(nullptr, 0, 1);
  }
  return std::nullopt;
}

void DevxCq::arm(bool solicited_only) {
  const uint32_t word = (sequence_++ & 3) << 28 | (solicited_only ? connectx::kArmSolicitedOnly : 0) |
                        (consumed_ & connectx::kCqIndexMask);
  store(memory.word(size_t{entries_} * stride_) + 1, word);
  const uint32_t rung[2] = {Be32(word).raw(), Be32(number).raw()};
  uint64_t bytes;
  std::memcpy(&bytes, rung, sizeof bytes);
  device_.ring(connectx::kArmCqRegister, bytes);
}

DevxQp::DevxQp(DevxDevice& device, const DevxCq& cq, const DevxQpTraits& traits)
    : traits_(traits),
      send_at_(receive_bytes(traits)),
      record_at_(send_at_ + (size_t{kBlockBytes} << traits.log_blocks)),
      memory(device.context, record_at_ + kBlockBytes),
      device_(device) {
  Mail<prm::CreateQp> mail;
  mail.in.set(prm::CreateQpIn::wq_umem_valid, true);
  mail.in.set(prm::CreateQpIn::wq_umem_id, memory.id());
  const auto context = mail.in[prm::CreateQpIn::qpc];
  context.set(prm::Qpc::st, traits.service);
  context.set(prm::Qpc::pm_state, prm::QpMigration::kMigrated);
  context.set(prm::Qpc::pd, device.pdn);
  context.set(prm::Qpc::cqn_snd, cq.number);
  context.set(prm::Qpc::cqn_rcv, cq.number);
  context.set(prm::Qpc::uar_page, device.uar->page_id);
  context.set(prm::Qpc::log_sq_size, traits.log_blocks);
  context.set(prm::Qpc::log_rq_size, traits.log_receives);
  context.set(prm::Qpc::rq_type, traits.rmpn != 0);
  context.set(prm::Qpc::srqn_rmpn_xrqn, traits.rmpn);
  context.set(prm::Qpc::user_index, 0x42);
  context.set(prm::Qpc::dbr_umem_valid, true);
  context.set(prm::Qpc::dbr_umem_id, memory.id());
  context.set(prm::Qpc::dbr_addr, record_at_);
  object = mail.create(device.context);
  status = mail.status();
  number = mail.out[prm::CreateQpOut::qpn];
}

int DevxQp::destroy() {
  const int error = object != nullptr ? mlx5dv_devx_obj_destroy(object) : 0;
  if (error == 0) object = nullptr;
  return error;
}

int DevxQp::connect(uint32_t qpn) {
  Mail<prm::Rst2initQp> init;
  const auto initial = init.in[prm::Rst2initQpIn::qpc];
  for (const auto right : {prm::Qpc::rre, prm::Qpc::rwe, prm::Qpc::rae}) initial.set(right, true);
  initial.set(prm::Qpc::pm_state, prm::QpMigration::kMigrated);
  initial.set(prm::Qpc::q_key, 0x1234);
  initial[prm::Qpc::primary_address_path].set(prm::Ads::vhca_port_num, 1);
  if (const int error = move(object, init, number)) return error;
  Mail<prm::Init2rtrQp> rtr;
  const auto ready = rtr.in[prm::Init2rtrQpIn::qpc];
  ready.set(prm::Qpc::mtu, kMtu1K);
  ready.set(prm::Qpc::log_msg_max, 20);
  ready.set(prm::Qpc::remote_qpn, qpn);
  ready.set(prm::Qpc::min_rnr_nak, kTimer);
  ready.set(prm::Qpc::log_rra_max, 2);
  const auto path = ready[prm::Qpc::primary_address_path];
  path.set(prm::Ads::vhca_port_num, 1);
  path.set(prm::Ads::hop_limit, 64);
  path.set(prm::Ads::rlid, device_.lid);
  for (size_t i = 0; i < sizeof device_.gid.raw; i++) path.set(prm::Ads::rgid_rip, i, device_.gid.raw[i]);
  if (const int error = move(object, rtr, number)) return error;
  Mail<prm::Rtr2rtsQp> rts;
  const auto sending = rts.in[prm::Rtr2rtsQpIn::qpc];
  sending.set(prm::Qpc::retry_count, kRetries);
  sending.set(prm::Qpc::rnr_retry, kRetries);
  sending.set(prm::Qpc::log_sra_max, 2);
  sending[prm::Qpc::primary_address_path].set(prm::Ads::vhca_port_num, 1);
  sending[prm::Qpc::primary_address_path].set(prm::Ads::ack_timeout, kTimeout);
  return move(object, rts, number);
}

void DevxQp::receive(const connectx::DataSegment& data) {
  const size_t slot = received_++ % (1u << traits_.log_receives);
  std::memcpy(memory.at(slot * kReceiveBytes), &data, sizeof data);
  store(record(connectx::kReceiveDoorbell), received_ & 0xffff);
}

int DevxQp::reset() {
  Mail<prm::Qp2rst> mail;
  if (const int error = move(object, mail, number)) return error;
  received_ = block_ = 0;
  for (const uint32_t word : {connectx::kReceiveDoorbell, connectx::kSendDoorbell}) store(record(word), 0);
  return 0;
}

void DevxQp::post(uint8_t opcode, const connectx::DataSegment& data, const connectx::RemoteSegment* remote,
                  uint32_t immediate) {
  std::byte segments[sizeof *remote + sizeof data];
  size_t bytes = 0;
  if (remote != nullptr) std::memcpy(segments, remote, bytes = sizeof *remote);
  std::memcpy(segments + bytes, &data, sizeof data);
  post_segments(opcode, {segments, bytes + sizeof data}, immediate);
}

void DevxQp::post_segments(uint8_t opcode, std::span<const std::byte> segments, uint32_t immediate) {
  connectx::ControlSegment control{};
  control.index_opcode = (block_ & 0xffff) << 8 | opcode;
  control.qpn_ds = number << 8 | static_cast<uint32_t>(1 + segments.size() / sizeof control);
  control.flags = connectx::kCompletionAlways;
  control.immediate = immediate;
  const uint32_t blocks = 1u << traits_.log_blocks;
  // A block at a time, so that an entry may go on at the beginning of the queue.
  std::vector<std::byte> entry(reinterpret_cast<std::byte*>(&control),
                               reinterpret_cast<std::byte*>(&control + 1));
  entry.insert(entry.end(), segments.begin(), segments.end());
  for (size_t done = 0; done < entry.size(); done += kBlockBytes, block_++)
    std::memcpy(memory.at(send_at_ + block_ % blocks * kBlockBytes), entry.data() + done,
                std::min<size_t>(kBlockBytes, entry.size() - done));
  std::memcpy(&last_control_, &control, sizeof last_control_);
  store(record(connectx::kSendDoorbell), block_ & 0xffff);
  ring();
}

void DevxQp::ring() { device_.ring(connectx::kFirstSendRegister, last_control_); }

}  // namespace verbatim::conformance
