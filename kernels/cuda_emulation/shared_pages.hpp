// Memory that processes of one machine and one user share.
// SPDX-License-Identifier: Apache-2.0
//
// It is a file without a name, which ends with the processes that have it open: nothing
// is left behind by one that is killed.
#pragma once

#include <cstddef>

namespace trireme::cuda_emulation {

// A file of `bytes` zeros, which stays open in this process until it is closed. `label`
// is seen in lists of open files.
int make_shared_pages(const char* label, std::size_t bytes);

// The pages of a file that process `process` has open as `file`. Ends this process with a
// message where there is none; the second returns null then.
void* map_shared_pages(int process, int file, std::size_t bytes);
void* try_map_shared_pages(int process, int file, std::size_t bytes);

void unmap_shared_pages(void* pages, std::size_t bytes);

}  // namespace trireme::cuda_emulation
