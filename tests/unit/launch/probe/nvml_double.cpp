// SPDX-License-Identifier: Apache-2.0
// A double of NVML, for a machine without a driver: two cards that are joined by three NVLinks, of
// which one is down; one behind switches; one without NVLink, of which nothing is known.
#include <cstdio>
#include <cstring>

namespace {

struct PciInfo {
  char legacy_address[16];
  unsigned domain, bus, device, ids[2];
  char address[32];
};
struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency;
  unsigned type;
  int result;
  unsigned long long value;
};
static_assert(sizeof(PciInfo) == 68 && sizeof(FieldValue) == 40);

struct Card {
  const char* uuid;
  unsigned bus;
  int peer;  // in kCards; -1: switches
  unsigned links;
  unsigned generation;
};
const Card kCards[] = {{"GPU-left", 0x3b, 1, 3, 3},
                       {"GPU-right", 0xaf, 0, 3, 3},
                       {"GPU-switched", 5, -1, 18, 5},
                       {"GPU-plain", 6, -1, 0, 0}};

enum { kSuccess = 0, kInvalid = 2, kNotSupported = 3, kNotFound = 6 };
int users = 0;

const Card& card_of(void* device) { return *static_cast<const Card*>(device); }

}  // namespace

extern "C" {

int nvml_double_users() { return users; }

int nvmlInit_v2() {
  ++users;
  return kSuccess;
}
int nvmlShutdown() {
  --users;
  return kSuccess;
}
const char* nvmlErrorString(int) { return "an error"; }

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  for (const Card& card : kCards) {
    if (std::strcmp(card.uuid, uuid) != 0) continue;
    *device = const_cast<Card*>(&card);
    return kSuccess;
  }
  return kNotFound;
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  if (card_of(device).generation == 0) return kNotSupported;
  memory[0] = 16'000'000'000;
  memory[1] = 15'000'000'000;
  memory[2] = 1'000'000'000;
  return kSuccess;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* generation) {
  *generation = card_of(device).generation;
  return *generation > 0 ? kSuccess : kNotSupported;
}
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* width) {
  *width = 16;
  return kSuccess;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* up) {
  const Card& card = card_of(device);
  if (card.links == 0) return kNotSupported;
  if (link >= card.links) return kInvalid;
  *up = card.peer < 0 || link != 1 ? 1 : 0;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned, unsigned* type) {
  *type = card_of(device).peer < 0 ? 2 : 0;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned, PciInfo* info) {
  const Card& card = card_of(device);
  info->domain = 0;
  info->bus = card.peer < 0 ? 0xc1 : kCards[card.peer].bus;
  info->device = 0;
  std::snprintf(info->address, sizeof info->address, "00000000:%02X:00.0", info->bus);
  return kSuccess;
}
int nvmlDeviceGetFieldValues(void* device, int count, FieldValue* values) {
  if (count != 1 || values->field != 90) return kInvalid;
  const bool known = card_of(device).peer >= 0;
  values->result = known ? kSuccess : kNotSupported;
  values->type = 1;
  values->value = 25781;
  return kSuccess;
}
}
