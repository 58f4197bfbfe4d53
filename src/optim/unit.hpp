// Unit: weights that are laid out, shared out and communicated as one flat tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/param.hpp"
#include "base/split.hpp"
#include "base/weight_access.hpp"
#include "comm/group.hpp"

namespace trireme::optim {

// Params start on multiples of 64 bytes of the smallest dtype in use.
inline constexpr std::int64_t alignment_elements = 32;

// A Param's place in a unit, in elements.
struct Piece {
  Param* param = nullptr;
  std::int64_t begin = 0, elements = 0;
};

// All Params of a unit are alike in who holds them and whether they are trained. The flat
// tensor is padded so that it splits evenly over the shard group, rank r having part r.
struct Unit {
  std::string name;
  bool expert = false, frozen = false, shared_by_ends = false;
  bool matrices = false;          // that a rule for whole matrices updates
  comm::Group* shards = nullptr;  // share it out
  comm::Group* copies = nullptr;  // hold the same share
  std::vector<Piece> pieces;
  std::int64_t elements = 0;  // whole, padding included

  // Where it starts in buffers that hold units whole, and in those that hold this rank's
  // shares.
  std::int64_t whole_at = 0, share_at = 0;

  std::int64_t share_elements() const { return elements / shards->size(); }
  // This rank's share, as elements of the whole.
  Range share() const {
    return {shards->rank() * share_elements(), (shards->rank() + 1) * share_elements()};
  }
};

// Units that are gathered together: those of one or more modules, or a table that several
// modules use.
struct Bundle {
  std::vector<std::size_t> units;
  std::int64_t elements = 0;          // of all units
  std::int64_t trained_elements = 0;  // of those that are not frozen; they come first
};

// How the Params of a rank are grouped.
struct UnitLayout {
  // The trained dense ones, the trained experts; of both the matrices of a rule for whole
  // matrices; the frozen.
  std::vector<Unit> units;
  std::vector<Bundle> bundles;
  std::vector<std::vector<int>> bundles_of_module;
  std::int64_t whole_elements = 0, share_elements = 0;                  // of all units
  std::int64_t trained_whole_elements = 0, trained_share_elements = 0;  // of the trained
  std::int64_t element_share_elements = 0;  // of the trained, without such matrices
  int most_bundles = 1;                     // that one module uses
};

// The groups that hold a kind of unit.
struct Holders {
  comm::Group* shards = nullptr;
  comm::Group* copies = nullptr;
};

// Modules in the order of forward. A unit takes in modules until it has at least
// `wrap_parameters` parameters (0: one module each; FSDP's size policy). A Param that
// several modules use, or that both ends of the pipeline hold, is a unit of its own.
// matrices_apart: matrices but for tables are units of their own.
UnitLayout make_units(const std::vector<ParamModule>& modules,
                      std::int64_t wrap_parameters, Holders dense, Holders expert,
                      bool matrices_apart = false);

// A box of a named tensor that lies in one run of a Param's elements.
struct FlatBox {
  const Slab* slab = nullptr;
  std::int64_t at = 0;         // its first element in the Param
  Shape global_begin, extent;  // of the tensor
};

// The boxes of all tensors in elements [range) of the Param: for a tensor at most three,
// part of a row, whole rows, part of a row.
std::vector<FlatBox> boxes_of(const Param& param, Range range);

}  // namespace trireme::optim
