// Memory that processes of one machine and one user share.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/shared_pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "kernels/cuda_emulation/fail.hpp"

namespace trireme::cuda_emulation {

int make_shared_pages(const char* label, std::size_t bytes) {
  const int file = ::memfd_create(label, MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0)
    fail(std::string("no memory to share: ") + std::strerror(errno));
  return file;
}

void* try_map_shared_pages(int process, int file, std::size_t bytes) {
  const std::string path =
      "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file);
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) return nullptr;
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
  ::close(opened);
  return pages == MAP_FAILED ? nullptr : pages;
}

void* map_shared_pages(int process, int file, std::size_t bytes) {
  void* const pages = try_map_shared_pages(process, file, bytes);
  if (pages == nullptr)
    fail("memory of process " + std::to_string(process) +
         " cannot be shared: " + std::strerror(errno));
  return pages;
}

void unmap_shared_pages(void* pages, std::size_t bytes) { ::munmap(pages, bytes); }

}  // namespace trireme::cuda_emulation
