// ExpertDispatch: counts first, then rows, one message to each rank that gets any.
// SPDX-License-Identifier: Apache-2.0
#include "parallel/expert_dispatch.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/device_memory.hpp"
#include "base/work_meter.hpp"
#include "kernels/arrivals.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/math/arrivals.hpp"
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

// Of counts sorted by rank and then expert: the rows of each expert.
ExpertDispatch::Counts rows_of_experts(const ExpertDispatch::Counts& counts,
                                       std::int64_t experts) {
  const auto L = static_cast<std::size_t>(experts);
  ExpertDispatch::Counts rows(L);
  for (std::size_t i = 0; i < counts.size(); ++i) rows[i % L] += counts[i];
  return rows;
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

// What a rank tells the others of places, and hears from them: kernels::place_arrivals().
std::int64_t ExpertDispatch::places(std::int64_t experts) const {
  return size() * (this->experts(experts).count() + 1);
}

ExpertDispatch::Route ExpertDispatch::route(Stream& stream, Arena& arena,
                                            const TensorView& choice_TK,
                                            std::int64_t experts,
                                            std::int64_t most) const {
  const std::int64_t L = this->experts(experts).count(), T = choice_TK.dim(0);
  const std::int64_t K = choice_TK.dim(1), pairs = choice_TK.elements();
  const std::int64_t worst = size() * std::min(T * std::min(K, L), L * most);
  Route route;
  route.leaving = std::min(pairs, experts * most);
  if (divided()) route.bound = bound(route.leaving, worst);
  // 1. sort by expert
  route.row_TK = arena.take(DType::i32, choice_TK.shape(), "route.row");
  const std::int64_t counted =
      experts + (divided() ? experts : 0) + (route.in_rounds() ? 2 * places(experts) : 0);
  const TensorView counts = arena.take(DType::i32, {counted}, "route.counts");
  const TensorView token_TK = arena.take(DType::i32, {pairs}, "route.token");
  kernels::sort_by_expert(stream, choice_TK, counts.rows(0, experts), route.row_TK,
                          token_TK);
  // 2. counts; the worst case where there are none
  if (divided()) exchange_counts(stream, counts, experts, route);
  if (stream.device().is_meta())
    plan_arrivals(route, route.in_rounds() ? route.bound : worst, L);
  else
    fetch_counts(stream, counts, experts, route);
  route.token_N = token_TK.rows(0, route.leaving);
  if (!divided()) return route;
  // 3. the order of what arrives, with a bound that of each part (see there)
  route.arrival_R = arena.take(DType::i32, {route.in_rounds() ? route.bound : route.rows},
                               "route.arrival");
  if (!route.in_rounds())
    kernels::order_arrivals(stream, route.rows_PL, {}, {}, route.arrival_R);
  return route;
}

// On the device, `counts` are the rows for each expert, on several ranks those that come
// from each for each expert here, and with a bound the places of what comes, and of what
// leaves where it goes.
void ExpertDispatch::exchange_counts(Stream& stream, const TensorView& counts,
                                     std::int64_t experts, Route& route) const {
  const TensorView arriving = counts.rows(experts, experts);
  const std::int64_t L = this->experts(experts).count();
  group_->all_to_all(stream, counts.rows(0, experts), arriving).wait();
  route.rows_PL = arriving.reshape({size(), L});
  if (!route.in_rounds()) return;
  const TensorView mine = counts.rows(2 * experts, places(experts));
  const TensorView theirs = counts.rows(2 * experts + places(experts), places(experts));
  route.places_PM = mine.reshape({size(), L + 1});
  kernels::place_arrivals(stream, route.rows_PL, route.bound, block_, route.places_PM);
  group_->all_to_all(stream, mine, theirs).wait();
}

// What the host knows of `counts`: the sizes of messages, of products, and the rounds.
void ExpertDispatch::fetch_counts(Stream& stream, const TensorView& counts,
                                  std::int64_t experts, Route& route) const {
  Counts all(static_cast<std::size_t>(counts.elements()));
  copy_bytes(stream, counts, on_host(all));
  auto take = [next = all.begin()](std::int64_t count) mutable {
    const auto begin = std::exchange(next, next + count);
    return Counts(begin, next);
  };
  const std::int64_t L = this->experts(experts).count();
  route.leaving_E = take(experts);
  route.leaving = sum(route.leaving_E);
  if (divided()) {
    route.arriving_PL = take(experts);
    route.leaving_P = rows_of_ranks(route.leaving_E, size());
    route.arriving_P = rows_of_ranks(route.arriving_PL, size());
  }
  route.rows_L = rows_of_experts(divided() ? route.arriving_PL : route.leaving_E, L);
  route.rows = sum(route.rows_L);
  if (!route.in_rounds()) return;
  route.arriving_places_PM = take(places(experts));
  route.leaving_places_PM = take(places(experts));
  for (std::int64_t end = L; end < places(experts); end += L + 1) {
    const std::int32_t rows = route.leaving_places_PM[static_cast<std::size_t>(end)];
    route.rounds = std::max(route.rounds, static_cast<int>(divide_up(rows, route.bound)));
  }
}

ExpertDispatch::Route ExpertDispatch::part(Stream& stream, const Route& all,
                                           int round) const {
  const Range window{round * all.bound, (round + 1) * all.bound};
  const auto P = static_cast<std::size_t>(size());
  const std::size_t L = all.rows_L.size();
  Route part = all;
  if (!stream.device().is_meta()) {
    for (std::size_t p = 0; p < P; ++p) {
      std::int64_t begin = all.leaving_P[p].begin, count = 0;
      for (std::size_t l = 0; l < L; ++l) {
        const std::size_t e = p * L + l, place = p * (L + 1) + l;
        // 1. what leaves: of each rank's rows those that lie in the window there
        const Range leaving = kernels::math::rows_in_window(all.leaving_places_PM[place],
                                                            all.leaving_E[e], window);
        begin += leaving.begin;
        count += leaving.count();
        part.leaving_E[e] = static_cast<std::int32_t>(leaving.count());
        // 2. what arrives
        part.arriving_PL[e] = static_cast<std::int32_t>(
            kernels::math::rows_in_window(all.arriving_places_PM[place],
                                          all.arriving_PL[e], window)
                .count());
      }
      part.leaving_P[p] = {begin, begin + count};
    }
    part.arriving_P = rows_of_ranks(part.arriving_PL, size());
    part.rows_L = rows_of_experts(part.arriving_PL, static_cast<std::int64_t>(L));
    part.rows = sum(part.rows_L);
  }
  // 3. and its order
  part.arrival_R = all.arrival_R.rows(0, part.rows);
  kernels::order_arrivals(stream, all.rows_PL, all.places_PM, window, part.arrival_R);
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
  kernels::combine_rows(stream, dleaving_ND, route.row_TK, {}, kernels::Accumulate::no,
                        dx_TD);
}

TensorView ExpertDispatch::combine(Stream& stream, Arena& arena, Arena& scratch,
                                   const Route& route, const TensorView& rows_RD,
                                   const TensorView& weights_TK,
                                   kernels::Accumulate accumulate,
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
