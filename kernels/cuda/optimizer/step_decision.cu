// Decisions about a step on a GPU: one block, whose first thread adds up in rank order.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/common/launch.cuh"
#include "kernels/step_decision.hpp"

namespace trireme::kernels::cuda {
namespace {

constexpr int threads = 256;

// Rows come to shared memory by all threads. Divisions, sums and the root are those of
// IEEE, and nothing here is a product and a sum that could become one operation: the bits
// are the host's.
__global__ void __launch_bounds__(threads)
    decide_kernel(StepRule rule, const double* rows, std::int64_t ranks,
                  double* decision) {
  __shared__ double losses[threads], squares[threads];
  math::StepSums sums(rule.in_stage, rule.tensor);
  for (std::int64_t first = 0; first < ranks; first += threads) {
    const std::int64_t rank = first + threadIdx.x;
    if (rank < ranks) {
      losses[threadIdx.x] = rows[2 * rank] / rule.items;
      squares[threadIdx.x] = rows[2 * rank + 1];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      const auto count =
          static_cast<int>(ranks - first < threads ? ranks - first : threads);
      for (int i = 0; i < count; ++i) sums.add(losses[i], squares[i]);
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const double loss = sums.loss(), norm = sqrt(sums.squares());
  decision[decided_loss] = loss;
  decision[decided_norm] = norm;
  decision[decided_scale] = math::clipping(rule.clip, norm);
  decision[decided_sound] = math::is_sound(rule.limits, loss, norm) ? 1.0 : 0.0;
}

}  // namespace

void decide_step(Stream& stream, const StepRule& rule, const TensorView& rows_P2,
                 const TensorView& decision) {
  launch(stream, Grid{dim3(1), dim3(threads)}, decide_kernel, rule,
         rows_P2.data<double>(), rows_P2.dim(0), decision.data<double>());
}

}  // namespace trireme::kernels::cuda
