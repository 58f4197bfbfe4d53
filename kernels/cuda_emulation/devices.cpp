// The emulated devices: how many, of which compute capability, and who has used which.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/devices.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda_emulation/control.hpp"
#include "kernels/cuda_emulation/fail.hpp"

namespace trireme::cuda_emulation {
namespace {

constexpr std::size_t KiB = 1024;
constexpr std::array table = {
    Limits{8, 0, 164 * KiB, 163 * KiB, 2048, 32},
    Limits{8, 6, 100 * KiB, 99 * KiB, 1536, 16},
    Limits{8, 9, 100 * KiB, 99 * KiB, 1536, 24},
    Limits{9, 0, 228 * KiB, 227 * KiB, 2048, 32},
    Limits{10, 0, 228 * KiB, 227 * KiB, 2048, 32},
    Limits{12, 0, 100 * KiB, 99 * KiB, 1536, 24},
};
constexpr int most_devices = 16;

const Limits* find_limits(int major, int minor) {
  for (const Limits& entry : table) {
    if (entry.major == major && entry.minor == minor) return &entry;
  }
  return nullptr;
}

const Limits* limits_from_environment() {
  const char* text = std::getenv("TRIREME_EMULATION_CAPABILITY");
  if (text == nullptr) return find_limits(9, 0);
  for (const Limits& entry : table) {
    if (std::to_string(entry.major) + "." + std::to_string(entry.minor) == text)
      return &entry;
  }
  fail(std::string("TRIREME_EMULATION_CAPABILITY = \"") + text +
       "\"; use 8.0, 8.6, 8.9, 9.0, 10.0 or 12.0");
}

const Limits*& chosen() {
  static const Limits* limits = limits_from_environment();
  return limits;
}

int count_from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return 1;
  int count = 0;
  const char* const end = text + std::strlen(text);
  const auto [last, error] = std::from_chars(text, end, count);
  if (error != std::errc() || last != end || count < 1 || count > most_devices)
    fail(std::string(name) + " = \"" + text + "\"; use a whole number from 1 to 16");
  return count;
}

thread_local int device_of_thread = 0;
std::array<bool, most_devices> has_context{};

}  // namespace

const Limits& limits() { return *chosen(); }

void set_capability(int major, int minor) {
  const Limits* found = find_limits(major, minor);
  if (found == nullptr) fail("no limits are known of the compute capability asked for");
  chosen() = found;
}

int device_count() {
  static const int count = count_from_environment("TRIREME_EMULATION_DEVICES");
  return count;
}

int card_of(int device) {
  static const int instances = count_from_environment("TRIREME_EMULATION_INSTANCES");
  return device / instances;
}

int current_device() { return device_of_thread; }

cudaError_t set_current_device(int device) {
  if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
  device_of_thread = device;
  note_context();
  return cudaSuccess;
}

void note_context() { has_context[static_cast<std::size_t>(device_of_thread)] = true; }

int contexts() {
  int count = 0;
  for (const bool has : has_context) count += has ? 1 : 0;
  return count;
}

}  // namespace trireme::cuda_emulation
