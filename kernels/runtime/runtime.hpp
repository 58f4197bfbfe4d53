// Start and end of the kernel libraries, and what they say about themselves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme::kernels {

// Initialises Kokkos and fixes the number of threads of every kernel and GEMM (one pool
// of OpenMP threads). threads = 0: OMP_NUM_THREADS, else the cores this process may run
// on divided by `ranks_on_node`, at least 1. One object for the life of the process.
class Runtime {
 public:
  explicit Runtime(int threads = 0, int ranks_on_node = 1);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
};

// Threads that kernels of this process use; 1 before a Runtime exists.
int threads();
// How many Runtime(0, ranks_on_node) takes.
int usual_threads(int ranks_on_node);
// Cores that one of these threads or several may run on, ascending, as they are bound.
std::vector<int> cores_of_threads();

// Name and version of each library that the kernels are built on, e.g. {"oneDNN",
// "2.6.3"},
// {"OpenBLAS", ...}, {"Kokkos", "3.4.01 (Serial)"}, and the host's instruction set in
// use.
std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace trireme::kernels
