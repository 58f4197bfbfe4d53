// Places: which kernels of NCCL are on the emulated device at the same time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

namespace trireme::cuda_emulation::nccl {

struct Kernel;

// A kernel without a limit of blocks takes the one large place; the others share the rest
// of the blocks. A kernel that finds no room waits; of those that wait for the large
// place the oldest gets it, after what else is ready has had its turn to ask.
class Places {
 public:
  std::uint64_t next_number() { return ++last_number_; }
  // `limit`: blocks of the kernel; 0: as many as NCCL likes. True: it runs from now on.
  bool enter(const Kernel& kernel, int limit);
  void leave(const Kernel& kernel);

 private:
  static constexpr int small_blocks = 100;  // of 132, which leaves the large place 32

  std::uint64_t last_number_ = 0;
  std::uint64_t large_ = 0;  // the number of who has it; 0: nobody
  std::map<std::uint64_t, std::uint64_t>
      asks_;                            // number: the round of its first question
  std::map<std::uint64_t, int> small_;  // number: its blocks
};

Places& places();

}  // namespace trireme::cuda_emulation::nccl
