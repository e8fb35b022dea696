// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "base/expected.h"
#include "base/spinlock.h"
#include "engine/published.h"
#include "engine/status.h"
#include "wire/link/channel.h"

namespace verbatim::engine {

/// A consistent copy of a published key.
struct KeyView {
    uint32_t key = 0, access = 0, domain = 0;
    uint64_t start = 0, length = 0, address = 0;
};

/// Why a key does not allow an access; nullptr words mean that it does.
struct KeyRefusal {
    const char* why = nullptr;
    explicit operator bool() const { return why != nullptr; }
};

/// Reads the entry of `key` out of a process's published tables, own or foreign. False: no such key now.
bool read_key(const Published& published, uint32_t key, KeyView& view);

/// The one place where a key is checked: variant, domain, rights, range. `length` 0 always passes the range check.
KeyRefusal check_key(const KeyView& view, uint32_t domain, uint32_t need, uint64_t address, uint64_t length);

/// The null memory region: reads as zero, swallows writes. Its key is valid in every domain of the device.
inline constexpr uint32_t kNullKeyFlag = 1u << 31;  ///< in PublishedKey::access

/// The memory keys of this process. Thread safe.
class KeyTable {
public:
    KeyTable(Published& published, wire::Fabric& fabric);

    struct Spec {
        uint32_t domain = 0;
        uint32_t access = 0;
        uint64_t start = 0, length = 0, address = 0;
    };
    /// Makes a key (index << 8 | variant; never 0 and never 0x100..0x1ff). ENOMEM: all are taken.
    Expected<uint32_t> create(const Spec& spec);
    /// Replaces what the key stands for; returns when no access under the old meaning runs.
    void replace(uint32_t key, const Spec& spec);
    /// Ends it and waits as `replace`.
    void destroy(uint32_t key);

    /// Translates a local element. nullptr reason and a piece, or the reason why not. A null-region element gives base nullptr.
    KeyRefusal translate(uint32_t lkey, uint32_t domain, uint32_t need, uint64_t address, uint32_t length, wire::Piece& piece) const;

    const Published& published() const { return published_; }

private:
    void write(uint32_t index, uint32_t key, const Spec& spec);

    Published& published_;
    wire::Fabric& fabric_;
    SpinLock lock_;
    std::vector<uint32_t> free_;
    std::vector<uint8_t> variants_;
    uint32_t next_ = 2;
};

}  // namespace verbatim::engine
