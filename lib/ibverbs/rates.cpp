// SPDX-License-Identifier: MIT
// Link rates: multiples of 2.5 Gbit/s, and Mbit/s. One table serves both directions.
#include "lib/ibverbs/public.h"

namespace verbatim::verbs {
namespace {

struct Rate {
  ibv_rate rate;
  int multiple;  ///< 0: none
  int mbps;
};

constexpr Rate kRates[] = {
    {IBV_RATE_2_5_GBPS, 1, 2500},     {IBV_RATE_5_GBPS, 2, 5000},         {IBV_RATE_10_GBPS, 4, 10000},
    {IBV_RATE_14_GBPS, 0, 14062},     {IBV_RATE_20_GBPS, 8, 20000},       {IBV_RATE_25_GBPS, 0, 25781},
    {IBV_RATE_28_GBPS, 11, 28125},    {IBV_RATE_30_GBPS, 12, 30000},      {IBV_RATE_40_GBPS, 16, 40000},
    {IBV_RATE_50_GBPS, 20, 53125},    {IBV_RATE_56_GBPS, 0, 56250},       {IBV_RATE_60_GBPS, 24, 60000},
    {IBV_RATE_80_GBPS, 32, 80000},    {IBV_RATE_100_GBPS, 0, 103125},     {IBV_RATE_112_GBPS, 0, 112500},
    {IBV_RATE_120_GBPS, 48, 120000},  {IBV_RATE_168_GBPS, 0, 168750},     {IBV_RATE_200_GBPS, 0, 206250},
    {IBV_RATE_300_GBPS, 0, 309375},   {IBV_RATE_400_GBPS, 160, 425000},   {IBV_RATE_600_GBPS, 240, 637500},
    {IBV_RATE_800_GBPS, 320, 850000}, {IBV_RATE_1200_GBPS, 480, 1275000},
};

}  // namespace
}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

int ibv_rate_to_mult(ibv_rate rate) {
  for (const Rate& entry : kRates)
    if (entry.rate == rate && entry.multiple != 0) return entry.multiple;
  return -1;
}

ibv_rate mult_to_ibv_rate(int mult) {
  for (const Rate& entry : kRates)
    if (entry.multiple == mult && mult != 0) return entry.rate;
  return IBV_RATE_MAX;
}

int ibv_rate_to_mbps(ibv_rate rate) {
  for (const Rate& entry : kRates)
    if (entry.rate == rate) return entry.mbps;
  return -1;
}

ibv_rate mbps_to_ibv_rate(int mbps) {
  for (const Rate& entry : kRates)
    if (entry.mbps == mbps) return entry.rate;
  return IBV_RATE_MAX;
}

}  // extern "C"
