// SPDX-License-Identifier: MIT
#pragma once

// Work and completion queue entries of a ConnectX (mlx5), as they lie in memory. Numbers are big-endian.
// Source: the ConnectX programmer's reference manual as mlx5dv.h and prm_layouts.tsv show it.

#include <bit>
#include <cstddef>
#include <cstdint>

namespace verbatim::connectx {

/// A big-endian number in memory.
template <class T>
class Big {
 public:
  Big() = default;
  Big(T value) : raw_(swap(value)) {}
  operator T() const { return swap(raw_); }
  /// As it lies in memory, for values that are opaque to the device (immediate data).
  T raw() const { return raw_; }
  static Big from_raw(T raw) {
    Big made;
    made.raw_ = raw;
    return made;
  }

 private:
  static T swap(T value) {
    if constexpr (std::endian::native == std::endian::big) return value;
    if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
    if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
    if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
  }
  T raw_;
};
using Be16 = Big<uint16_t>;
using Be32 = Big<uint32_t>;
using Be64 = Big<uint64_t>;

inline constexpr uint32_t kBasicBlock = 64;   ///< bytes of a send queue block
inline constexpr uint32_t kSegmentUnit = 16;  ///< bytes counted by the DS field
inline constexpr uint32_t kInlineFlag = 0x80000000;
inline constexpr uint32_t kInvalidKey = 0x100;  ///< ends a receive entry's list
inline constexpr uint32_t kExtendedAv = 0x80000000;
inline constexpr uint32_t kReceiveDoorbell = 0;
inline constexpr uint32_t kSendDoorbell = 1;

enum WqeOpcode : uint8_t {
  kOpNop = 0x00,
  kOpSendInvalidate = 0x01,
  kOpWrite = 0x08,
  kOpWriteImmediate = 0x09,
  kOpSend = 0x0a,
  kOpSendImmediate = 0x0b,
  kOpSegmentedSend = 0x0e,
  kOpRead = 0x10,
  kOpCompareSwap = 0x11,
  kOpFetchAdd = 0x12,
  kOpSetPsv = 0x20,
  kOpUmr = 0x25,
  kOpTagMatching = 0x28,
  kOpMmo = 0x2f,
  // A ConnectX has neither. These numbers are nobody's there, so that a queue entry for one is never these.
  kOpFlush = 0x38,
  kOpAtomicWrite = 0x39,
};

struct ControlSegment {
  Be32 index_opcode;  ///< opmod 31..24, WQE index 23..8, opcode 7..0
  Be32 qpn_ds;        ///< QPN 31..8, size in 16-byte units 5..0
  uint8_t signature;
  uint8_t stream[2];  ///< of a DC initiator, big-endian
  uint8_t flags;      ///< fence 7..5, completion 3..2, solicited 1
  Be32 immediate;
};
inline constexpr uint8_t kCompletionAlways = 0x08;
inline constexpr uint8_t kSolicitedEvent = 0x02;
inline constexpr uint8_t kFenceShift = 5;
inline constexpr uint8_t kFence = 4 << kFenceShift;
inline constexpr uint8_t kFenceSmall = 1 << kFenceShift;

struct RemoteSegment {
  Be64 address;
  Be32 rkey;
  uint32_t reserved;
};
/// What follows the control segment of an XRC sender's request.
struct XrcSegment {
  Be32 srqn;
  uint32_t reserved[3];
};
/// In the place of a RemoteSegment for kOpFlush, whose immediate says what is asked for: FETH in its low
/// byte.
struct FlushSegment {
  Be64 address;
  Be32 rkey;
  Be32 bytes;
};
struct AtomicSegment {
  Be64 swap_or_add;
  Be64 compare;
};
struct DataSegment {
  Be32 byte_count;  ///< 0 means 2^31
  Be32 lkey;
  Be64 address;
};
struct InlineSegment {
  Be32 byte_count;  ///< with kInlineFlag; the bytes follow, padded to 16 together with this word
};
/// The address vector of a datagram, or the target of a DC initiator's request.
struct DatagramSegment {
  Be32 qkey;      ///< or the upper half of the DC access key
  Be32 key_low;   ///< the lower half of the DC access key
  Be32 dest_qpn;  ///< or DCT number; bit 31: the extended form; the compact one ends before
                  ///< `source_gid_index`, on InfiniBand alone
  uint8_t rate_sl;
  uint8_t fl_mlid;
  Be16 rlid;                 ///< LID; UDP source port for RoCE v2
  uint8_t source_gid_index;  ///< reserved: the index is in gid_flow
  uint8_t reserved1[3];
  uint8_t rmac[6];
  uint8_t traffic_class;
  uint8_t hop_limit;
  Be32 gid_flow;  ///< bit 30: GRH present (on InfiniBand); 27..20: index of its source GID; flow label 19..0
  uint8_t rgid[16];
};
/// What follows the control segment of a frame: how it is to be changed, and its first bytes. It is as long
/// as those need, at least one unit.
struct EthernetSegment {
  Be32 reserved;
  uint8_t checksums;  ///< kFrameNetworkChecksum, kFrameTransportChecksum
  uint8_t reserved1;
  Be16 segment_bytes;  ///< of a large send that is cut into frames
  Be32 reserved2;
  Be16 inline_bytes;
  uint8_t inline_start[2];  ///< where the inline bytes begin; they go on behind the segment
};
/// In inline_bytes: nothing is inline, a VLAN tag of what follows is put into the frame.
inline constexpr uint16_t kInsertVlan = 1u << 15;
inline constexpr uint8_t kFrameNetworkChecksum = 1 << 6, kFrameTransportChecksum = 1 << 7;
static_assert(sizeof(EthernetSegment) == 16 && offsetof(EthernetSegment, inline_start) == 14);
inline constexpr uint32_t kGrhPresent = 1u << 30;
inline constexpr uint32_t kSourceGidShift = 20, kFlowLabelMask = 0xfffff;
/// What follows the control segment of a memory key update: which members of the key's context change.
struct UmrControlSegment {
  uint8_t flags;
  uint8_t reserved[3];
  Be16 klm_octowords;       ///< of the list: 16 bytes each, one entry
  Be16 translation_offset;  ///< first entry that changes; without kUmrOffset the size of the BSFs
  Be64 key_mask;
  Be32 translation_offset_high;  ///< bits 47..16
  uint8_t reserved1[28];
};
inline constexpr uint8_t kUmrInline =
    1 << 7;  ///< the list follows the key's context, else a DataSegment that names it
inline constexpr uint8_t kUmrCheckShift = 5;  ///< two bits
inline constexpr uint8_t kUmrMustBeFree = 1, kUmrMustNotBeFree = 2;
inline constexpr uint8_t kUmrOffset = 1 << 4;
inline constexpr uint8_t kUmrCheckQpn = 1 << 3;  ///< of a bound key this is checked anyway
enum UmrMask : uint64_t {
  kUmrMaskLength = 1ull << 0,
  kUmrMaskStart = 1ull << 6,
  kUmrMaskPd = 1ull << 7,
  kUmrMaskRemoteInvalidate = 1ull << 8,
  kUmrMaskSignatureErrors = 1ull << 9,
  kUmrMaskBsf = 1ull << 12,
  kUmrMaskVariant = 1ull << 13,
  kUmrMaskQpn = 1ull << 14,
  kUmrMaskLocalRead = 1ull << 17,
  kUmrMaskLocalWrite = 1ull << 18,
  kUmrMaskRemoteRead = 1ull << 19,
  kUmrMaskRemoteWrite = 1ull << 20,
  kUmrMaskAtomic = 1ull << 21,
  kUmrMaskRelaxedWrite = 1ull << 25,
  kUmrMaskFree = 1ull << 29,
  kUmrMaskRelaxedRead = 1ull << 47,
};
/// The context of a memory key, as in commands.
struct UmrKeySegment {
  uint8_t free;  ///< bit 6
  uint8_t reserved0;
  uint8_t access;
  uint8_t reserved1;
  Be32 qpn_variant;  ///< queue pair 31..8, low byte of the key 7..0
  Be32 reserved2;
  Be32 flags_pd;  ///< PD number 23..0
  Be64 start;
  Be64 length;
  Be32 bsf_octowords;
  Be32 reserved3[4];
  Be32 list_octowords;
  uint8_t reserved4[3];
  uint8_t log_entity_size;
  Be32 reserved5;
};
inline constexpr uint8_t kUmrKeyFree = 1 << 6;
inline constexpr uint8_t kUmrKeyAtomic = 1 << 6, kUmrKeyRemoteWrite = 1 << 5, kUmrKeyRemoteRead = 1 << 4,
                         kUmrKeyLocalWrite = 1 << 3, kUmrKeyLocalRead = 1 << 2;
inline constexpr uint32_t kUmrKeyBsf = 1u << 30, kUmrKeyRemoteInvalidate = 1u << 24;
inline constexpr uint32_t kUmrKeyErrorCountShift = 26;  ///< of signature errors, modulo 2
inline constexpr uint32_t kUmrAnyQp = 0xffffff;
/// An entry of an indirect key's list (KLM). Where all entries have one size (KSM), the byte count means
/// nothing.
struct ListEntry {
  Be32 byte_count;
  Be32 key;
  Be64 address;
};
/// Head of an interleaved list, in place of its first entry; StrideEntries follow.
struct StrideHead {
  Be32 byte_count;  ///< of one round
  Be32 operation;   ///< kRepeatKey
  Be32 rounds;
  Be16 reserved;
  Be16 entries;
};
struct StrideEntry {
  Be16 stride;  ///< from round to round
  Be16 byte_count;
  Be32 key;
  Be64 address;
};
inline constexpr uint32_t kRepeatKey = 0x400;  ///< no key has this number
/// What follows the control segment of a copy within the device (MMO), before two DataSegments: from, to.
struct CopySegment {
  Be32 control;
  Be32 key;
  Be64 address;
};
inline constexpr uint8_t kMmoDma = 1;             ///< opmod
inline constexpr uint32_t kLogCopyBytesMax = 21;  ///< of one such copy
struct SharedNextSegment {
  uint8_t reserved[2];
  Be16 next_index;
  uint8_t signature;
  uint8_t reserved1[11];
};

/// A change of the tag list of the queue pair's shared receive queue; a DataSegment follows one that appends.
struct TagSegment {
  uint8_t operation;  ///< TagOperation in 7..4
  uint8_t flags;
  Be16 index;  ///< of the entry to remove; with one that is appended, of the entry to fill next
  uint8_t reserved0[2];
  Be16 handled;  ///< unexpected messages that the program has dealt with
  uint8_t reserved1[8];
  Be64 tag;
  Be64 mask;
};
enum TagOperation : uint8_t { kTagNothing = 0, kTagAppend = 1, kTagRemove = 2 };
inline constexpr uint8_t kTagHandledGiven = 1 << 6, kTagCompletion = 1 << 7;
/// What a message to such a queue begins with (ibv_tmh), and what follows it in a rendezvous request
/// (ibv_rvh).
struct TagHeader {
  uint8_t operation;  ///< TagMessage
  uint8_t reserved[3];
  Be32 context;
  Be64 tag;
};
struct RendezvousHeader {
  Be64 address;
  Be32 rkey;
  Be32 length;
};
enum TagMessage : uint8_t { kTagNone = 0, kTagRendezvous = 1, kTagFinished = 2, kTagEager = 3 };
static_assert(sizeof(TagSegment) == 32 && offsetof(TagSegment, handled) == 6 &&
              offsetof(TagSegment, tag) == 16);
static_assert(sizeof(TagHeader) == 16 && sizeof(RendezvousHeader) == 16);
static_assert(sizeof(XrcSegment) == 16 && sizeof(FlushSegment) == 16);
static_assert(sizeof(ControlSegment) == 16 && sizeof(RemoteSegment) == 16 && sizeof(AtomicSegment) == 16);
static_assert(sizeof(DataSegment) == 16 && sizeof(InlineSegment) == 4 && sizeof(SharedNextSegment) == 16);
static_assert(sizeof(DatagramSegment) == 48 && offsetof(DatagramSegment, rmac) == 20 &&
              offsetof(DatagramSegment, rgid) == 32);
static_assert(sizeof(UmrControlSegment) == 48 && offsetof(UmrControlSegment, key_mask) == 8);
static_assert(sizeof(UmrKeySegment) == 64 && offsetof(UmrKeySegment, start) == 16 &&
              offsetof(UmrKeySegment, list_octowords) == 52 &&
              offsetof(UmrKeySegment, log_entity_size) == 59);
static_assert(sizeof(ListEntry) == 16 && sizeof(StrideHead) == 16 && sizeof(StrideEntry) == 16 &&
              sizeof(CopySegment) == 16);

enum CqeOpcode : uint8_t {
  kCqeRequest = 0,
  kCqeWriteImmediate = 1,
  kCqeSend = 2,
  kCqeSendImmediate = 3,
  kCqeSendInvalidate = 4,
  kCqeResize = 5,    ///< the queue goes on in another ring
  kCqeNoPacket = 6,  ///< of an operation on a tag list
  kCqeSignatureError = 12,
  kCqeRequestError = 13,
  kCqeReceiveError = 14,
  kCqeInvalid = 15,
};

enum CqeSyndrome : uint8_t {
  kSyndromeLocalLength = 0x01,
  kSyndromeLocalQpOperation = 0x02,
  kSyndromeLocalProtection = 0x04,
  kSyndromeFlushed = 0x05,
  kSyndromeWindowBind = 0x06,
  kSyndromeBadResponse = 0x10,
  kSyndromeLocalAccess = 0x11,
  kSyndromeRemoteInvalidRequest = 0x12,
  kSyndromeRemoteAccess = 0x13,
  kSyndromeRemoteOperation = 0x14,
  kSyndromeRetryExceeded = 0x15,
  kSyndromeRnrRetryExceeded = 0x16,
  kSyndromeRemoteAborted = 0x22,
};

/// A completion queue entry (the second half of one of 128 bytes).
struct Cqe {
  uint8_t head[16];   ///< TagHeader of a message that an entry of a tag list was found for, TagResult,
                      ///< FrameHead
  uint8_t hash_kind;  ///< of a frame: kHash*
  uint8_t reserved0[5];
  Be16 slid;
  Be32 flags_rqpn;  ///< GRH kind 29..28, service level or, on RoCE, kind of network header 27..24, source
                    ///< QPN 23..0
  Be32 frame;       ///< of a received frame: kFrame*
  Be32 user_index;
  Be32 immediate;
  Be32 application;  ///< 0, or of tag matching: kApplicationTags 31..24, TagEvent 23..16, entry of the
                     ///< list 15..0
  Be32 byte_count;
  Be64 timestamp;
  Be32 opcode_qpn;  ///< opcode of the work queue entry 31..24, QPN 23..0; of a received frame its tag
  Be16 wqe_counter;
  uint8_t signature;
  uint8_t opcode_owner;  ///< opcode 7..4, solicited 1, owner 0; written last
};
inline constexpr uint32_t kApplicationTags = 1;
/// What a completion of a shared receive queue with a tag list is about.
enum TagEvent : uint8_t {
  kTagConsumed = 0x1,    ///< an entry was found, its data comes
  kTagDataPlaced = 0x2,  ///< and is there
  kTagUnexpected = 0x3,
  kTagNoTag = 0x4,
  kTagAppended = 0x5,
  kTagRemoved = 0x6,
  kTagNothingDone = 0x7,
  kTagConsumedWhole = 0xa,       ///< both at once
  kTagConsumedForProgram = 0xb,  ///< of a rendezvous that the program is to carry out: its headers are there
  kTagCanceled = 0xc,            ///< the data of a consumed entry does not come
};
inline constexpr uint32_t tag_application(TagEvent event, uint32_t entry) {
  return kApplicationTags << 24 | static_cast<uint32_t>(event) << 16 | (entry & 0xffff);
}
/// Of an operation on a tag list.
struct TagResult {
  Be32 success;     ///< kTagSuccess
  Be16 unexpected;  ///< messages that the device has found no entry for
  uint8_t reserved[10];
};
inline constexpr uint32_t kTagSuccess = 1u << 31;
static_assert(sizeof(TagResult) == 16 && offsetof(Cqe, application) == 40);
/// What an entry for a frame begins with.
struct FrameHead {
  uint8_t tunnel;  ///< kFrameInTunnel, kFrameTunnelIpv6: then the rest is told of the packet in it
  uint8_t reserved0;
  Be16 entry;  ///< where an entry is of many strides: its counter; that of the completion is the first
               ///< stride's
  uint8_t reserved1[8];
  Be32 hash;  ///< by which it was spread over receive queues
};
/// Then in byte_count, above the frame's bytes: how many strides of the entry are used up by it. A filler is
/// of no frame: the next one did not fit what was left of the entry.
inline constexpr uint32_t kStridesUsedShift = 16, kStridesUsedMask = 0x7fff;
inline constexpr uint32_t kStridesFiller = 1u << 31;
inline constexpr uint8_t kFrameInTunnel = 1 << 0, kFrameTunnelIpv6 = 1 << 1;
static_assert(sizeof(FrameHead) == 16 && offsetof(FrameHead, hash) == 12 && offsetof(Cqe, hash_kind) == 16);
/// Fields that a hash is of, two bits for each: which protocol's.
inline constexpr uint32_t kHashSourceIpShift = 0, kHashDestinationIpShift = 2;
inline constexpr uint32_t kHashSourcePortShift = 4, kHashDestinationPortShift = 6;
inline constexpr uint8_t kHashIpv4 = 1, kHashIpv6 = 2;
inline constexpr uint8_t kHashTcp = 1, kHashUdp = 2, kHashSpi = 3;
/// What a completion tells of a frame: which checksums are right, kinds of headers.
inline constexpr uint32_t kFrameNetworkRight = 1u << 25, kFrameTransportRight = 1u << 26;
inline constexpr uint32_t kFrameVlanStripped = 1u << 16;  ///< the low half is what the tag said
inline constexpr uint32_t kFrameTransportShift = 20, kFrameNetworkShift = 18;
inline constexpr uint32_t kFrameIpv6 = 1, kFrameIpv4 = 2;  ///< network headers
inline constexpr uint32_t kFrameTcp = 1, kFrameUdp = 2;    ///< transport headers
/// A session of compressed completions: a title, which is the first of them but for its byte_count, their
/// number; then short entries, eight in the place of an entry, in the places after the title that are 1, 8,
/// 16, ... further. Places in between are left as they were. The counters of a session go up by one.
inline constexpr uint8_t kCqeCompressed = 3 << 2;  ///< in opcode_owner of the title
inline constexpr uint32_t kMinisPerEntry = 8;
inline constexpr uint32_t kSessionMax = 64;
struct MiniCqe {
  uint8_t result[4];  ///< hash, or checksum and stride index: nothing here has any
  Be32 byte_count;
};
static_assert(sizeof(MiniCqe) * kMinisPerEntry == 64);
struct ErrorCqe {
  uint8_t reserved0[32];
  Be32 user_index;
  uint8_t reserved1[16];
  uint8_t hardware_syndrome;
  uint8_t hardware_type;
  uint8_t vendor_syndrome;
  uint8_t syndrome;
  Be32 opcode_qpn;
  Be16 wqe_counter;
  uint8_t signature;
  uint8_t opcode_owner;
};
/// A memory key has found a signature wrong. It belongs to no work request.
struct SignatureErrorCqe {
  uint8_t reserved0[16];
  Be32 expected_high;  ///< what the device made: T10-DIF guard and application tag, or CRC
  Be32 actual_high;    ///< what it found
  Be32 expected_low;   ///< T10-DIF reference tag, or low half of a CRC-64
  Be32 actual_low;
  Be16 syndrome;
  uint8_t kind;
  uint8_t domain;
  Be32 key;
  Be64 offset;  ///< of the last byte of the block and its signature
  uint8_t reserved1[14];
  uint8_t signature;
  uint8_t opcode_owner;
};
inline constexpr uint16_t kBadRefTag = 1 << 11, kBadAppTag = 1 << 12, kBadGuard = 1 << 13;
inline constexpr uint8_t kBlockSignature = 0;
inline constexpr uint8_t kWireDomain = 0, kMemoryDomain = 1;
static_assert(sizeof(SignatureErrorCqe) == 64 && offsetof(SignatureErrorCqe, syndrome) == 32 &&
              offsetof(SignatureErrorCqe, offset) == 40);
static_assert(sizeof(Cqe) == 64 && offsetof(Cqe, flags_rqpn) == 24 && offsetof(Cqe, byte_count) == 44 &&
              offsetof(Cqe, timestamp) == 48 && offsetof(Cqe, opcode_owner) == 63);
static_assert(sizeof(ErrorCqe) == 64 && offsetof(ErrorCqe, vendor_syndrome) == 54 &&
              offsetof(ErrorCqe, opcode_qpn) == 56);

/// Network header kinds in flags_rqpn on a RoCE port.
inline constexpr uint32_t kL3Grh = 0, kL3Ipv6 = 1, kL3Ipv4 = 2;

// Registers of a UAR page that doorbells are rung by.
inline constexpr uint16_t kArmCqRegister = 0x20;
inline constexpr uint16_t kArmEqRegister = 0x40;
inline constexpr uint16_t kConsumeEqRegister = 0x48;  ///< does not arm
inline constexpr uint16_t kFirstSendRegister = 0x800;
inline constexpr uint16_t kDoorbellRegisters[] = {
    kArmCqRegister, kArmEqRegister, kConsumeEqRegister, kFirstSendRegister, 0x900, 0xa00, 0xb00};

/// Arm word of a CQ doorbell record.
inline constexpr uint32_t kArmSolicitedOnly = 1u << 24;
inline constexpr uint32_t kCqIndexMask = 0xffffff;

}  // namespace verbatim::connectx
