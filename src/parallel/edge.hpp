// Edges: every legal change of place of a value on a mesh axis, beside its adjoint.
// SPDX-License-Identifier: Apache-2.0
// The adjoint of a collective is not determined by the collective (an all-gather's
// backward is a reduce-scatter or a slice, by what is downstream): the places settle it.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/memory.hpp"
#include "base/place.hpp"
#include "comm/group.hpp"

namespace trireme::parallel {

// A tensor whose collective may still be in flight.
class Transfer {
 public:
  explicit Transfer(const TensorView& tensor) : tensor_(tensor) {}
  Transfer(const TensorView& tensor, comm::Handle handle)
      : tensor_(tensor), handle_(std::move(handle)) {}
  // Works in parts, each with its collective.
  Transfer(const TensorView& tensor, std::vector<comm::Handle> parts)
      : tensor_(tensor), parts_(std::move(parts)) {}
  // The tensor, once it is complete.
  TensorView wait() {
    handle_.wait();
    for (comm::Handle& part : parts_) part.wait();
    return tensor_;
  }

 private:
  TensorView tensor_;
  comm::Handle handle_;
  std::vector<comm::Handle> parts_;
};

// One linear change of place along dim 0. `forward` and `backward` consume their argument
// (it may be overwritten, or returned itself) and take new tensors from the arena. Both
// cost nothing on a group of one rank. backward is the exact adjoint: <A x, u> = <x, A^T
// u>.
struct Edge {
  using Change = Transfer (*)(comm::Group&, Stream&, Arena&, const TensorView&);

  std::string_view name;
  Place source, destination;
  Change forward, backward;
};

namespace edge {

Transfer same(comm::Group&, Stream&, Arena&, const TensorView& x);
Transfer all_reduce(comm::Group&, Stream&, Arena&, const TensorView& x);  // in place
Transfer all_gather(comm::Group&, Stream&, Arena&, const TensorView& x);  // [n T, ...]
Transfer reduce_scatter(comm::Group&, Stream&, Arena&,
                        const TensorView& x);  // [T / n, ...]
Transfer keep_my_shard(comm::Group&, Stream&, Arena&, const TensorView& x);  // a view
// The adjoint of keep_my_shard for a replicated input: my shard, zeros elsewhere.
Transfer pad_to_full(comm::Group&, Stream&, Arena&, const TensorView& x);

using enum Place;
inline constexpr Edge copy_in{"invariant->replicate copy_in", invariant, replicate, same,
                              all_reduce};
inline constexpr Edge sum_to_invariant{"partial->invariant sum_to_invariant", partial,
                                       invariant, all_reduce, same};
inline constexpr Edge sum_to_replicate{"partial->replicate sum_to_replicate", partial,
                                       replicate, all_reduce, all_reduce};
inline constexpr Edge sum_to_shard{"partial->varying sum_to_shard", partial, varying,
                                   reduce_scatter, all_gather};
inline constexpr Edge gather_to_replicate{"varying->replicate gather_to_replicate",
                                          varying, replicate, all_gather, reduce_scatter};
inline constexpr Edge gather_to_invariant{"varying->invariant gather_to_invariant",
                                          varying, invariant, all_gather, keep_my_shard};
inline constexpr Edge shard_replicate{"replicate->varying shard_replicate", replicate,
                                      varying, keep_my_shard, pad_to_full};
inline constexpr Edge shard_invariant{"invariant->varying shard_invariant", invariant,
                                      varying, keep_my_shard, all_gather};

// All of them, for the generic test.
std::span<const Edge> all();

}  // namespace edge
}  // namespace trireme::parallel
