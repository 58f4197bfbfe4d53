// An attention problem whose results are sums over parts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention_case.hpp"
#include "kernels/gemm/amx_tile.hpp"
#include "kernels/gemm/bf16_product.hpp"

namespace trireme::test {

// A case whose results are accumulators, in strided buffers.
template <class T>
struct PartCase : AttentionCase<T> {
  using Base = AttentionCase<T>;
  using A = Accumulator<T>;

  explicit PartCase(const kernels::AttentionShape& with, std::int64_t columns_beside = 5)
      : Base(with, 1, columns_beside),
        sums_of_(buffer(dtype_of<A>, {Base::rows, 2 * width()})) {
    fill<A>(sums_of_.view(), Base::untouched);
    fill<A>(Base::lse(), Base::untouched);
  }

  TensorView o_sum() const { return sums_of_.view().columns(0, Base::query_width); }
  TensorView dq_sum() const {
    return sums_of_.view().columns(Base::query_width, Base::query_width);
  }
  TensorView dk_sum() const {
    return sums_of_.view().columns(2 * Base::query_width, Base::key_width);
  }
  TensorView dv_sum() const {
    return sums_of_.view().columns(2 * Base::query_width + Base::key_width,
                                   Base::key_width);
  }

  void forward(const kernels::AttentionPart& part) {
    OnDevice on({&this->fused, &this->sums, &this->first_keys, &sums_of_});
    kernels::attention_part(on.stream, on.scratch, on(this->shape), part, on(this->q()),
                            on(this->k()), on(this->v()), on(o_sum()), on(this->lse()));
    EXPECT_EQ(on.scratch.mark(), 0U);
    on.copy_back();
  }
  // Rounds the outputs, as a caller does before backward.
  void round() {
    for (std::int64_t r = 0; r < this->rows; ++r)
      for (std::int64_t c = 0; c < this->query_width; ++c)
        this->o().template data<T>()[r * this->o().stride(0) + c] =
            kernels::store<T>(o_sum().template data<A>()[r * o_sum().stride(0) + c]);
  }
  void backward(const kernels::AttentionPart& part) {
    OnDevice on({&this->fused, &this->outputs, &this->d_outputs, &this->sums,
                 &this->first_keys, &sums_of_});
    kernels::attention_part_backward(on.stream, on.scratch, on(this->shape), part,
                                     on(this->d_o()), on(this->q()), on(this->k()),
                                     on(this->v()), on(this->o()), on(this->lse()),
                                     on(dq_sum()), on(dk_sum()), on(dv_sum()));
    EXPECT_EQ(on.scratch.mark(), 0U);
    on.copy_back();
  }

 private:
  std::int64_t width() const { return Base::query_width + Base::key_width; }
  Buffer sums_of_;
};

// Beside the errors of the whole, each merge rounds o and lse to the accumulator dtype;
// an error of lse, of size up to 10, is one of e^lse.
template <class T>
double merged(const PartCase<T>& x, std::size_t segments) {
  return x.accumulated() + 12 * epsilon<Accumulator<T>>() * static_cast<double>(segments);
}

// What sums of a part err beside that. A host that multiplies bf16 itself rounds each
// probability to it, by half an epsilon at most: errors of single keys fall either way,
// so that those of a sum of keys stay below as much of its size.
template <class T>
double merged_sums(const PartCase<T>& x, std::size_t segments) {
  const bool rounds = std::is_same_v<T, BFloat16> && test_device() == Device::host() &&
                      (kernels::bf16_products_pay() || kernels::has_amx());
  return merged(x, segments) + (rounds ? epsilon<T>() / 2 : 0);
}

}  // namespace trireme::test
