// Descriptors, layouts and algorithms of cuBLASLt.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/nvidia/lt_plan.hpp"

#include "base/fnv.hpp"

namespace trireme::kernels::cuda {

void check_lt(cublasStatus_t status, const char* call) {
  require(status == CUBLAS_STATUS_SUCCESS, Status::transport, "{} failed: {} ({})", call,
          cublasLtGetStatusString(status), cublasLtGetStatusName(status));
}

bool LtProblem::has_bias() const {
  return epilogue == CUBLASLT_EPILOGUE_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

bool LtProblem::has_aux() const {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
         epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_DGELU;
}

std::size_t LtProblemHash::operator()(const LtProblem& p) const {
  std::uint64_t h = fnv64_basis;
  const auto mix = [&](auto value) {
    h = fnv64_with(h, static_cast<std::uint64_t>(value));
  };
  for (const auto value : {p.m, p.n, p.k, p.a_stride, p.b_stride, p.c_stride}) mix(value);
  for (const auto type : {p.a, p.b, p.c}) mix(type);
  mix(p.compute);
  for (const bool flag : {p.transpose_a, p.transpose_b, p.accumulate, p.fp8, p.fast_sums})
    mix(flag);
  mix(p.epilogue);
  mix(p.aux_stride);
  mix(p.a_scaling);
  mix(p.b_scaling);
  for (const auto bytes :
       {p.a_alignment, p.b_alignment, p.c_alignment, p.bias_alignment, p.aux_alignment})
    mix(bytes);
  return h ^ (h >> 29);
}

template <>
void LtPlan::Destroy<cublasLtMatmulDescOpaque_t>::operator()(
    cublasLtMatmulDescOpaque_t* opaque) const {
  cublasLtMatmulDescDestroy(opaque);
}
template <>
void LtPlan::Destroy<cublasLtMatrixLayoutOpaque_t>::operator()(
    cublasLtMatrixLayoutOpaque_t* opaque) const {
  cublasLtMatrixLayoutDestroy(opaque);
}

// A row-major matrix as the library's column-major one: its columns are our rows.
LtPlan::Layout LtPlan::make_layout(cudaDataType_t type, std::int64_t rows,
                                   std::int64_t columns, std::int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_lt(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(columns),
                                      static_cast<std::uint64_t>(rows), stride),
           "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

LtPlan::LtPlan(const LtProblem& p) : problem_(p) {
  const bool f64 = p.compute == CUBLAS_COMPUTE_64F;
  cublasLtMatmulDesc_t operation = nullptr;
  check_lt(cublasLtMatmulDescCreate(&operation, p.compute, f64 ? CUDA_R_64F : CUDA_R_32F),
           "cublasLtMatmulDescCreate");
  operation_.reset(operation);
  const auto orientation = [](bool transpose) {
    return transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, orientation(p.transpose_b));
  set(CUBLASLT_MATMUL_DESC_TRANSB, orientation(p.transpose_a));
  // A bias of the library has an element for each of its rows, which are our columns.
  if (p.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
  if (p.has_aux()) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.aux_stride);
  if (p.fp8) set_scaling();
  if (p.fast_sums) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  a_ = p.transpose_a ? make_layout(p.a, p.k, p.m, p.a_stride)
                     : make_layout(p.a, p.m, p.k, p.a_stride);
  b_ = p.transpose_b ? make_layout(p.b, p.n, p.k, p.b_stride)
                     : make_layout(p.b, p.k, p.n, p.b_stride);
  c_ = make_layout(p.c, p.m, p.n, p.c_stride);
}

#if CUBLAS_VERSION >= 120900
void LtPlan::set_scaling() {
  const auto mode = [](Fp8Scaling scaling) {
    switch (scaling) {
      case Fp8Scaling::row_128: return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
      case Fp8Scaling::block_128: return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
      default: return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    }
  };
  set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode(problem_.b_scaling));
  set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode(problem_.a_scaling));
}
#else  // older libraries know one scale for each tensor, and no mode
void LtPlan::set_scaling() {
  require(problem_.a_scaling == Fp8Scaling::tensor &&
              problem_.b_scaling == Fp8Scaling::tensor,
          Status::resources,
          "FP8 products with scales by blocks need cuBLAS 12.9 or later: build with a "
          "newer CUDA toolkit, or use one scale for each tensor");
}
#endif

void LtPlan::set_pointers(const LtOperands& operands) {
  if (problem_.has_bias()) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  if (problem_.has_aux()) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.aux);
  if (!problem_.fp8) return;
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.b_scale);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.a_scale);
}

std::vector<cublasLtMatmulAlgo_t> LtPlan::proposals(cublasLtHandle_t handle,
                                                    const LtOperands& operands,
                                                    std::size_t workspace_bytes,
                                                    int most) {
  set_pointers(operands);
  cublasLtMatmulPreference_t preference = nullptr;
  check_lt(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                        cublasStatus_t (*)(cublasLtMatmulPreference_t)>
      owned(preference, &cublasLtMatmulPreferenceDestroy);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute,
                          const auto& value) {
    check_lt(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value,
                                                  sizeof(value)),
             "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
         static_cast<std::uint64_t>(workspace_bytes));
  // Where K is split, partial sums stay in f32: they are rounded once, at the end.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, problem_.b_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, problem_.a_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, problem_.c_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, problem_.c_alignment);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, operation_.get(), b_.get(), a_.get(), c_.get(), c_.get(), preference, most,
      results.data(), &count);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  // A release may answer a combination that it does not know with something else than
  // "not supported": with such an epilogue there is a way without it, so any refusal is
  // one.
  const bool may_refuse = problem_.epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED ||
      (may_refuse && status != CUBLAS_STATUS_SUCCESS))
    return algorithms;
  check_lt(status, "cublasLtMatmulAlgoGetHeuristic");
  for (int i = 0; i < count; ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

void LtPlan::run(cublasLtHandle_t handle, const LtOperands& operands,
                 const LtWorkspace& workspace, cudaStream_t stream) {
  set_pointers(operands);
  const double one = 1, zero = 0;
  const float one_f32 = 1, zero_f32 = 0;
  const bool f64 = problem_.compute == CUBLAS_COMPUTE_64F;
  const void* alpha = f64 ? static_cast<const void*>(&one) : &one_f32;
  const void* beta = f64 ? static_cast<const void*>(problem_.accumulate ? &one : &zero)
                         : (problem_.accumulate ? &one_f32 : &zero_f32);
  check_lt(
      cublasLtMatmul(handle, operation_.get(), alpha, operands.b, b_.get(), operands.a,
                     a_.get(), beta, operands.c, c_.get(), operands.c, c_.get(),
                     &algorithm_, workspace.memory, workspace.bytes, stream),
      "cublasLtMatmul");
}

}  // namespace trireme::kernels::cuda
