// Placement: pieces, cuts into stages, and what lies where.
// SPDX-License-Identifier: Apache-2.0
#include "infer/placement.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "io/param_codes.hpp"

namespace trireme::infer {
namespace {

Piece piece_of(const std::string& name, std::int64_t layer,
               const std::vector<Param*>& params, DType compute,
               const io::TensorSource* codes) {
  Piece piece;
  piece.name = name;
  piece.layer = layer;
  for (const Param* param : params) {
    const std::int64_t of_codes =
        codes == nullptr ? 0
                         : static_cast<std::int64_t>(io::kept_code_bytes(*codes, *param));
    const std::int64_t bytes =
        of_codes > 0
            ? of_codes
            : param->shape.elements() * static_cast<std::int64_t>(size_of(compute));
    piece.bytes += bytes;
    piece.code_bytes += of_codes;
    piece.buffer_bytes += buffer_bytes(bytes);
    for (const NamedBox& box : param->boxes) piece.tensors.push_back(box.tensor);
  }
  return piece;
}

// The head's last norm is the last piece of each model.
std::int64_t layers_of(const std::vector<Piece>& pieces) { return pieces.back().layer; }

bool stage_has(const Piece& piece, std::int64_t layers, const Range& blocks, bool first,
               bool last) {
  if (piece.layer < 0) return first || (last && piece.in_head_too);
  if (piece.layer >= layers) return last;
  return piece.layer >= blocks.begin && piece.layer < blocks.end;
}

// What a stage of these blocks holds, the embedding and the head included.
std::int64_t stage_bytes(const std::vector<Piece>& pieces, const Range& blocks,
                         bool first, bool last) {
  std::int64_t bytes = 0;
  for (const Piece& piece : pieces)
    if (stage_has(piece, layers_of(pieces), blocks, first, last)) bytes += piece.bytes;
  return bytes;
}

// Each stage takes blocks as long as they fit, but leaves one for each that follows.
std::vector<Range> fill_stages(const std::vector<Piece>& pieces,
                               std::span<const std::int64_t> most) {
  const std::int64_t layers = layers_of(pieces);
  const auto stages = static_cast<std::int64_t>(most.size());
  std::vector<Range> cut;
  std::int64_t begin = 0;
  for (std::int64_t s = 0; s < stages; ++s) {
    const std::int64_t after = stages - s - 1;
    Range blocks{begin, begin + 1};
    while (blocks.end < layers - after &&
           stage_bytes(pieces, {begin, blocks.end + 1}, s == 0, false) <=
               most[static_cast<std::size_t>(s)])
      ++blocks.end;
    if (after == 0) blocks.end = layers;
    cut.push_back(blocks);
    begin = blocks.end;
  }
  return cut;
}

std::int64_t largest_stage(const std::vector<Piece>& pieces,
                           const std::vector<Range>& cut) {
  std::int64_t most = 0;
  for (std::size_t s = 0; s < cut.size(); ++s)
    most = std::max(most, stage_bytes(pieces, cut[s], s == 0, s + 1 == cut.size()));
  return most;
}

// The smallest of the largest stages. `first_blocks` above 0: so many in the first, which
// does not count.
std::vector<Range> balanced_stages(const std::vector<Piece>& pieces, std::size_t stages,
                                   std::int64_t first_blocks) {
  const auto cut_at = [&](std::int64_t bytes) {
    std::vector<std::int64_t> most(stages, bytes);
    if (first_blocks > 0)
      most.front() = stage_bytes(pieces, {0, first_blocks}, true, false);
    return fill_stages(pieces, most);
  };
  const auto largest = [&](const std::vector<Range>& cut) {
    if (first_blocks == 0) return largest_stage(pieces, cut);
    std::int64_t most = 0;
    for (std::size_t s = 1; s < cut.size(); ++s)
      most = std::max(most, stage_bytes(pieces, cut[s], false, s + 1 == cut.size()));
    return most;
  };
  std::int64_t below = 0,
               enough = stage_bytes(pieces, {0, layers_of(pieces)}, true, true);
  while (enough - below > 1) {
    const std::int64_t middle = below + (enough - below) / 2;
    (largest(cut_at(middle)) <= middle ? enough : below) = middle;
  }
  return cut_at(enough);
}

// As few blocks in the first stage as the others have room for.
std::vector<Range> low_first_stage(const std::vector<Piece>& pieces,
                                   std::span<const TierLimits> limits) {
  const std::size_t stages = limits.size();
  const std::int64_t layers = layers_of(pieces),
                     most_blocks = layers - static_cast<std::int64_t>(stages) + 1;
  for (std::int64_t blocks = 1; blocks <= most_blocks; ++blocks) {
    std::vector<Range> cut = balanced_stages(pieces, stages, blocks);
    bool fits = true;
    for (std::size_t s = 1; s < stages; ++s)
      fits =
          fits && stage_bytes(pieces, cut[s], false, s + 1 == stages) <= limits[s].device;
    if (fits) return cut;
  }
  return balanced_stages(pieces, stages, 0);
}

// The modules of a stage, by their pieces: tied weights are in two.
std::map<std::int64_t, std::vector<std::size_t>> modules_of(
    const std::vector<Piece>& pieces, const Range& blocks, bool first, bool last) {
  const std::int64_t layers = layers_of(pieces);
  std::map<std::int64_t, std::vector<std::size_t>> modules;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const bool block = piece.layer >= blocks.begin && piece.layer < blocks.end;
    const bool ends = piece.layer < 0 ? first : piece.layer >= layers && last;
    if (block || ends) modules[piece.layer].push_back(i);
    if (piece.in_head_too && last) modules[layers].push_back(i);
  }
  return modules;
}

// Bytes of the buffers for weights of `least` and lower tiers: two of the largest module.
std::int64_t stream_buffer_bytes(const std::vector<Piece>& pieces,
                                 const StagePlacement& stage, bool first, bool last,
                                 Tier least) {
  std::int64_t largest = 0, count = 0;
  for (const auto& [layer, members] : modules_of(pieces, stage.blocks, first, last)) {
    std::int64_t bytes = 0;
    for (const std::size_t i : members)
      if (stage.of_pieces[i] >= least) bytes += pieces[i].buffer_bytes;
    largest = std::max(largest, bytes);
    count += bytes > 0 ? 1 : 0;
  }
  return largest * std::min<std::int64_t>(count, 2);
}

// Embedding (-1), blocks (0) and head (1) in one order of three.
using Order = std::array<int, 3>;
constexpr std::array orders = {Order{-1, 0, 1}, Order{1, -1, 0}, Order{1, 0, -1}};

// What follows a piece that does not fit goes no higher.
void fill_tiers(const Placement& placement, std::size_t s, const TierLimits& limits,
                bool host, const Order& order, std::vector<Tier>& of_pieces) {
  std::int64_t left[2] = {limits.device, host ? limits.host : -1};
  int at = 0;
  for (const int part : order)
    for (std::size_t i = 0; i < of_pieces.size(); ++i) {
      const Piece& piece = placement.pieces[i];
      const int kind = piece.layer < 0
                           ? -1
                           : static_cast<int>(piece.layer >= layers_of(placement.pieces));
      if (kind != part || !has_piece(placement, s, i)) continue;
      while (at < 2 && left[at] < piece.bytes) ++at;
      of_pieces[i] = at == 0 ? Tier::device : at == 1 ? Tier::host : Tier::disk;
      if (at < 2) left[at] -= piece.bytes;
    }
}

// The buffers grow with what is streamed through them, and that with the buffers.
void place_in_order(Placement& placement, std::size_t s, const TierLimits& limits,
                    bool host, const Order& order) {
  StagePlacement& stage = placement.stages[s];
  const bool last = s + 1 == placement.stages.size();
  for (std::int64_t device = -1, beside = -1;
       device != stage.device_buffer_bytes || beside != stage.host_buffer_bytes;) {
    device = stage.device_buffer_bytes;
    beside = stage.host_buffer_bytes;
    fill_tiers(placement, s, {limits.device - device, limits.host - beside}, host, order,
               stage.of_pieces);
    plan_stream_buffers(placement.pieces, stage, s == 0, last, host);
    stage.device_buffer_bytes = std::max(stage.device_buffer_bytes, device);
    stage.host_buffer_bytes = std::max(stage.host_buffer_bytes, beside);
  }
}

// What is better to have little of, the worst first.
std::array<std::int64_t, 3> cost_of(const Placement& placement, std::size_t s,
                                    const TierLimits& limits, bool host) {
  const StagePlacement& stage = placement.stages[s];
  std::int64_t over =
      std::max<std::int64_t>(0, bytes_in(placement, s, Tier::device) +
                                    stage.device_buffer_bytes - limits.device);
  if (host)
    over += std::max<std::int64_t>(
        0, bytes_in(placement, s, Tier::host) + stage.host_buffer_bytes - limits.host);
  return {over, bytes_of_pass(placement, s, Tier::disk),
          bytes_of_pass(placement, s, Tier::host)};
}

}  // namespace

std::vector<Piece> pieces_of(const model::ModelConfig& config, DType compute,
                             const parallel::TensorRegion& region,
                             const io::TensorSource* codes) {
  model::Stage stage({.model = config, .blocks = {0, config.layers}, .dtype = compute},
                     region, Device::meta());
  std::vector<Piece> pieces;
  std::map<const Param*, std::size_t> seen;
  std::int64_t layer = -1;
  for (const ParamModule& module : stage.modules()) {
    const bool block = layer >= 0 && layer < config.layers;
    if (block)
      pieces.push_back(piece_of(module.name, layer, module.params, compute, codes));
    for (Param* param : module.params) {
      if (block) break;
      if (const auto at = seen.find(param); at != seen.end()) {
        pieces[at->second].in_head_too = true;
        continue;
      }
      seen[param] = pieces.size();
      pieces.push_back(
          piece_of(param->boxes.front().tensor, layer, {param}, compute, codes));
    }
    ++layer;
  }
  return pieces;
}

bool has_piece(const Placement& placement, std::size_t stage, std::size_t piece) {
  return stage_has(placement.pieces[piece], layers_of(placement.pieces),
                   placement.stages[stage].blocks, stage == 0,
                   stage + 1 == placement.stages.size());
}

std::int64_t bytes_in(const Placement& placement, std::size_t stage, Tier tier) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < placement.pieces.size(); ++i)
    if (has_piece(placement, stage, i) && placement.stages[stage].of_pieces[i] == tier)
      bytes += placement.pieces[i].bytes;
  return bytes;
}

std::int64_t bytes_of_pass(const Placement& placement, std::size_t stage, Tier tier) {
  const StagePlacement& here = placement.stages[stage];
  std::int64_t bytes = 0, streamed = 0;
  for (const auto& [layer, members] :
       modules_of(placement.pieces, here.blocks, stage == 0,
                  stage + 1 == placement.stages.size())) {
    bool is_streamed = false;
    for (const std::size_t i : members) {
      is_streamed = is_streamed || here.of_pieces[i] != Tier::device;
      if (here.of_pieces[i] == tier) bytes += placement.pieces[i].bytes;
    }
    streamed += is_streamed ? 1 : 0;
  }
  return streamed > 2 ? bytes : 0;
}

std::vector<Range> cut_stages(const std::vector<Piece>& pieces,
                              std::span<const TierLimits> limits, Strategy strategy) {
  std::vector<std::int64_t> most;
  for (const TierLimits& limit : limits) most.push_back(limit.device);
  switch (strategy) {
    case Strategy::sequential: return fill_stages(pieces, most);
    case Strategy::balanced_low_0: return low_first_stage(pieces, limits);
    default: return balanced_stages(pieces, limits.size(), 0);
  }
}

void plan_stream_buffers(const std::vector<Piece>& pieces, StagePlacement& stage,
                         bool first, bool last, bool host) {
  stage.device_buffer_bytes = stream_buffer_bytes(pieces, stage, first, last, Tier::host);
  stage.host_buffer_bytes =
      host ? stream_buffer_bytes(pieces, stage, first, last, Tier::disk) : 0;
}

Placement place_by_limits(std::vector<Piece> pieces, const std::vector<Range>& blocks,
                          std::span<const TierLimits> limits, bool host,
                          Strategy strategy) {
  Placement placement{std::move(pieces), {}};
  for (const Range& range : blocks)
    placement.stages.push_back(
        {range, std::vector<Tier>(placement.pieces.size(), Tier::device)});
  for (std::size_t s = 0; s < blocks.size(); ++s) {
    const StagePlacement empty = placement.stages[s];
    StagePlacement best;
    std::array<std::int64_t, 3> least{};
    for (const Order& order : orders) {
      placement.stages[s] = empty;
      place_in_order(placement, s, limits[s], host, order);
      const auto cost = cost_of(placement, s, limits[s], host);
      if (&order != &orders.front() && cost >= least) continue;
      best = placement.stages[s];
      least = cost;
      if (strategy == Strategy::sequential) break;
    }
    placement.stages[s] = std::move(best);
  }
  return placement;
}

}  // namespace trireme::infer
