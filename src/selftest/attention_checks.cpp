// Attention forward and backward, in parts, with documents, and cuDNN's against our own.
// SPDX-License-Identifier: Apache-2.0
// Legend: B sequences, S positions, T = B * S, H query heads, G key/value heads, K width.
#include <cmath>

#include "base/split.hpp"
#include "kernels/attention.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/paged_attention.hpp"
#include "kernels/reference/attention.hpp"
#include "kernels/runtime/cuda_version.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

namespace reference = kernels::reference;
using kernels::AttentionShape;

AttentionShape shape_of(std::int64_t B, std::int64_t S, std::int64_t K, std::int64_t G,
                        std::vector<std::int32_t> kv_head) {
  const auto H = static_cast<std::int64_t>(kv_head.size());
  const double scale = 1 / std::sqrt(static_cast<double>(K));
  return {B, S, H, G, K, scale, std::move(kv_head)};
}

// One attention with all its tensors. Operands are columns of wider matrices, which begin
// at multiples of 16 bytes, as tensor cores want them.
struct Case {
  Case(Probe& on, DType of, AttentionShape with)
      : probe(on),
        dtype(of),
        shape(std::move(with)),
        T(shape.batch * shape.sequence),
        Q(shape.heads * shape.head_width),
        R(shape.kv_heads * shape.head_width),
        q(on.normal(of, {T, Q}, 1, 8)),
        k(on.normal(of, {T, R}, 2, 8)),
        v(on.normal(of, {T, R}, 3, 8)),
        d_o(on.normal(of, {T, Q}, 4)),
        o(on.zeros(of, {T, Q}, 8)),
        dq(on.zeros(of, {T, Q}, 8)),
        dk(on.zeros(of, {T, R}, 8)),
        dv(on.zeros(of, {T, R}, 8)),
        lse(on.zeros(accumulator_of(of), {T, shape.heads})) {}

  void compute() {
    forward();
    backward();
  }
  void forward() {
    kernels::attention(probe.stream(), probe.scratch(), shape, q, k, v, o, lse);
  }
  void backward() {
    kernels::attention_backward(probe.stream(), probe.scratch(), shape, d_o, q, k, v, o,
                                lse, dq, dk, dv);
  }

  // A bound of the relative error of probabilities: a score is a sum of K products, an
  // output one of S, and errors of scores grow with the scores.
  double accumulated() const {
    const auto n = static_cast<double>(shape.sequence + shape.head_width);
    return 8 * roundoff(accumulator_of(dtype)) * std::sqrt(n);
  }
  // What rounding to 16 bits adds: tensor cores round probabilities, and their gradients,
  // too.
  double rounding(double times) const { return times * 2 * roundoff(dtype); }
  // Gradients that are zero, with one position, are sums of S terms of size 1 with
  // probabilities of size 1 / S.
  double floor(const Vector& gradient) const {
    return std::sqrt(static_cast<double>(gradient.size()) /
                     static_cast<double>(shape.sequence));
  }

  void compare_forward(const std::vector<Range>& visible) {
    const auto forward =
        reference::attention(shape, visible, q.values(), k.values(), v.values());
    probe.relative(o.values(), forward.o_THK, accumulated() + rounding(1));
    probe.relative(lse.values(), forward.lse_TH, accumulated(),
                   std::sqrt(static_cast<double>(forward.lse_TH.size())));
  }

  void compare(const std::vector<Range>& visible) {
    compare_forward(visible);
    const auto backward = reference::attention_backward(
        shape, visible, d_o.values(), q.values(), k.values(), v.values());
    // ds = p (dp - delta) cancels, with an error of delta from o rounded.
    const double bound = 3 * accumulated() + rounding(3);
    probe.relative(dq.values(), backward.dq_THK, bound, floor(backward.dq_THK));
    probe.relative(dk.values(), backward.dk_TGK, bound, floor(backward.dk_TGK));
    probe.relative(dv.values(), backward.dv_TGK, bound);
  }

  Probe& probe;
  DType dtype;
  AttentionShape shape;
  std::int64_t T, Q, R;
  Tensor q, k, v, d_o, o, dq, dk, dv, lse;
};

// For as long as a check lasts.
class Choice {
 public:
  explicit Choice(kernels::AttentionLibrary library)
      : before_(kernels::attention_library()) {
    kernels::set_attention_library(library);
  }
  ~Choice() { kernels::set_attention_library(before_); }
  Choice(const Choice&) = delete;
  Choice& operator=(const Choice&) = delete;

 private:
  kernels::AttentionLibrary before_;
};

}  // namespace

// Sequences around the sizes of tiles, widths that tensor cores take and others, grouped
// heads in any order.
void check_attention(Probe& probe, DType dtype) {
  const Choice own(kernels::AttentionLibrary::own);
  for (const AttentionShape& shape :
       {shape_of(2, 1, 20, 2, {1, 0, 1}), shape_of(2, 65, 20, 2, {1, 0, 1}),
        shape_of(1, 65, 64, 2, {0, 0, 1, 1}), shape_of(1, 70, 128, 1, {0, 0}),
        shape_of(1, 33, 96, 1, {0}), shape_of(1, 130, 32, 2, {0, 1})}) {
    Case x(probe, dtype, shape);
    x.compute();
    x.compare(reference::causal_keys(shape));
  }
}

void check_attention_documents(Probe& probe, DType dtype) {
  Case x(probe, dtype, shape_of(2, 70, 64, 1, {0, 0}));
  auto visible = reference::causal_keys(x.shape);
  std::vector<std::int32_t> first;
  for (std::int64_t t = 0; t < x.T; ++t) {
    const std::int64_t i = t % x.shape.sequence;
    first.push_back(static_cast<std::int32_t>(i / 23 * 23));  // documents of 23 tokens
    visible[static_cast<std::size_t>(t)].begin = first.back();
  }
  const Integers of_keys = probe.integers({x.T}, first);
  x.shape.first_T = of_keys.view();
  x.compute();
  x.compare(visible);
}

// Keys in two parts, as a ring of two ranks sees them, merged into one result.
void check_attention_parts(Probe& probe, DType dtype) {
  constexpr std::int64_t S = 66, half = S / 2;
  const DType wide = accumulator_of(dtype);
  Case x(probe, dtype, shape_of(1, S, 64, 1, {0, 0}));
  const Tensor merged = probe.zeros(wide, {x.T, x.Q}), dq = probe.zeros(wide, {x.T, x.Q});
  const Tensor dk = probe.zeros(wide, {x.T, x.R}), dv = probe.zeros(wide, {x.T, x.R});
  using kernels::AttentionPart;
  const AttentionPart parts[] = {
      {{0, half}, {0, half}, true, true, true},
      {{half, S}, {half, S}, true, true, true},
      {{half, S}, {0, half}, false, false, false},
  };
  for (const AttentionPart& part : parts)
    kernels::attention_part(probe.stream(), probe.scratch(), x.shape, part, x.q, x.k, x.v,
                            merged, x.lse);
  x.o.set(merged.values());
  for (const AttentionPart& part : parts)
    kernels::attention_part_backward(probe.stream(), probe.scratch(), x.shape, part,
                                     x.d_o, x.q, x.k, x.v, x.o, x.lse, dq, dk, dv);
  x.dq.set(dq.values());
  x.dk.set(dk.values());
  x.dv.set(dv.values());
  x.compare(reference::causal_keys(x.shape));
}

// One text whose blocks lie in the cache in falling order, in one chunk of positions and
// in two.
void check_paged_attention(Probe& probe, DType dtype) {
  constexpr std::int64_t L = 16;
  for (const AttentionShape& shape :
       {shape_of(1, 65, 20, 2, {0, 0, 1}), shape_of(1, 530, 64, 2, {0, 0, 1, 1}),
        shape_of(1, 70, 128, 1, {0, 0}), shape_of(1, 33, 96, 1, {0}),
        shape_of(1, 130, 32, 2, {0, 1})}) {
    Case x(probe, dtype, shape);
    std::vector<std::int32_t> table;
    for (std::int64_t i = divide_up(x.T, L); i-- > 0;)
      table.push_back(static_cast<std::int32_t>(i));
    const auto N = static_cast<std::int64_t>(table.size());
    const Shape blocks = {N, shape.kv_heads, L, shape.head_width};
    const Tensor keys = probe.zeros(dtype, blocks), values = probe.zeros(dtype, blocks);
    const kernels::PagedText texts[] = {{{0, x.T}, 0, table.data()}};
    const std::vector<std::int32_t> numbers = kernels::pack_texts(texts, L);
    const Integers packed =
        probe.integers({static_cast<std::int64_t>(numbers.size())}, numbers);
    kernels::store_in_blocks(probe.stream(), texts, x.k, keys, {}, packed);
    kernels::store_in_blocks(probe.stream(), texts, x.v, values, {}, packed);
    kernels::attention_paged(probe.stream(), probe.scratch(), shape, texts, x.q,
                             {keys, values, {}, {}}, x.o, x.lse, packed);
    x.compare_forward(reference::causal_keys(shape));
  }
}

// Positions one by one and in pieces, each after the ones before it.
void check_cached_attention(Probe& probe, DType dtype) {
  for (const AttentionShape& shape :
       {shape_of(1, 70, 20, 2, {1, 0, 1}), shape_of(1, 130, 64, 2, {0, 0, 1, 1})}) {
    Case x(probe, dtype, shape);
    const Tensor keys = probe.zeros(dtype, {x.T + 3, x.R}),
                 values = probe.zeros(dtype, {x.T + 3, x.R});
    kernels::copy(probe.stream(), x.k, keys.view().rows(0, x.T));
    kernels::copy(probe.stream(), x.v, values.view().rows(0, x.T));
    const Shape cache = {1, x.T + 3, x.R};
    std::int64_t past = 0;
    for (const std::int64_t end : {std::int64_t{1}, std::int64_t{2}, x.T - 3, x.T}) {
      AttentionShape piece = shape;
      piece.sequence = end - past;
      const auto rows = [&](const Tensor& of) {
        return of.view().rows(past, piece.sequence);
      };
      kernels::attention_cached(probe.stream(), probe.scratch(), piece, past, rows(x.q),
                                keys.view().reshape(cache), values.view().reshape(cache),
                                rows(x.o), rows(x.lse));
      past = end;
    }
    x.compare_forward(reference::causal_keys(shape));
  }
}

// Both round the same values, in other orders: they differ by no more than each from the
// truth. Forward must be the library's; backward is what training takes beside it, which
// on some GPUs is our own.
void check_attention_libraries(Probe& probe, DType dtype) {
  if (!probe.device().is_cuda()) return probe.leave_out("no cuDNN on a CPU");
  if (!kernels::cudnn_is_built())
    return probe.leave_out("no cuDNN: " + kernels::cudnn_version());
  for (const AttentionShape& shape :
       {shape_of(2, 130, 64, 2, {0, 0, 1, 1}), shape_of(1, 257, 128, 2, {0, 1})}) {
    Case own(probe, dtype, shape), library(probe, dtype, shape);
    {
      const Choice chosen(kernels::AttentionLibrary::own);
      own.compute();
    }
    {
      const Choice chosen(kernels::AttentionLibrary::cudnn);
      library.forward();
    }
    const double forward = 2 * (own.accumulated() + own.rounding(1));
    const double backward = 2 * (3 * own.accumulated() + own.rounding(3));
    probe.relative(library.o.values(), own.o.values(), forward);
    probe.relative(library.lse.values(), own.lse.values(), forward);
    {
      const Choice chosen(kernels::AttentionLibrary::automatic);
      library.backward();
    }
    probe.relative(library.dq.values(), own.dq.values(), backward);
    probe.relative(library.dk.values(), own.dk.values(), backward);
    probe.relative(library.dv.values(), own.dv.values(), backward);
  }
}

}  // namespace trireme::selftest
