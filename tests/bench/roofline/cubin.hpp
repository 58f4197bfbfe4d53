// Reads the kernels of a cubin: code, registers and shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::bench {

// One instruction of a GPU, 128 bits.
struct Instruction {
  std::uint64_t low = 0, high = 0;
};

// One kernel, or a function that kernels call.
struct KernelCode {
  std::string name;               // without namespaces and arguments: norm_rows<false, 8>
  int capability = 0;             // 80, 90, 100
  int registers = 0;              // of a thread
  std::int64_t shared_bytes = 0;  // static
  std::vector<Instruction> code;
};

// All kernels of a file that nvcc -cubin wrote. Throws Error(bad_content) where it is
// none, Error(missing_input) where it is not there.
std::vector<KernelCode> read_cubin(const std::filesystem::path& path);

// "void a::b<int>(a::c)" without what stands around b<int>.
std::string short_name(const std::string& demangled);

}  // namespace trireme::bench
