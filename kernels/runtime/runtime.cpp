// Start and end of the kernel libraries: Kokkos, OpenMP, oneDNN and BLAS as one pool.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/runtime.hpp"

#include <dnnl.h>
#include <omp.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/cpu_place.hpp"
#include "base/environment.hpp"
#include "base/error.hpp"
#include "base/find_function.hpp"
#include "base/thread_signals.hpp"

namespace trireme::kernels {
namespace {

// Kokkos and oneDNN take their settings from the environment when they are first called:
// another number of threads (with which Kokkos would not start), code to load, narrower
// types for sums in fp32, text on standard output, files of generated code. Only which
// instructions oneDNN may use is left to the user. docs/decisions/environment.md lists
// them.
const bool environment_is_clear = forget_variables(
    {"KOKKOS_", "DNNL_", "ONEDNN_"}, {"DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA",
                                      "DNNL_CPU_ISA_HINTS", "ONEDNN_CPU_ISA_HINTS"});

int pool_threads = 1;
bool runtime_exists = false;

void start_kokkos(int threads) {
#if KOKKOS_VERSION < 30700  // InitArguments became InitializationSettings
  Kokkos::InitArguments arguments;
  arguments.num_threads = threads;
  arguments.disable_warnings = true;
  Kokkos::initialize(arguments);
#else
  Kokkos::initialize(
      Kokkos::InitializationSettings().set_num_threads(threads).set_disable_warnings(
          true));
#endif
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return format("{}.{}.{}", version->major, version->minor, version->patch);
}

// OpenBLAS's own calls are absent from other libraries.
std::string blas_version() {
  auto* const config = find_function<char*()>("openblas_get_config");
  return config != nullptr ? std::string(config()) : "other than OpenBLAS";
}

std::string kokkos_version() {
  constexpr int patch = KOKKOS_VERSION % 100;
  return format("{}.{}.{}{} ({})", KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100,
                patch < 10 ? "0" : "", patch, Kokkos::DefaultHostExecutionSpace::name());
}

// The widest set for which this program was compiled.
std::string compiled_isa() {
#if defined(__AVX512BF16__)
  return "AVX-512 with bf16";
#elif defined(__AVX512F__)
  return "AVX-512";
#elif defined(__AVX2__)
  return "AVX2";
#elif defined(__aarch64__)
  return "AArch64";
#else
  return "baseline";
#endif
}

// What oneDNN generates code for. A set contains the bits of those below it.
std::string onednn_isa() {
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  const auto has = [&](dnnl_cpu_isa_t set) { return (isa & set) == set; };
  if (isa == 0) return "all";  // no limit, under different names in oneDNN 2 and 3
  if (has(dnnl_cpu_isa_avx512_core_amx)) return "AMX";
  if (has(dnnl_cpu_isa_avx512_core_bf16)) return "AVX-512 with bf16";
  if (has(dnnl_cpu_isa_avx512_core)) return "AVX-512";
  if (has(dnnl_cpu_isa_avx2)) return "AVX2";
  return "baseline";
}

}  // namespace

Runtime::Runtime(int threads, int ranks_on_node) {
  require(!runtime_exists, "there is one kernels::Runtime in a process");
  require(environment_is_clear, "kernels are used before the program has begun");
  pool_threads = threads > 0 ? threads : usual_threads(ranks_on_node);
  omp_set_dynamic(0);
  omp_set_num_threads(pool_threads);
  if (auto* const set = find_function<void(int)>("openblas_set_num_threads"))
    set(pool_threads);
  if (!Kokkos::is_initialized()) start_kokkos(pool_threads);
#pragma omp parallel num_threads(pool_threads)
  use_signal_stack();
  runtime_exists = true;
}

Runtime::~Runtime() {
  if (Kokkos::is_initialized()) Kokkos::finalize();
  pool_threads = 1;
  runtime_exists = false;
}

int threads() { return pool_threads; }

int usual_threads(int ranks_on_node) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr)
    return std::max(1, omp_get_max_threads());
  return std::max(1,
                  static_cast<int>(allowed_cores().size()) / std::max(1, ranks_on_node));
}

std::vector<int> cores_of_threads() {
  std::vector<std::vector<int>> of_each(static_cast<std::size_t>(pool_threads));
#pragma omp parallel num_threads(pool_threads)
  of_each[static_cast<std::size_t>(omp_get_thread_num())] = cores_of_this_thread();
  std::set<int> all;
  for (const std::vector<int>& cores : of_each) all.insert(cores.begin(), cores.end());
  return {all.begin(), all.end()};
}

std::vector<std::pair<std::string, std::string>> library_versions() {
  return {{"oneDNN", onednn_version()},
          {"BLAS", blas_version()},
          {"Kokkos", kokkos_version()},
          {"OpenMP", format("{} ({} threads)", _OPENMP, pool_threads)},
          {"instruction set",
           format("{} compiled, {} in oneDNN", compiled_isa(), onednn_isa())}};
}

}  // namespace trireme::kernels
