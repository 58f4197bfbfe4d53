// Matrix products by cuBLASLt: a plan for each kind of product, made at its first call.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/cuda/check.hpp"
#include "base/event.hpp"
#include "base/memory.hpp"
#include "kernels/cuda/common/workspace.hpp"
#include "kernels/cuda/gemm/gemm.hpp"
#include "kernels/cuda/nvidia/lt_plan.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::kernels::cuda {

decltype(kernels::accumulate) accumulate;  // without a time of its own in the profile

namespace {

using trireme::cuda::check;

constexpr int searched = 8;  // proposals that a search times

// What is kept for a device.
struct Library {
  cublasLtHandle_t handle = nullptr;
  int major = 0, minor = 0;  // compute capability
  Buffer workspace;
  std::unordered_map<LtProblem, LtPlan, LtProblemHash> plans;
  std::unordered_set<LtProblem, LtProblemHash> without_plan;

  LtWorkspace working_memory() const {
    return {workspace.view().raw(), workspace.bytes()};
  }
};

// Lives as long as the process: the driver may be gone before a destructor would run.
Library& library(Device device) {
  static auto& libraries = *new std::map<int, Library>;
  check(cudaSetDevice(device.index), "cudaSetDevice");
  const auto found = libraries.find(device.index);
  if (found != libraries.end()) return found->second;
  Library made;
  check_lt(cublasLtCreate(&made.handle), "cublasLtCreate");
  check(cudaDeviceGetAttribute(&made.major, cudaDevAttrComputeCapabilityMajor,
                               device.index),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&made.minor, cudaDevAttrComputeCapabilityMinor,
                               device.index),
        "cudaDeviceGetAttribute");
  const std::int64_t bytes = gemm_workspace_bytes(made.major);
  made.workspace =
      Buffer(device, DType::u8, {bytes}, MemoryClass::workspace, "cuBLASLt workspace");
  return libraries.emplace(device.index, std::move(made)).first->second;
}

cudaDataType_t type_of(DType type) {
  switch (type) {
    case DType::f64: return CUDA_R_64F;
    case DType::f32: return CUDA_R_32F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    case DType::e4m3: return CUDA_R_8F_E4M3;
    case DType::e5m2: return CUDA_R_8F_E5M2;
    default: fail(Status::internal, "cuBLASLt does not multiply {}", name_of(type));
  }
}

std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | 16u;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

LtProblem problem_of(const TensorView& c, const TensorView& a, const TensorView& b,
                     std::int64_t k) {
  LtProblem p;
  p.m = c.dim(0);
  p.n = c.dim(1);
  p.k = k;
  p.a_stride = a.stride(0);
  p.b_stride = b.stride(0);
  p.c_stride = c.stride(0);
  p.c = type_of(c.dtype());
  p.a_alignment = alignment_of(a.raw());
  p.b_alignment = alignment_of(b.raw());
  p.c_alignment = alignment_of(c.raw());
  return p;
}

// Seconds of the product with the plan's algorithm: the least of a few, after one.
double time_of(Library& library, LtPlan& plan, const LtOperands& operands,
               Stream& stream) {
  constexpr int repeats = 5;
  const auto queue = static_cast<cudaStream_t>(stream.native());
  double best = 1e30;
  Event start(stream.device(), Event::Timing::yes),
      end(stream.device(), Event::Timing::yes);
  for (int i = 0; i <= repeats; ++i) {
    start.record(stream);
    plan.run(library.handle, operands, library.working_memory(), queue);
    end.record(stream);
    end.synchronize();
    if (i > 0) best = std::min(best, end.seconds_since(start));
  }
  return best;
}

// The fastest of the proposals. Runs write to memory of their own: sums would be added to
// more than once.
cublasLtMatmulAlgo_t fastest(Library& library, LtPlan& plan, LtOperands operands,
                             const LtProblem& p, DType result, Stream& stream,
                             const std::vector<cublasLtMatmulAlgo_t>& proposals) {
  const std::int64_t elements = (p.m - 1) * p.c_stride + p.n;
  const Buffer c(stream.device(), result, {elements}, MemoryClass::workspace,
                 "search for the fastest product");
  operands.c = c.view().raw();
  std::size_t best = 0;
  double least = 1e30;
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    plan.choose(proposals[i]);
    const double seconds = time_of(library, plan, operands, stream);
    if (seconds >= least) continue;
    least = seconds;
    best = i;
  }
  return proposals[best];
}

// Null where the library has no kernel for it.
LtPlan* find(Library& library, const LtProblem& p, const LtOperands& operands,
             DType result, Stream& stream) {
  const auto found = library.plans.find(p);
  if (found != library.plans.end()) return &found->second;
  if (library.without_plan.contains(p)) return nullptr;
  constexpr std::size_t most_plans = 4096;  // a bound on memory, not met in training
  if (library.plans.size() >= most_plans) library.plans.clear();
  if (library.without_plan.size() >= most_plans) library.without_plan.clear();
  LtPlan plan(p);
  const auto proposals = plan.proposals(
      library.handle, operands, library.workspace.bytes(), gemm_search() ? searched : 1);
  if (proposals.empty()) {
    library.without_plan.insert(p);
    return nullptr;
  }
  plan.choose(proposals.size() == 1
                  ? proposals[0]
                  : fastest(library, plan, operands, p, result, stream, proposals));
  return &library.plans.emplace(p, std::move(plan)).first->second;
}

// False where the library has no kernel for it.
bool try_to_run(const LtProblem& p, const LtOperands& operands, DType result,
                Stream& stream) {
  Library& one = library(stream.device());
  LtPlan* const plan = find(one, p, operands, result, stream);
  if (plan == nullptr) return false;
  plan->run(one.handle, operands, one.working_memory(),
            static_cast<cudaStream_t>(stream.native()));
  return true;
}

void run(const LtProblem& p, const LtOperands& operands, DType result, Stream& stream) {
  if (try_to_run(p, operands, result, stream)) return;
  const Library& one = library(stream.device());
  fail(p.fp8 ? Status::resources : Status::transport,
       "cuBLASLt {} has no product [{}, {}] x [{}, {}] of CUDA types {} and {} into {} "
       "{}on this GPU (compute capability {}.{})",
       cublasLtGetVersion(), p.m, p.k, p.k, p.n, static_cast<int>(p.a),
       static_cast<int>(p.b), static_cast<int>(p.c),
       p.a_scaling == Fp8Scaling::tensor ? "" : "with scales by blocks ", one.major,
       one.minor);
}

LtProblem problem_of(const TensorView& c, const TensorView& a, Transpose transpose_a,
                     const TensorView& b, Transpose transpose_b, Accumulate accumulate) {
  const DType type = a.dtype();
  LtProblem p = problem_of(c, a, b, a.dim(transpose_a == Transpose::yes ? 0 : 1));
  p.a = p.b = type_of(type);
  p.transpose_a = transpose_a == Transpose::yes;
  p.transpose_b = transpose_b == Transpose::yes;
  p.accumulate = accumulate == Accumulate::yes;
  if (type == DType::f64) p.compute = CUBLAS_COMPUTE_64F;
  if (type == DType::f32 && tf32()) p.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  return p;
}

// The second matrix of an epilogue: false if the library cannot take it.
bool add_aux(const TensorView& aux, LtProblem& p, LtOperands& operands) {
  constexpr std::int64_t multiple = 8;  // of which the library wants row lengths to be
  if (aux.stride(0) % multiple != 0 || alignment_of(aux.raw()) < 16) return false;
  p.aux_stride = aux.stride(0);
  operands.aux = aux.raw();
  return true;
}

}  // namespace

// NVIDIA's advice: 32 MiB from Hopper on, 4 MiB before.
std::int64_t gemm_workspace_bytes(int major) {
  return std::int64_t{major >= 9 ? 32 : 4} << 20;
}

void gemm(Stream& stream, const TensorView& c, const TensorView& a, Transpose transpose_a,
          const TensorView& b, Transpose transpose_b, Accumulate accumulate,
          const TensorView& bias) {
  const DType type = a.dtype();
  LtProblem p = problem_of(c, a, transpose_a, b, transpose_b, accumulate);
  LtOperands operands{.a = a.raw(), .b = b.raw(), .c = c.raw()};
  if (!bias.empty()) {
    // The library adds a bias of the result's type, and none to f64. Where it does not,
    // the bias is written first and added to, and the sum is rounded once, too.
    if (c.dtype() == type && type != DType::f64) {
      p.epilogue = CUBLASLT_EPILOGUE_BIAS;
      p.bias_alignment = alignment_of(bias.raw());
      operands.bias = bias.raw();
      if (try_to_run(p, operands, c.dtype(), stream)) return;
      p.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    }
    fill_rows(stream, bias, c);
    p.accumulate = true;
  }
  run(p, operands, c.dtype(), stream);
}

bool gemm_with(Stream& stream, const TensorView& c, const TensorView& a,
               Transpose transpose_a, const TensorView& b, Transpose transpose_b,
               Accumulate accumulate, const GemmEpilogue& epilogue) {
  using Kind = GemmEpilogue::Kind;
  if (a.dtype() == DType::f64) return false;
  LtProblem p = problem_of(c, a, transpose_a, b, transpose_b, accumulate);
  LtOperands operands{.a = a.raw(), .b = b.raw(), .c = c.raw()};
  if (epilogue.kind == Kind::column_sums) {
    // Sums have the result's type, and are written; ours are f32, and added to.
    if (c.dtype() != DType::f32) return false;
    const TensorView sums = workspace(stream, DType::f32, epilogue.vector.shape());
    p.epilogue = CUBLASLT_EPILOGUE_BGRADB;  // the library's right operand is our left one
    operands.bias = sums.raw();
    if (!try_to_run(p, operands, c.dtype(), stream)) return false;
    cuda::accumulate(stream, sums, epilogue.vector);
    return true;
  }
  if (c.dtype() != a.dtype() || !add_aux(epilogue.other, p, operands)) return false;
  if (epilogue.kind == Kind::gelu_backward) {
    p.epilogue = CUBLASLT_EPILOGUE_DGELU;
  } else if (epilogue.vector.empty()) {
    p.epilogue = CUBLASLT_EPILOGUE_GELU_AUX;
  } else {
    p.epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    p.bias_alignment = alignment_of(epilogue.vector.raw());
    operands.bias = epilogue.vector.raw();
  }
  return try_to_run(p, operands, c.dtype(), stream);
}

void gemm_fp8(Stream& stream, const TensorView& c, const Fp8Matrix& a_MK,
              const Fp8Matrix& b_NK, Accumulate accumulate, Fp8Sums sums) {
  const Library& one = library(stream.device());
  const bool by_blocks = a_MK.scaling != Fp8Scaling::tensor;
  const int capability = 10 * one.major + one.minor;
  require(
      capability >= 89, Status::resources,
      "FP8 products need a GPU of compute capability 8.9 or higher; this one has {}.{}",
      one.major, one.minor);
  require(!by_blocks || capability == 90, Status::resources,
          "FP8 products with scales by blocks need a GPU of compute capability 9.0; this "
          "one has {}.{}: use one scale for each tensor",
          one.major, one.minor);
  LtProblem p = problem_of(c, a_MK.codes, b_NK.codes, a_MK.codes.dim(1));
  p.a = type_of(a_MK.format);
  p.b = type_of(b_NK.format);
  p.transpose_b = true;
  p.accumulate = accumulate == Accumulate::yes;
  p.fp8 = true;
  p.fast_sums = sums == Fp8Sums::fast && !by_blocks;
  p.a_scaling = a_MK.scaling;
  p.b_scaling = b_NK.scaling;
  const LtOperands operands{.a = a_MK.codes.raw(),
                            .b = b_NK.codes.raw(),
                            .c = c.raw(),
                            .a_scale = a_MK.scales.raw(),
                            .b_scale = b_NK.scales.raw()};
  run(p, operands, c.dtype(), stream);
}

}  // namespace trireme::kernels::cuda
