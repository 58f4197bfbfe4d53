// Weights of attention: boxes of each head in the tensors of the model.
// SPDX-License-Identifier: Apache-2.0
#include "nn/attention_weights.hpp"

#include <array>

#include "nn/layout.hpp"

namespace trireme::nn {
namespace {

// The query heads that key/value head `g` serves.
Range queries_of(const AttentionConfig& config, std::int64_t g) {
  const std::int64_t queries = config.heads / config.kv_heads;
  return {g * queries, (g + 1) * queries};
}

// A part of a vector of `whole` numbers, behind what the Param has so far.
void add_numbers(Param& param, const std::string& tensor, std::int64_t whole, Range range,
                 Place place, bool owned) {
  const std::int64_t next = param.shape.rank() > 0 ? param.shape[0] : 0;
  param.boxes.push_back(
      {tensor, {whole}, {next}, {range.begin}, {range.count()}, place, owned});
  param.shape = {next + range.count()};
}

}  // namespace

AttentionHeads::AttentionHeads(const AttentionConfig& config,
                               const parallel::TensorRegion& region)
    : queries(region.part(config.heads)), config_(config) {
  const std::int64_t each = config.heads / config.kv_heads;
  keys = {queries.begin / each, (queries.end - 1) / each + 1};
  for (std::int64_t g = 0; g < config.kv_heads; ++g)
    shared = shared || !region.in_one_part(config.heads, queries_of(config, g));
}

bool AttentionHeads::owns_key(std::int64_t g) const {
  const std::int64_t first = queries_of(config_, g).begin;
  return queries.begin <= first && first < queries.end;
}

Range AttentionHeads::owned_keys() const {
  Range owned = keys;
  while (owned.count() > 0 && !owns_key(owned.begin)) ++owned.begin;
  return owned;
}

// Rows of the part `part` (0 q, 1 k, 2 v): of tensors of their own, of one fused tensor
// [q; k; v], or of one that has q, k and v of a head behind each other; or, of a tensor
// of queries with the gates of their heads, the gates.
void AttentionHeads::add_rows(Param& param, int part, Range heads, bool owned,
                              bool gate) const {
  const AttentionConfig& c = config_;
  const std::int64_t K = c.head_width;
  const bool matrix = param.shape.rank() == 2, fused = c.k.empty();
  const std::array<std::int64_t, 3> counts = {c.output_gate() ? 2 * c.heads : c.heads,
                                              c.kv_heads, c.kv_heads};
  const std::array<std::int64_t, 3> before = {0, c.heads, c.heads + c.kv_heads};
  const auto at = static_cast<std::size_t>(part);
  const std::string& name = fused || part == 0 ? c.q : part == 1 ? c.k : c.v;
  const std::int64_t whole = fused ? c.heads + 2 * c.kv_heads : counts[at];
  const auto rows = [&](std::int64_t n) {
    return matrix ? Shape{n * K, c.hidden} : Shape{n * K};
  };
  const auto corner = [&](std::int64_t row) {
    return matrix ? Shape{row, 0} : Shape{row};
  };
  const Place place = part == 0 ? Place::varying : place_of_keys();
  const auto add = [&](std::int64_t begin, std::int64_t count) {
    param.boxes.push_back({name + param.name.substr(c.q.size()), rows(whole),
                           corner(param.shape[0]), corner(begin * K), rows(count), place,
                           owned});
    param.shape[0] += count * K;
  };
  if (!fused && part == 0 && c.output_gate()) {
    for (std::int64_t h = heads.begin; h < heads.end; ++h) add(2 * h + (gate ? 1 : 0), 1);
    return;
  }
  if (!fused) return add(heads.begin, heads.count());
  if (!c.fused_by_head()) return add(before[at] + heads.begin, heads.count());
  for (std::int64_t h = heads.begin; h < heads.end; ++h) add(3 * h + part, 1);
}

Param AttentionHeads::fused(const char* suffix, bool matrix) const {
  Param param;
  param.name = config_.q + suffix;
  param.decay = matrix;
  param.shape = matrix ? Shape{0, config_.hidden} : Shape{0};
  if (matrix) param.initializer = {Initializer::Kind::normal, config_.deviation};
  add_rows(param, 0, queries, true);
  for (int part = 1; part <= 2; ++part)
    for (std::int64_t g = keys.begin; g < keys.end; ++g)
      add_rows(param, part, {g, g + 1}, owns_key(g));
  if (config_.output_gate()) add_rows(param, 0, queries, true, true);
  return param;
}

Param AttentionHeads::query_gain() const {
  const std::int64_t K = config_.head_width;
  Param param;
  param.name = config_.q_norm + ".weight";
  param.decay = false;
  param.initializer = {Initializer::Kind::ones};
  add_numbers(param, param.name, config_.heads * K, {queries.begin * K, queries.end * K},
              Place::varying, true);
  return param;
}

Param AttentionHeads::key_gain() const {
  const std::int64_t K = config_.head_width;
  Param param;
  param.name = config_.k_norm + ".weight";
  param.decay = false;
  param.initializer = {Initializer::Kind::ones};
  for (std::int64_t g = keys.begin; g < keys.end; ++g)
    add_numbers(param, param.name, config_.kv_heads * K, {g * K, (g + 1) * K},
                place_of_keys(), owns_key(g));
  return param;
}

Param AttentionHeads::sinks() const {
  return row_split_param(config_.sinks, {config_.heads}, queries,
                         {Initializer::Kind::normal, config_.deviation});
}

}  // namespace trireme::nn
