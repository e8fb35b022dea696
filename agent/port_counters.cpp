// SPDX-License-Identifier: MIT
#include "agent/port_counters.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>

#include "wire/link/shm/layout.h"

namespace verbatim::agent {

namespace {

using engine::PortCount;
using engine::Published;
using engine::PublishedHeader;
using engine::PublishedPort;
using engine::PublishedTraffic;

constexpr uint32_t kEntriesAtOnce = 512;
constexpr uint64_t kWord = 4;  ///< port_xmit_data and port_rcv_data count in these

template <class Part>
bool read_part(int file, size_t offset, Part* parts, size_t count) {
  const size_t bytes = sizeof(Part) * count;
  return pread(file, static_cast<void*>(parts), bytes, static_cast<off_t>(wire::shm::kPage + offset)) ==
         static_cast<ssize_t>(bytes);
}

void add_traffic(const PublishedTraffic& traffic, HostSums& sums) {
  const uint64_t device = traffic.device;
  if (device >= sums.size()) return;
  const auto add = [&port = sums[device]](PortCount what, uint64_t more) {
    port.counts[static_cast<size_t>(what)] += more;
  };
  add(PortCount::kSentBytes, traffic.sent_bytes + traffic.answered_bytes);
  add(PortCount::kSentPackets, traffic.sent_packets + traffic.answered_packets);
  add(PortCount::kReceivedBytes, traffic.returned_bytes + traffic.arrived_bytes);
  add(PortCount::kReceivedPackets, traffic.returned_packets + traffic.arrived_packets);
  add(PortCount::kWrites, traffic.writes + traffic.written);
  add(PortCount::kReads, traffic.reads + traffic.read);
  add(PortCount::kAtomics, traffic.atomics + traffic.changed);
}

template <PortCount... what>
uint64_t sum(const PortSums& sums) {
  return (uint64_t{0} + ... + sums[what]);
}
template <PortCount what>
uint64_t words(const PortSums& sums) {
  return sums[what] / kWord;
}
template <PortCount all, PortCount multicast>
uint64_t unicast(const PortSums& sums) {
  return sums[all] - std::min(sums[all], sums[multicast]);
}
uint64_t never(const PortSums&) { return 0; }
uint64_t lifespan(const PortSums&) { return 10; }  // milliseconds, of a value that has been read

constexpr CounterFile kFiles[] = {
    {"counters/port_xmit_data", words<PortCount::kSentBytes>},
    {"counters/port_rcv_data", words<PortCount::kReceivedBytes>},
    {"counters/port_xmit_packets", sum<PortCount::kSentPackets>},
    {"counters/port_rcv_packets", sum<PortCount::kReceivedPackets>},
    {"counters/unicast_xmit_packets", unicast<PortCount::kSentPackets, PortCount::kMulticastSent>},
    {"counters/unicast_rcv_packets", unicast<PortCount::kReceivedPackets, PortCount::kMulticastReceived>},
    {"counters/multicast_xmit_packets", sum<PortCount::kMulticastSent>},
    {"counters/multicast_rcv_packets", sum<PortCount::kMulticastReceived>},
    {"counters/port_xmit_wait", never},
    {"counters/port_xmit_discards", never},
    {"counters/port_xmit_constraint_errors", never},
    {"counters/port_rcv_errors", never},
    {"counters/port_rcv_constraint_errors", never},
    {"counters/port_rcv_remote_physical_errors", never},
    {"counters/port_rcv_switch_relay_errors", never},
    {"counters/symbol_error", never},
    {"counters/link_error_recovery", never},
    {"counters/link_downed", never},
    {"counters/local_link_integrity_errors", never},
    {"counters/excessive_buffer_overrun_errors", never},
    {"counters/VL15_dropped", never},
    {"hw_counters/duplicate_request", sum<PortCount::kDuplicates>},
    {"hw_counters/implied_nak_seq_err", sum<PortCount::kSequenceGaps>},
    {"hw_counters/lifespan", lifespan},
    {"hw_counters/local_ack_timeout_err", sum<PortCount::kTimeouts>},
    {"hw_counters/np_cnp_sent", sum<PortCount::kCongestionTold>},
    {"hw_counters/np_ecn_marked_roce_packets", sum<PortCount::kCongestionMarked>},
    {"hw_counters/out_of_buffer", sum<PortCount::kNoBuffer>},
    {"hw_counters/out_of_sequence", sum<PortCount::kOutOfSequence>},
    {"hw_counters/packet_seq_err", sum<PortCount::kSequenceRefusals>},
    {"hw_counters/req_cqe_error", sum<PortCount::kRequesterErrors>},
    {"hw_counters/req_cqe_flush_error", sum<PortCount::kRequesterFlushed>},
    {"hw_counters/req_remote_access_errors", sum<PortCount::kRequestDenied>},
    {"hw_counters/req_remote_invalid_request", sum<PortCount::kRequestInvalid>},
    {"hw_counters/resp_cqe_error", sum<PortCount::kResponderErrors>},
    {"hw_counters/resp_cqe_flush_error", sum<PortCount::kResponderFlushed>},
    {"hw_counters/resp_local_length_error", sum<PortCount::kTooLong>},
    {"hw_counters/resp_remote_access_errors", sum<PortCount::kAccessRefused>},
    {"hw_counters/rnr_nak_retry_err", sum<PortCount::kRnrRefusals>},
    {"hw_counters/roce_adp_retrans", never},
    {"hw_counters/roce_adp_retrans_to", never},
    {"hw_counters/roce_slow_restart", never},
    {"hw_counters/roce_slow_restart_cnps", never},
    {"hw_counters/roce_slow_restart_trans", never},
    {"hw_counters/rp_cnp_handled", sum<PortCount::kCongestionHeard>},
    {"hw_counters/rp_cnp_ignored", never},
    {"hw_counters/rx_atomic_requests", sum<PortCount::kAtomics>},
    {"hw_counters/rx_dct_connect", sum<PortCount::kDcConnections>},
    {"hw_counters/rx_icrc_encapsulated", sum<PortCount::kDamaged>},
    {"hw_counters/rx_read_requests", sum<PortCount::kReads>},
    {"hw_counters/rx_write_requests", sum<PortCount::kWrites>},
};

/// The file of sums.
struct Kept {
  static constexpr uint64_t kMagic = 0x5645524243545231;
  uint64_t magic = 0;
  uint64_t counts = 0;  ///< of a port
  HostSums sums{};
};

}  // namespace

void add_counts(int published_file, HostSums& sums) {
  PublishedHeader header;
  if (!read_part(published_file, 0, &header, 1) || header.magic != PublishedHeader::kMagic) return;
  PublishedPort ports[engine::kPortsShown];
  if (read_part(published_file, offsetof(Published, ports), ports, engine::kPortsShown))
    for (size_t device = 0; device < sums.size(); device++)
      for (size_t i = 0; i < engine::kPortCounts; i++) sums[device].counts[i] += ports[device].counts[i];
  const std::unique_ptr<PublishedTraffic[]> entries(new PublishedTraffic[kEntriesAtOnce]);
  for (uint32_t block = 0; block < engine::kQpBlocksMax; block++) {
    const uint32_t end = std::min(header.qp_ends[block].load(), engine::kQpBlock);
    for (uint32_t at = 0; at < end; at += kEntriesAtOnce) {
      const uint32_t count = std::min(end - at, kEntriesAtOnce);
      const size_t place = size_t{block} * engine::kQpBlock + at;
      if (!read_part(published_file, offsetof(Published, traffic) + sizeof(PublishedTraffic) * place,
                     entries.get(), count))
        return;
      for (uint32_t i = 0; i < count; i++) add_traffic(entries[i], sums);
    }
  }
}

std::span<const CounterFile> counter_files() { return kFiles; }

// Written beside and renamed: whoever reads sees the old one or the new one.
void store_sums(const std::string& path, const HostSums& sums) {
  if (path.empty()) return;
  const std::string fresh = path + ".new";
  const int file = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return;
  const Kept kept{Kept::kMagic, engine::kPortCounts, sums};
  const bool whole = write(file, &kept, sizeof kept) == static_cast<ssize_t>(sizeof kept);
  close(file);
  if (!whole || rename(fresh.c_str(), path.c_str()) != 0) unlink(fresh.c_str());
}

HostSums load_sums(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return {};
  struct stat status {};
  Kept kept;
  const bool whole = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
                     read(file, &kept, sizeof kept) == static_cast<ssize_t>(sizeof kept) &&
                     kept.magic == Kept::kMagic && kept.counts == engine::kPortCounts;
  close(file);
  return whole ? kept.sums : HostSums{};
}

}  // namespace verbatim::agent
