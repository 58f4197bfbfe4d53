// Emulated turns of blocks: whether a turn has come.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_machine/turns.cuh>
#include <source_location>
#include <string>

namespace trireme::cuda_emulation {

void check_turn(const unsigned* counter, unsigned turn,
                const std::source_location& where) {
  if (*counter == turn) return;
  const std::string message =
      "turn " + std::to_string(turn) + " is waited for, but it is turn " +
      std::to_string(*counter) +
      ", and every other block that started has ended: the kernel would hang";
  fail_in_kernel(message.c_str(), where);
}

}  // namespace trireme::cuda_emulation
