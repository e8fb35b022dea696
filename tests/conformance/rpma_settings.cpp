// SPDX-License-Identifier: MIT
// librpma's objects that need no device: parameters, descriptions of peers, descriptors, names and the log.
#include <cstdlib>

#include "tests/conformance/rpma_ends.h"

namespace verbatim::conformance {
namespace {

TEST(RpmaConnectionSettings, HaveDefaults) {
  const Settings cfg = make_settings();
  int timeout_ms = 0;
  uint32_t cq = 0, rcq = 1, sq = 0, rq = 0;
  bool shared = true;
  rpma_srq* srq = reinterpret_cast<rpma_srq*>(&rq);
  EXPECT_EQ(rpma_conn_cfg_get_timeout(cfg.get(), &timeout_ms), 0);
  EXPECT_EQ(rpma_conn_cfg_get_cq_size(cfg.get(), &cq), 0);
  EXPECT_EQ(rpma_conn_cfg_get_rcq_size(cfg.get(), &rcq), 0);
  EXPECT_EQ(rpma_conn_cfg_get_sq_size(cfg.get(), &sq), 0);
  EXPECT_EQ(rpma_conn_cfg_get_rq_size(cfg.get(), &rq), 0);
  EXPECT_EQ(rpma_conn_cfg_get_compl_channel(cfg.get(), &shared), 0);
  EXPECT_EQ(rpma_conn_cfg_get_srq(cfg.get(), &srq), 0);
  EXPECT_EQ(timeout_ms, RPMA_DEFAULT_TIMEOUT_MS);
  EXPECT_EQ(cq, 10u);
  EXPECT_EQ(rcq, 0u);
  EXPECT_EQ(sq, 10u);
  EXPECT_EQ(rq, 10u);
  EXPECT_FALSE(shared);
  EXPECT_EQ(srq, nullptr);
}

TEST(RpmaConnectionSettings, KeepWhatTheyAreTold) {
  const Settings cfg = make_settings();
  int timeout_ms = 0;
  uint32_t size = 0;
  bool shared = false;
  rpma_srq *srq = nullptr, *const some = reinterpret_cast<rpma_srq*>(&size);
  EXPECT_EQ(rpma_conn_cfg_set_timeout(cfg.get(), 0), 0);
  EXPECT_EQ(rpma_conn_cfg_set_timeout(cfg.get(), 77), 0);
  EXPECT_EQ(rpma_conn_cfg_get_timeout(cfg.get(), &timeout_ms), 0);
  EXPECT_EQ(timeout_ms, 77);
  EXPECT_EQ(rpma_conn_cfg_set_cq_size(cfg.get(), 21), 0);
  EXPECT_EQ(rpma_conn_cfg_set_rcq_size(cfg.get(), 22), 0);
  EXPECT_EQ(rpma_conn_cfg_set_sq_size(cfg.get(), 23), 0);
  EXPECT_EQ(rpma_conn_cfg_set_rq_size(cfg.get(), UINT32_MAX), 0);
  EXPECT_EQ(rpma_conn_cfg_get_cq_size(cfg.get(), &size), 0);
  EXPECT_EQ(size, 21u);
  EXPECT_EQ(rpma_conn_cfg_get_rcq_size(cfg.get(), &size), 0);
  EXPECT_EQ(size, 22u);
  EXPECT_EQ(rpma_conn_cfg_get_sq_size(cfg.get(), &size), 0);
  EXPECT_EQ(size, 23u);
  EXPECT_EQ(rpma_conn_cfg_get_rq_size(cfg.get(), &size), 0);
  EXPECT_EQ(size, UINT32_MAX);
  EXPECT_EQ(rpma_conn_cfg_set_compl_channel(cfg.get(), true), 0);
  EXPECT_EQ(rpma_conn_cfg_get_compl_channel(cfg.get(), &shared), 0);
  EXPECT_TRUE(shared);
  EXPECT_EQ(rpma_conn_cfg_set_srq(cfg.get(), some), 0);
  EXPECT_EQ(rpma_conn_cfg_get_srq(cfg.get(), &srq), 0);
  EXPECT_EQ(srq, some);
}

TEST(RpmaConnectionSettings, RefuseNullAndNegativeTimeouts) {
  const Log log;
  Settings cfg = make_settings();
  EXPECT_REFUSED(rpma_conn_cfg_new(nullptr), RPMA_E_INVAL, "cfg_ptr");
  EXPECT_REFUSED(rpma_conn_cfg_delete(nullptr), RPMA_E_INVAL, "cfg_ptr");
  EXPECT_REFUSED(rpma_conn_cfg_set_timeout(nullptr, 1), RPMA_E_INVAL, "null: cfg");
  EXPECT_REFUSED(rpma_conn_cfg_set_timeout(cfg.get(), -1), RPMA_E_INVAL, "negative");
  EXPECT_REFUSED(rpma_conn_cfg_set_cq_size(nullptr, 1), RPMA_E_INVAL, "null: cfg");
  EXPECT_REFUSED(rpma_conn_cfg_set_rcq_size(nullptr, 1), RPMA_E_INVAL, "null: cfg");
  EXPECT_REFUSED(rpma_conn_cfg_set_sq_size(nullptr, 1), RPMA_E_INVAL, "null: cfg");
  EXPECT_REFUSED(rpma_conn_cfg_set_rq_size(nullptr, 1), RPMA_E_INVAL, "null: cfg");
  EXPECT_REFUSED(rpma_conn_cfg_set_compl_channel(nullptr, true), RPMA_E_INVAL, "null: cfg");
  EXPECT_REFUSED(rpma_conn_cfg_set_srq(nullptr, nullptr), RPMA_E_INVAL, "null: cfg");
  int timeout_ms = 5;
  uint32_t size = 5;
  bool shared = true;
  rpma_srq* srq = nullptr;
  for (const rpma_conn_cfg* from :
       {static_cast<const rpma_conn_cfg*>(nullptr), static_cast<const rpma_conn_cfg*>(cfg.get())}) {
    const bool there = from != nullptr;
    EXPECT_REFUSED(rpma_conn_cfg_get_timeout(from, there ? nullptr : &timeout_ms), RPMA_E_INVAL, "null");
    EXPECT_REFUSED(rpma_conn_cfg_get_cq_size(from, there ? nullptr : &size), RPMA_E_INVAL, "null");
    EXPECT_REFUSED(rpma_conn_cfg_get_rcq_size(from, there ? nullptr : &size), RPMA_E_INVAL, "null");
    EXPECT_REFUSED(rpma_conn_cfg_get_sq_size(from, there ? nullptr : &size), RPMA_E_INVAL, "null");
    EXPECT_REFUSED(rpma_conn_cfg_get_rq_size(from, there ? nullptr : &size), RPMA_E_INVAL, "null");
    EXPECT_REFUSED(rpma_conn_cfg_get_compl_channel(from, there ? nullptr : &shared), RPMA_E_INVAL, "null");
    EXPECT_REFUSED(rpma_conn_cfg_get_srq(from, there ? nullptr : &srq), RPMA_E_INVAL, "null");
  }
  EXPECT_EQ(timeout_ms, 5);
  EXPECT_EQ(size, 5u);
  rpma_conn_cfg* gone = cfg.release();
  EXPECT_EQ(rpma_conn_cfg_delete(&gone), 0);
  EXPECT_EQ(gone, nullptr);
  EXPECT_EQ(rpma_conn_cfg_delete(&gone), 0);
}

TEST(RpmaSharedQueueSettings, HaveDefaultsAndKeepWhatTheyAreTold) {
  const Log log;
  rpma_srq_cfg* cfg = nullptr;
  uint32_t size = 0;
  ASSERT_EQ(rpma_srq_cfg_new(&cfg), 0);
  EXPECT_EQ(rpma_srq_cfg_get_rq_size(cfg, &size), 0);
  EXPECT_EQ(size, 100u);
  EXPECT_EQ(rpma_srq_cfg_get_rcq_size(cfg, &size), 0);
  EXPECT_EQ(size, 100u);
  EXPECT_EQ(rpma_srq_cfg_set_rq_size(cfg, 7), 0);
  EXPECT_EQ(rpma_srq_cfg_set_rcq_size(cfg, 0), 0);
  EXPECT_EQ(rpma_srq_cfg_get_rq_size(cfg, &size), 0);
  EXPECT_EQ(size, 7u);
  EXPECT_EQ(rpma_srq_cfg_get_rcq_size(cfg, &size), 0);
  EXPECT_EQ(size, 0u);
  EXPECT_REFUSED(rpma_srq_cfg_new(nullptr), RPMA_E_INVAL, "cfg_ptr");
  EXPECT_REFUSED(rpma_srq_cfg_delete(nullptr), RPMA_E_INVAL, "cfg_ptr");
  EXPECT_REFUSED(rpma_srq_cfg_set_rq_size(nullptr, 1), RPMA_E_INVAL, "null: cfg");
  EXPECT_REFUSED(rpma_srq_cfg_set_rcq_size(nullptr, 1), RPMA_E_INVAL, "null: cfg");
  EXPECT_REFUSED(rpma_srq_cfg_get_rq_size(nullptr, &size), RPMA_E_INVAL, "null");
  EXPECT_REFUSED(rpma_srq_cfg_get_rq_size(cfg, nullptr), RPMA_E_INVAL, "null");
  EXPECT_REFUSED(rpma_srq_cfg_get_rcq_size(nullptr, &size), RPMA_E_INVAL, "null");
  EXPECT_REFUSED(rpma_srq_cfg_get_rcq_size(cfg, nullptr), RPMA_E_INVAL, "null");
  EXPECT_EQ(rpma_srq_cfg_delete(&cfg), 0);
  EXPECT_EQ(cfg, nullptr);
}

TEST(RpmaPeerDescriptions, TravelInOneByte) {
  rpma_peer_cfg *own = nullptr, *theirs = nullptr;
  bool direct = true;
  ASSERT_EQ(rpma_peer_cfg_new(&own), 0);
  EXPECT_EQ(rpma_peer_cfg_get_direct_write_to_pmem(own, &direct), 0);
  EXPECT_FALSE(direct);
  for (const bool supported : {true, false}) {
    EXPECT_EQ(rpma_peer_cfg_set_direct_write_to_pmem(own, supported), 0);
    size_t size = 0;
    EXPECT_EQ(rpma_peer_cfg_get_descriptor_size(own, &size), 0);
    ASSERT_EQ(size, 1u);
    uint8_t descriptor = 0xa5;
    EXPECT_EQ(rpma_peer_cfg_get_descriptor(own, &descriptor), 0);
    EXPECT_EQ(descriptor, supported ? 1 : 0);
    ASSERT_EQ(rpma_peer_cfg_from_descriptor(&descriptor, size, &theirs), 0);
    EXPECT_EQ(rpma_peer_cfg_get_direct_write_to_pmem(theirs, &direct), 0);
    EXPECT_EQ(direct, supported);
    EXPECT_EQ(rpma_peer_cfg_delete(&theirs), 0);
  }
  EXPECT_EQ(rpma_peer_cfg_delete(&own), 0);
  EXPECT_EQ(own, nullptr);
  EXPECT_EQ(rpma_peer_cfg_delete(&own), 0);
}

TEST(RpmaPeerDescriptions, RefuseNullAndShortDescriptors) {
  const Log log;
  rpma_peer_cfg *cfg = nullptr, *none = nullptr;
  ASSERT_EQ(rpma_peer_cfg_new(&cfg), 0);
  bool direct = false;
  size_t size = 0;
  uint8_t descriptor = 0;
  EXPECT_REFUSED(rpma_peer_cfg_new(nullptr), RPMA_E_INVAL, "pcfg_ptr");
  EXPECT_REFUSED(rpma_peer_cfg_delete(nullptr), RPMA_E_INVAL, "pcfg_ptr");
  EXPECT_REFUSED(rpma_peer_cfg_set_direct_write_to_pmem(nullptr, true), RPMA_E_INVAL, "pcfg");
  EXPECT_REFUSED(rpma_peer_cfg_get_direct_write_to_pmem(nullptr, &direct), RPMA_E_INVAL, "pcfg");
  EXPECT_REFUSED(rpma_peer_cfg_get_direct_write_to_pmem(cfg, nullptr), RPMA_E_INVAL, "supported");
  EXPECT_REFUSED(rpma_peer_cfg_get_descriptor(nullptr, &descriptor), RPMA_E_INVAL, "pcfg");
  EXPECT_REFUSED(rpma_peer_cfg_get_descriptor(cfg, nullptr), RPMA_E_INVAL, "desc");
  EXPECT_REFUSED(rpma_peer_cfg_get_descriptor_size(nullptr, &size), RPMA_E_INVAL, "pcfg");
  EXPECT_REFUSED(rpma_peer_cfg_get_descriptor_size(cfg, nullptr), RPMA_E_INVAL, "desc_size");
  EXPECT_REFUSED(rpma_peer_cfg_from_descriptor(nullptr, 1, &none), RPMA_E_INVAL, "desc");
  EXPECT_REFUSED(rpma_peer_cfg_from_descriptor(&descriptor, 1, nullptr), RPMA_E_INVAL, "pcfg_ptr");
  EXPECT_REFUSED(rpma_peer_cfg_from_descriptor(&descriptor, 0, &none), RPMA_E_INVAL, "shorter than 1");
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(rpma_peer_cfg_delete(&cfg), 0);
}

// Address, size, key and usage, little-endian, in 21 bytes.
std::vector<uint8_t> descriptor_of(uint64_t address, uint64_t bytes, uint32_t key, uint8_t usage) {
  std::vector<uint8_t> to;
  for (int at = 0; at < 64; at += 8) to.push_back(static_cast<uint8_t>(address >> at));
  for (int at = 0; at < 64; at += 8) to.push_back(static_cast<uint8_t>(bytes >> at));
  for (int at = 0; at < 32; at += 8) to.push_back(static_cast<uint8_t>(key >> at));
  to.push_back(usage);
  return to;
}

TEST(RpmaRemoteMemory, IsKnownByItsDescriptor) {
  constexpr uint8_t kUsage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
  // One byte after it is no part of it; more than enough is read.
  std::vector<uint8_t> descriptor = descriptor_of(0x123456789abcdef0, 0x2000, 0xcafe, kUsage);
  descriptor.push_back(0xff);
  rpma_mr_remote* memory = nullptr;
  ASSERT_EQ(rpma_mr_remote_from_descriptor(descriptor.data(), descriptor.size(), &memory), 0);
  size_t bytes = 0;
  int flush_type = 0;
  EXPECT_EQ(rpma_mr_remote_get_size(memory, &bytes), 0);
  EXPECT_EQ(bytes, 0x2000u);
  EXPECT_EQ(rpma_mr_remote_get_flush_type(memory, &flush_type), 0);
  EXPECT_EQ(flush_type, RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
  EXPECT_EQ(rpma_mr_remote_delete(&memory), 0);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(rpma_mr_remote_delete(&memory), 0);
}

TEST(RpmaRemoteMemory, RefusesDescriptorsOfNothing) {
  const Log log;
  rpma_mr_remote* memory = nullptr;
  const auto good = descriptor_of(0x1000, 0x1000, 1, RPMA_MR_USAGE_WRITE_DST);
  EXPECT_REFUSED(rpma_mr_remote_from_descriptor(nullptr, 21, &memory), RPMA_E_INVAL, "desc");
  EXPECT_REFUSED(rpma_mr_remote_from_descriptor(good.data(), 21, nullptr), RPMA_E_INVAL, "mr_ptr");
  EXPECT_REFUSED(rpma_mr_remote_from_descriptor(good.data(), 20, &memory), RPMA_E_INVAL,
                 "20 bytes is shorter than 21");
  const auto useless = descriptor_of(0x1000, 0x1000, 1, 0);
  EXPECT_REFUSED(rpma_mr_remote_from_descriptor(useless.data(), 21, &memory), RPMA_E_NOSUPP, "no use");
  const auto empty = descriptor_of(0x1000, 0, 1, RPMA_MR_USAGE_WRITE_DST);
  EXPECT_REFUSED(rpma_mr_remote_from_descriptor(empty.data(), 21, &memory), RPMA_E_NOSUPP, "no memory");
  const auto wrapped = descriptor_of(UINT64_MAX - 1, 3, 1, RPMA_MR_USAGE_WRITE_DST);
  EXPECT_REFUSED(rpma_mr_remote_from_descriptor(wrapped.data(), 21, &memory), RPMA_E_NOSUPP, "no memory");
  EXPECT_EQ(memory, nullptr);
  size_t bytes = 0;
  int flush_type = 0;
  ASSERT_EQ(rpma_mr_remote_from_descriptor(good.data(), 21, &memory), 0);
  EXPECT_REFUSED(rpma_mr_remote_get_size(nullptr, &bytes), RPMA_E_INVAL, "mr");
  EXPECT_REFUSED(rpma_mr_remote_get_size(memory, nullptr), RPMA_E_INVAL, "size");
  EXPECT_REFUSED(rpma_mr_remote_get_flush_type(nullptr, &flush_type), RPMA_E_INVAL, "mr");
  EXPECT_REFUSED(rpma_mr_remote_get_flush_type(memory, nullptr), RPMA_E_INVAL, "flush_type");
  EXPECT_REFUSED(rpma_mr_remote_delete(nullptr), RPMA_E_INVAL, "mr_ptr");
  EXPECT_EQ(rpma_mr_remote_delete(&memory), 0);
}

TEST(RpmaNames, TellErrorsApart) {
  std::vector<std::string> names;
  for (int error = RPMA_E_NOT_SHARED_CHNL; error <= RPMA_E_UNKNOWN; ++error)
    names.push_back(rpma_err_2str(error));
  names.push_back(rpma_err_2str(0));
  for (size_t one = 0; one < names.size(); ++one)
    for (size_t other = one + 1; other < names.size(); ++other) EXPECT_NE(names[one], names[other]);
  EXPECT_STREQ(rpma_err_2str(1), rpma_err_2str(RPMA_E_UNKNOWN));
}

TEST(RpmaNames, TellEventsApart) {
  std::vector<std::string> names;
  for (int event = RPMA_CONN_UNDEFINED; event <= RPMA_CONN_UNREACHABLE + 1; ++event)
    names.push_back(rpma_utils_conn_event_2str(static_cast<rpma_conn_event>(event)));
  for (size_t one = 0; one < names.size(); ++one)
    for (size_t other = one + 1; other < names.size(); ++other) EXPECT_NE(names[one], names[other]);
}

TEST(RpmaLog, HasThresholds) {
  rpma_log_level level = RPMA_LOG_LEVEL_DEBUG;
  EXPECT_EQ(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &level), 0);
  EXPECT_EQ(level, RPMA_LOG_LEVEL_WARNING);
  EXPECT_EQ(rpma_log_get_threshold(RPMA_LOG_THRESHOLD_AUX, &level), 0);
  EXPECT_EQ(level, RPMA_LOG_DISABLED);
  for (int each = RPMA_LOG_DISABLED; each <= RPMA_LOG_LEVEL_DEBUG; ++each) {
    EXPECT_EQ(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, static_cast<rpma_log_level>(each)), 0);
    EXPECT_EQ(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &level), 0);
    EXPECT_EQ(level, each);
  }
  const Log log;
  EXPECT_REFUSED(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_MAX, RPMA_LOG_DISABLED), RPMA_E_INVAL,
                 "threshold");
  EXPECT_REFUSED(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, static_cast<rpma_log_level>(-2)), RPMA_E_INVAL,
                 "level -2");
  EXPECT_REFUSED(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, static_cast<rpma_log_level>(6)), RPMA_E_INVAL,
                 "level 6");
  EXPECT_REFUSED(rpma_log_get_threshold(RPMA_LOG_THRESHOLD_MAX, &level), RPMA_E_INVAL, "threshold");
  EXPECT_REFUSED(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, nullptr), RPMA_E_INVAL, "null: level");
}

TEST(RpmaLog, GivesMessagesWithTheirPlace) {
  const Log log(RPMA_LOG_LEVEL_INFO);
  const uint8_t descriptor = 1;
  rpma_peer_cfg* cfg = nullptr;
  ASSERT_EQ(rpma_peer_cfg_from_descriptor(&descriptor, 1, &cfg), 0);
  EXPECT_EQ(rpma_peer_cfg_new(nullptr), RPMA_E_INVAL);
  EXPECT_EQ(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED), 0);
  EXPECT_EQ(rpma_peer_cfg_new(nullptr), RPMA_E_INVAL);
  ASSERT_EQ(Log::messages().size(), 2u);
  const Log::Message &info = Log::messages()[0], &error = Log::messages()[1];
  EXPECT_EQ(info.level, RPMA_LOG_LEVEL_INFO);
  EXPECT_EQ(info.function, "rpma_peer_cfg_from_descriptor");
  EXPECT_EQ(error.level, RPMA_LOG_LEVEL_ERROR);
  EXPECT_EQ(error.function, "rpma_peer_cfg_new");
  EXPECT_EQ(error.file, "peer_cfg.cpp");
  EXPECT_GT(error.line, 1);
  EXPECT_EQ(error.text.back(), '\n');
  EXPECT_EQ(rpma_peer_cfg_delete(&cfg), 0);
}

TEST(RpmaLog, GoesToStandardErrorByItsSecondThreshold) {
  ASSERT_EQ(rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION), 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(rpma_peer_cfg_new(nullptr), RPMA_E_INVAL);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_EQ(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_ERROR), 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(rpma_peer_cfg_new(nullptr), RPMA_E_INVAL);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("rpma error: peer_cfg.cpp:"), std::string::npos) << said;
  EXPECT_NE(said.find("rpma_peer_cfg_new: null: pcfg_ptr\n"), std::string::npos) << said;
  EXPECT_EQ(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED), 0);
}

}  // namespace
}  // namespace verbatim::conformance
