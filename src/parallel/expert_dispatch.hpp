// ExpertDispatch: the one seam between modules and expert parallelism.
// SPDX-License-Identifier: Apache-2.0
// Token rows go to the ranks of their experts, and the experts' rows come back.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory.hpp"
#include "base/split.hpp"
#include "comm/group.hpp"
#include "kernels/accumulate.hpp"
#include "parallel/sequence_sum.hpp"

namespace trireme::parallel {

// Legend: P ranks of the expert axis, each with T tokens of its own; E experts, L = E / P
// of them on each rank, in order of rank; K experts of a token; N rows that leave their
// source rank (at most T K), sorted by expert and then token; R rows that the experts of
// this rank get, sorted by expert, then source rank, then token: in the order of all
// tokens, for any P.
//
// On one rank rows are only sorted. On the meta device nothing is sent, and sizes are
// those of the worst case, every token of every rank chooses experts of this one; but the
// bytes that the group counts as sent are those of an even load.
//
// With a bound on the rows that lie here at once, the R rows are cut, in their order,
// into parts of that many. Part after part goes to the experts and back, in rounds: as
// many on every rank of the axis as the one with most rows needs. Where rows share a
// scale by blocks (along tokens, of one expert's rows from one rank), they are cut only
// between blocks: a part may then have up to a block less.
class ExpertDispatch {
 public:
  using Counts = std::vector<std::int32_t>;

  // Where the rows of one microbatch go; backward needs it again. i32 views, which live
  // in the arena that was given to route(), and copies on the host (empty on meta).
  struct Route {
    TensorView row_TK;     // place of each choice among the N; -1: dropped
    TensorView token_N;    // token of each row that leaves
    TensorView arrival_R;  // on several ranks: where each of the R rows arrives
    TensorView rows_PL;    // on several ranks: rows from each for each expert here
    Counts leaving_E;      // rows for each expert
    Counts arriving_PL;    // rows_PL
    Counts rows_L;         // rows of each expert here: for kernels::grouped_linear
    // The rows of each rank, among the N and among those that arrive, sorted by source.
    std::vector<Range> leaving_P, arriving_P;
    std::int64_t leaving = 0, rows = 0;  // N and R

    // With a bound: rows that lie here at once, and what part() needs to know.
    std::int64_t bound = 0;  // 0: all that come
    int rounds = 1;
    // The places (see kernels::place_arrivals(); M = L + 1) of the rows that arrive here
    // and of those that leave, on their experts' ranks. A round has `bound` places.
    TensorView places_PM;
    Counts arriving_places_PM, leaving_places_PM;
    bool in_rounds() const { return bound > 0; }
  };

  ExpertDispatch() = default;  // one rank has all experts
  // The ranks of `expert`, which outlives this, share out the experts evenly. memory: the
  // bound on rows, as a multiple (at least 1) of those that an even load brings; 0: none.
  // It is rounded up to a multiple of `block`, between which rows may be cut.
  explicit ExpertDispatch(comm::Group& expert, double memory = 0, std::int64_t block = 1)
      : group_(&expert), memory_(memory), block_(block) {}

  // Ranks that the rows of this one's experts come from (P), itself among them.
  std::int64_t sources() const { return size(); }
  bool divided() const { return size() > 1; }
  // Experts of this rank. Throws Error(internal) unless they can be shared out evenly.
  Range experts(std::int64_t experts) const;

  // Sorts the choices (choice_TK i32; -1: dropped) and tells every rank what it will get.
  // most: rows that one rank sends to one expert at most (T, less with a capacity).
  // Collective. Counts are made and exchanged on the device, in whose order this is; it
  // blocks until the host has a copy of them, which sizes of messages are made of.
  Route route(Stream& stream, Arena& arena, const TensorView& choice_TK,
              std::int64_t experts, std::int64_t most) const;

  // x_TD -> the rows of this rank's experts [R, D], taken from `arena`. Collective.
  TensorView dispatch(Stream& stream, Arena& arena, Arena& scratch, const Route& route,
                      const TensorView& x_TD) const;
  // dx_TD (written) from drows_RD. Collective.
  void dispatch_backward(Stream& stream, Arena& scratch, const Route& route,
                         const TensorView& drows_RD, const TensorView& dx_TD) const;

  // y_TD (written, or added to) = sum over k of weights_TK (accumulator dtype) times the
  // rows_RD that the experts made. Returns the rows [N, D] as they came back to their
  // source rank, taken from `arena` (or rows_RD itself on one rank), which backward
  // needs. Collective.
  TensorView combine(Stream& stream, Arena& arena, Arena& scratch, const Route& route,
                     const TensorView& rows_RD, const TensorView& weights_TK,
                     kernels::Accumulate accumulate, const TensorView& y_TD) const;
  // drows_RD, taken from `arena`, and dweights_TK (written) from dy_TD. Collective.
  TensorView combine_backward(Stream& stream, Arena& arena, Arena& scratch,
                              const Route& route, const TensorView& dy_TD,
                              const TensorView& returned_ND, const TensorView& weights_TK,
                              const TensorView& dweights_TK) const;

  // With a bound: the route of the rows of one round, instead of which a Route has the
  // counts of all. Its arrival_R lies where that of other rounds lies. Not collective.
  Route part(Stream& stream, const Route& all, int round) const;
  // What dispatch() and combine() are made of, for one part: rows that are sorted by
  // expert on their source rank become rows_RD (written), and the other way round. Of the
  // leaving_ND only the part's rows are read or written. Collective.
  void to_experts(Stream& stream, Arena& scratch, const Route& route,
                  const TensorView& leaving_ND, const TensorView& rows_RD) const;
  void to_source_ranks(Stream& stream, Arena& scratch, const Route& route,
                       const TensorView& rows_RD, const TensorView& leaving_ND) const;

  // One element for each rank: to_P (written) [P] of from_P [P]. Collective.
  void to_each(Stream& stream, const TensorView& from_P, const TensorView& to_P) const;
  // all_P (written) [P]: the x_1 of each. Collective.
  void from_each(Stream& stream, const TensorView& x_1, const TensorView& all_P) const;

 private:
  int rank() const { return group_ == nullptr ? 0 : group_->rank(); }
  int size() const { return group_ == nullptr ? 1 : group_->size(); }
  std::int64_t bound(std::int64_t even, std::int64_t worst) const;
  std::int64_t places(std::int64_t experts) const;
  void exchange_counts(Stream& stream, const TensorView& counts, std::int64_t experts,
                       Route& route) const;
  void fetch_counts(Stream& stream, const TensorView& counts, std::int64_t experts,
                    Route& route) const;
  // Sends rows sorted by rank, and receives them so.
  void exchange(Stream& stream, const TensorView& from, const std::vector<Range>& from_P,
                const TensorView& to, const std::vector<Range>& to_P) const;
  void exchange_evenly(Stream& stream, const TensorView& from,
                       const TensorView& to) const;

  comm::Group* group_ = nullptr;
  double memory_ = 0;
  std::int64_t block_ = 1;
};

// What an MoE layer needs of the mesh. As default: one rank.
struct ExpertAxes {
  ExpertDispatch dispatch;
  SequenceSum sequence_sum;
};

}  // namespace trireme::parallel
