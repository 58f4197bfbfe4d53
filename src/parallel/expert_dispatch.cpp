// ExpertDispatch: counts first, then rows, one message to each rank that gets any.
// SPDX-License-Identifier: Apache-2.0
#include "parallel/expert_dispatch.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "base/device_memory.hpp"
#include "base/work_meter.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/moe.hpp"

namespace trireme::parallel {
namespace {

std::int64_t sum(std::span<const std::int32_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

TensorView on_host(ExpertDispatch::Counts& counts) {
  return TensorView(counts.data(), DType::i32,
                    {static_cast<std::int64_t>(counts.size())});
}

// The rows of each of `ranks`, which lie one behind the other: as many as counts of
// equally many experts say.
std::vector<Range> rows_of_ranks(std::span<const std::int32_t> counts, int ranks) {
  const std::size_t L = counts.size() / static_cast<std::size_t>(ranks);
  std::vector<Range> all;
  std::int64_t begin = 0;
  for (std::size_t at = 0; at < counts.size(); at += L) {
    const std::int64_t end = begin + sum(counts.subspan(at, L));
    all.push_back({begin, end});
    begin = end;
  }
  return all;
}

// Of `count` rows that begin at `begin`, those before `window` and those in it.
struct Cut {
  std::int64_t before, inside;
};
Cut cut(std::int64_t begin, std::int64_t count, Range window) {
  const auto below = [&](std::int64_t edge) {
    return std::clamp(edge - begin, std::int64_t{0}, count);
  };
  return {below(window.begin), below(window.end) - below(window.begin)};
}

// What arrives is sorted by source and then expert; experts want expert and then source.
// Returns the order, and the rows of each expert.
ExpertDispatch::Counts order_arrivals(const ExpertDispatch::Counts& arriving,
                                      ExpertDispatch::Counts& rows) {
  ExpertDispatch::Counts begin(arriving.size());
  std::exclusive_scan(arriving.begin(), arriving.end(), begin.begin(), 0);
  ExpertDispatch::Counts order(static_cast<std::size_t>(sum(arriving)));
  auto next = order.begin();
  for (std::size_t l = 0; l < rows.size(); ++l) {
    rows[l] = 0;
    for (std::size_t i = l; i < arriving.size(); i += rows.size()) {
      std::iota(next, next + arriving[i], begin[i]);
      next += arriving[i];
      rows[l] += arriving[i];
    }
  }
  return order;
}

// On meta nobody knows who chooses which expert. Memory must do for the worst case, which
// with a bound is one round that is full; a plan that keeps time counts what an even load
// brings: as many rows as leave the rank.
void plan_arrivals(ExpertDispatch::Route& route, std::int64_t worst,
                   std::int64_t experts) {
  route.rows = work_meter() == nullptr ? worst : std::min(worst, route.leaving);
  route.rows_L.clear();
  for (std::int64_t l = 0; l < experts; ++l)
    route.rows_L.push_back(
        static_cast<std::int32_t>(split_range(route.rows, experts, l).count()));
}

}  // namespace

Range ExpertDispatch::experts(std::int64_t experts) const {
  require(experts % size() == 0, "{} experts cannot be shared out over {} ranks", experts,
          size());
  return split_range(experts, size(), rank());
}

std::int64_t ExpertDispatch::bound(std::int64_t even, std::int64_t worst) const {
  if (memory_ <= 0) return 0;
  require(block_ > 0, "rows that all share a scale cannot be cut");
  const double wanted = std::ceil(memory_ * static_cast<double>(even));
  if (!(wanted < static_cast<double>(worst))) return 0;
  const std::int64_t rows = divide_up(static_cast<std::int64_t>(wanted), block_) * block_;
  return rows < worst ? rows : 0;
}

// Of rows that may begin at `begin`: there, or, where a round would end within a block of
// them, so many places later that it ends between two.
std::int64_t ExpertDispatch::first_place(std::int64_t begin, std::int64_t rows,
                                         std::int64_t bound) const {
  const std::int64_t left = bound - begin % bound;
  return rows > left ? begin + left % block_ : begin;
}

ExpertDispatch::Route ExpertDispatch::route(Stream& stream, Arena& arena,
                                            const TensorView& choice_TK,
                                            std::int64_t experts,
                                            std::int64_t most) const {
  const std::int64_t L = this->experts(experts).count(), T = choice_TK.dim(0);
  const std::int64_t K = choice_TK.dim(1), pairs = choice_TK.elements();
  const bool meta = stream.device().is_meta();
  Route route;
  // 1. sort by expert
  route.row_TK = arena.take(DType::i32, choice_TK.shape(), "route.row");
  const TensorView leaving_E = arena.take(DType::i32, {experts}, "route.leaving");
  const TensorView token_TK = arena.take(DType::i32, {pairs}, "route.token");
  kernels::sort_by_expert(stream, choice_TK, leaving_E, route.row_TK, token_TK);
  // 2. counts; the worst case where there are none
  if (!meta) {
    route.leaving_E.resize(static_cast<std::size_t>(experts));
    copy_bytes(stream, leaving_E, on_host(route.leaving_E));
  }
  route.leaving = meta ? std::min(pairs, experts * most) : sum(route.leaving_E);
  route.token_N = token_TK.rows(0, route.leaving);
  if (size() == 1) {
    route.rows_L = route.leaving_E;
    route.rows = route.leaving;
    if (meta) plan_arrivals(route, route.leaving, L);
    return route;
  }
  exchange_counts(stream, experts, route);
  const std::int64_t worst = size() * std::min(T * std::min(K, L), L * most);
  route.bound = bound(std::min(pairs, experts * most), worst);
  if (meta)
    plan_arrivals(route, route.in_rounds() ? route.bound : worst, L);
  else
    route.rows = sum(route.arriving_E);
  if (route.in_rounds()) agree_on_rounds(stream, route);
  // 3. the order of what arrives, with a bound that of each part (see there)
  route.arrival_R = arena.take(DType::i32, {route.in_rounds() ? route.bound : route.rows},
                               "route.arrival");
  if (meta) return route;
  route.leaving_P = rows_of_ranks(route.leaving_E, size());
  if (route.in_rounds()) return route;
  route.arriving_P = rows_of_ranks(route.arriving_E, size());
  Counts arrival_R = order_arrivals(route.arriving_E, route.rows_L);
  copy_bytes(stream, on_host(arrival_R), route.arrival_R);
  return route;
}

void ExpertDispatch::exchange_counts(Stream& stream, std::int64_t experts,
                                     Route& route) const {
  if (stream.device().is_meta()) {
    const TensorView counts_E(nullptr, DType::i32, {experts}, Device::meta());
    group_->all_to_all(stream, counts_E, counts_E).wait();
    return;
  }
  Stream host;
  route.arriving_E.resize(route.leaving_E.size());
  route.rows_L.resize(static_cast<std::size_t>(this->experts(experts).count()));
  group_->all_to_all(host, on_host(route.leaving_E), on_host(route.arriving_E)).wait();
}

// Each rank tells the others where their rows lie among those that it gets, expert by
// expert, and where the last of these ends.
void ExpertDispatch::agree_on_rounds(Stream& stream, Route& route) const {
  const auto P = static_cast<std::size_t>(size());
  if (stream.device().is_meta()) {
    const TensorView all(nullptr, DType::i32,
                         {static_cast<std::int64_t>(P * (route.rows_L.size() + 1))},
                         Device::meta());
    group_->all_to_all(stream, all, all).wait();
    return;
  }
  const std::size_t L = route.rows_L.size();
  Counts mine(P * (L + 1)), theirs(mine.size());
  route.begin_PL.resize(P * L);
  std::int64_t end = 0;
  for (std::size_t l = 0; l < L; ++l)
    for (std::size_t p = 0; p < P; ++p) {
      const std::int64_t rows = route.arriving_E[p * L + l];
      const std::int64_t begin = first_place(end, rows, route.bound);
      mine[p * (L + 1) + l] = route.begin_PL[p * L + l] =
          static_cast<std::int32_t>(begin);
      end = begin + rows;
    }
  for (std::size_t p = 0; p < P; ++p)
    mine[p * (L + 1) + L] = static_cast<std::int32_t>(end);
  Stream host;
  group_->all_to_all(host, on_host(mine), on_host(theirs)).wait();
  route.begin_E.clear();
  for (std::size_t p = 0; p < P; ++p) {
    const auto of_rank = theirs.begin() + static_cast<std::ptrdiff_t>(p * (L + 1));
    const auto its_end = of_rank + static_cast<std::ptrdiff_t>(L);
    route.begin_E.insert(route.begin_E.end(), of_rank, its_end);
    route.rounds =
        std::max(route.rounds, static_cast<int>(divide_up(*its_end, route.bound)));
  }
}

ExpertDispatch::Route ExpertDispatch::part(Stream& stream, const Route& all,
                                           int round) const {
  Route part = all;
  if (stream.device().is_meta()) {
    part.arrival_R = all.arrival_R.rows(0, part.rows);
    return part;
  }
  const Range window{round * all.bound, (round + 1) * all.bound};
  const auto P = static_cast<std::size_t>(size());
  const std::size_t L = all.rows_L.size();
  // 1. what leaves: of each rank's rows those that lie in the window there
  for (std::size_t p = 0; p < P; ++p) {
    std::int64_t begin = all.leaving_P[p].begin, count = 0;
    for (std::size_t e = p * L; e < (p + 1) * L; ++e) {
      const Cut of_expert = cut(all.begin_E[e], all.leaving_E[e], window);
      begin += of_expert.before;
      count += of_expert.inside;
      part.leaving_E[e] = static_cast<std::int32_t>(of_expert.inside);
    }
    part.leaving_P[p] = {begin, begin + count};
  }
  // 2. what arrives
  for (std::size_t i = 0; i < part.arriving_E.size(); ++i)
    part.arriving_E[i] =
        static_cast<std::int32_t>(cut(all.begin_PL[i], all.arriving_E[i], window).inside);
  part.arriving_P = rows_of_ranks(part.arriving_E, size());
  // 3. and its order
  Counts arrival_R = order_arrivals(part.arriving_E, part.rows_L);
  part.rows = static_cast<std::int64_t>(arrival_R.size());
  part.arrival_R = all.arrival_R.rows(0, part.rows);
  copy_bytes(stream, on_host(arrival_R), part.arrival_R);
  return part;
}

void ExpertDispatch::exchange(Stream& stream, const TensorView& from,
                              const std::vector<Range>& from_P, const TensorView& to,
                              const std::vector<Range>& to_P) const {
  const int ranks = size();
  if (stream.device().is_meta()) return exchange_evenly(stream, from, to);
  const auto part = [](const TensorView& rows, const std::vector<Range>& of_P, int p) {
    const Range of_rank = of_P[static_cast<std::size_t>(p)];
    return rows.rows(of_rank.begin, of_rank.count());
  };
  std::vector<comm::Handle> handles;
  handles.reserve(2 * static_cast<std::size_t>(ranks));
  {
    const comm::Group::Exchange exchange(*group_);
    for (int i = 1; i < ranks; ++i) {
      const int source = (rank() + ranks - i) % ranks;
      handles.push_back(group_->receive(stream, part(to, to_P, source), source));
    }
    for (int i = 1; i < ranks; ++i) {
      const int destination = (rank() + i) % ranks;
      handles.push_back(
          group_->send(stream, part(from, from_P, destination), destination));
    }
  }
  const TensorView mine = part(from, from_P, rank());
  if (mine.dim(0) > 0) kernels::copy(stream, mine, part(to, to_P, rank()));
  for (comm::Handle& handle : handles) handle.wait();
}

// Nothing moves, but the group counts what it would send if all ranks got the same.
void ExpertDispatch::exchange_evenly(Stream& stream, const TensorView& from,
                                     const TensorView& to) const {
  const std::int64_t rows = std::min(from.dim(0), to.dim(0)) / size();
  for (int i = 1; i < size(); ++i) {
    group_->send(stream, from.rows(0, rows), (rank() + i) % size()).wait();
    group_->receive(stream, to.rows(0, rows), (rank() + size() - i) % size()).wait();
  }
}

void ExpertDispatch::to_each(Stream& stream, const TensorView& from_P,
                             const TensorView& to_P) const {
  if (size() == 1) return kernels::copy(stream, from_P, to_P);
  group_->all_to_all(stream, from_P, to_P).wait();
}

void ExpertDispatch::from_each(Stream& stream, const TensorView& x_1,
                               const TensorView& all_P) const {
  if (size() == 1) return kernels::copy(stream, x_1, all_P);
  group_->all_gather(stream, x_1, all_P).wait();
}

void ExpertDispatch::to_experts(Stream& stream, Arena& scratch, const Route& route,
                                const TensorView& leaving_ND,
                                const TensorView& rows_RD) const {
  const ArenaScope scope(scratch);
  const TensorView arrived_RD =
      scratch.take(rows_RD.dtype(), rows_RD.shape(), "dispatch.arrived");
  exchange(stream, leaving_ND, route.leaving_P, arrived_RD, route.arriving_P);
  kernels::gather_rows(stream, arrived_RD, route.arrival_R, rows_RD);
}

void ExpertDispatch::to_source_ranks(Stream& stream, Arena& scratch, const Route& route,
                                     const TensorView& rows_RD,
                                     const TensorView& leaving_ND) const {
  const ArenaScope scope(scratch);
  const TensorView arrived_RD =
      scratch.take(rows_RD.dtype(), rows_RD.shape(), "combine.arrived");
  kernels::scatter_rows(stream, rows_RD, route.arrival_R, arrived_RD);
  exchange(stream, arrived_RD, route.arriving_P, leaving_ND, route.leaving_P);
}

TensorView ExpertDispatch::dispatch(Stream& stream, Arena& arena, Arena& scratch,
                                    const Route& route, const TensorView& x_TD) const {
  const DType dtype = x_TD.dtype();
  const std::int64_t D = x_TD.dim(1);
  const TensorView rows_RD = arena.take(dtype, {route.rows, D}, "dispatch.rows");
  if (size() == 1) {
    kernels::gather_rows(stream, x_TD, route.token_N, rows_RD);
    return rows_RD;
  }
  const ArenaScope scope(scratch);
  const TensorView leaving_ND =
      scratch.take(dtype, {route.leaving, D}, "dispatch.leaving");
  kernels::gather_rows(stream, x_TD, route.token_N, leaving_ND);
  to_experts(stream, scratch, route, leaving_ND, rows_RD);
  return rows_RD;
}

void ExpertDispatch::dispatch_backward(Stream& stream, Arena& scratch, const Route& route,
                                       const TensorView& drows_RD,
                                       const TensorView& dx_TD) const {
  const ArenaScope scope(scratch);
  TensorView dleaving_ND = drows_RD;
  if (size() > 1) {
    dleaving_ND = scratch.take(drows_RD.dtype(), {route.leaving, drows_RD.dim(1)},
                               "dispatch.dleaving");
    to_source_ranks(stream, scratch, route, drows_RD, dleaving_ND);
  }
  kernels::combine_rows(stream, dleaving_ND, route.row_TK, {}, false, dx_TD);
}

TensorView ExpertDispatch::combine(Stream& stream, Arena& arena, Arena& scratch,
                                   const Route& route, const TensorView& rows_RD,
                                   const TensorView& weights_TK, bool accumulate,
                                   const TensorView& y_TD) const {
  TensorView returned_ND = rows_RD;
  if (size() > 1) {
    returned_ND =
        arena.take(rows_RD.dtype(), {route.leaving, rows_RD.dim(1)}, "combine.returned");
    to_source_ranks(stream, scratch, route, rows_RD, returned_ND);
  }
  kernels::combine_rows(stream, returned_ND, route.row_TK, weights_TK, accumulate, y_TD);
  return returned_ND;
}

TensorView ExpertDispatch::combine_backward(Stream& stream, Arena& arena, Arena& scratch,
                                            const Route& route, const TensorView& dy_TD,
                                            const TensorView& returned_ND,
                                            const TensorView& weights_TK,
                                            const TensorView& dweights_TK) const {
  const DType dtype = dy_TD.dtype();
  const std::int64_t D = dy_TD.dim(1);
  const TensorView drows_RD = arena.take(dtype, {route.rows, D}, "combine.drows");
  if (size() == 1) {
    kernels::combine_rows_backward(stream, dy_TD, returned_ND, route.row_TK, weights_TK,
                                   drows_RD, dweights_TK);
    return drows_RD;
  }
  const ArenaScope scope(scratch);
  const TensorView dreturned_ND =
      scratch.take(dtype, {route.leaving, D}, "combine.dreturned");
  kernels::combine_rows_backward(stream, dy_TD, returned_ND, route.row_TK, weights_TK,
                                 dreturned_ND, dweights_TK);
  to_experts(stream, scratch, route, dreturned_ND, drows_RD);
  return drows_RD;
}

}  // namespace trireme::parallel
