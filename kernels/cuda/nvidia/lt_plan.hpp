// One kind of matrix product as cuBLASLt knows it: descriptors, layouts, an algorithm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "kernels/fp8.hpp"

namespace trireme::kernels::cuda {

// Throws Error(transport) naming the call and cuBLASLt's words for the error.
void check_lt(cublasStatus_t status, const char* call);

// Everything that the choice of an algorithm depends on. The library's matrices are
// column-major: a row-major C = A B is its C^T = B^T A^T, so its left operand is our B,
// its right one our A, and its number of rows our N.
struct LtProblem {
  std::int64_t m = 0, n = 0, k = 0;  // ours
  std::int64_t a_stride = 0, b_stride = 0, c_stride = 0;
  cudaDataType_t a = CUDA_R_32F, b = CUDA_R_32F, c = CUDA_R_32F;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false, fp8 = false, fast_sums = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int64_t aux_stride = 0;  // of the epilogue's second matrix
  Fp8Scaling a_scaling = Fp8Scaling::tensor, b_scaling = Fp8Scaling::tensor;
  // Powers of two, at most 16, beyond which no kernel asks: how memory happens to lie
  // must not choose the algorithm.
  std::uint32_t a_alignment = 16, b_alignment = 16, c_alignment = 16, bias_alignment = 16,
                aux_alignment = 16;

  // Whether the epilogue reads or writes a vector and a second matrix.
  bool has_bias() const;
  bool has_aux() const;

  bool operator==(const LtProblem&) const = default;
};

struct LtProblemHash {
  std::size_t operator()(const LtProblem& p) const;
};

// The device pointers of one product; a scale for each FP8 operand.
struct LtOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;  // written by an epilogue that sums
  const void* aux = nullptr;   // written by an epilogue that keeps what it is given
  const void* a_scale = nullptr;
  const void* b_scale = nullptr;
};

struct LtWorkspace {
  void* memory = nullptr;
  std::size_t bytes = 0;
};

class LtPlan {
 public:
  // Throws Error(transport) when the library refuses.
  explicit LtPlan(const LtProblem& problem);

  // The library's best proposals for it, the best first; may be none.
  std::vector<cublasLtMatmulAlgo_t> proposals(cublasLtHandle_t handle,
                                              const LtOperands& operands,
                                              std::size_t workspace_bytes, int most);
  void choose(const cublasLtMatmulAlgo_t& algorithm) { algorithm_ = algorithm; }
  void run(cublasLtHandle_t handle, const LtOperands& operands,
           const LtWorkspace& workspace, cudaStream_t stream);

 private:
  template <class T>
  struct Destroy {
    void operator()(T* opaque) const;
  };
  template <class Opaque>
  using Owned = std::unique_ptr<Opaque, Destroy<Opaque>>;
  using Layout = Owned<cublasLtMatrixLayoutOpaque_t>;

  static Layout make_layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                            std::int64_t stride);
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check_lt(cublasLtMatmulDescSetAttribute(operation_.get(), attribute, &value,
                                            sizeof(value)),
             "cublasLtMatmulDescSetAttribute");
  }
  void set_scaling();
  void set_pointers(const LtOperands& operands);

  LtProblem problem_;
  Owned<cublasLtMatmulDescOpaque_t> operation_;
  Layout a_, b_, c_;
  cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace trireme::kernels::cuda
