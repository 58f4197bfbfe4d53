// FlatLayout: where each weight of a rank lies in flat parameters. Pure data, no memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/param.hpp"
#include "base/split.hpp"
#include "base/weight_access.hpp"
#include "comm/group.hpp"

namespace trireme::optim {

// Params start on multiples of 64 bytes of the smallest dtype in use.
inline constexpr std::int64_t alignment_elements = 32;

// The elements of a flat parameter that are a Param's.
struct ParameterView {
  Param* param = nullptr;
  std::int64_t begin = 0, elements = 0;
};

// The elements of a flat parameter that belong to one named tensor of the model.
struct TensorRange {
  std::size_t tensor = 0;  // place in FlatLayout::tensors
  const Param* param = nullptr;
  const NamedBox* named = nullptr;
  Range range;
};

// Weights that are laid out, sharded and communicated as one flat tensor (FSDP's "flat
// parameter"). All its Params are alike in who holds them and whether they are trained.
// It is padded so that it splits evenly over the shard group: rank r has shard r.
struct FlatParameter {
  std::string name;
  std::size_t index = 0;  // place in FlatLayout::flats
  bool expert = false, frozen = false, in_embedding_group = false;
  bool matrices = false;                   // that a rule for whole matrices updates
  comm::Group* shard_group = nullptr;      // has a shard each
  comm::Group* replicate_group = nullptr;  // has the same shard
  comm::Group* sum_group = nullptr;        // of these, whose gradients are summed
  std::vector<ParameterView> views;
  std::vector<TensorRange> tensors;
  std::int64_t elements = 0;  // unsharded, with padding

  // Where it starts in memory of unsharded flat parameters, and of this rank's shards.
  std::int64_t unsharded_begin = 0, shard_begin = 0;

  std::int64_t shard_elements() const { return elements / shard_group->size(); }
  // This rank's shard, as elements of the flat parameter.
  Range shard() const {
    return {shard_group->rank() * shard_elements(),
            (shard_group->rank() + 1) * shard_elements()};
  }
  Range whole() const { return {0, elements}; }
};

// Flat parameters that are gathered, and whose gradients are reduced, together: those of
// one or more modules, or a table that several modules use.
struct Bucket {
  std::vector<std::size_t> flats;
  std::int64_t elements = 0;          // of all
  std::int64_t trained_elements = 0;  // of those that are not frozen; they come first
};

// A named tensor of which this rank's stage has a part, in the same order on all ranks.
struct LayoutTensor {
  const NamedBox* named = nullptr;  // any of its boxes, for name and shape
  std::size_t flat = 0;             // one that it lies in
};

struct FlatLayout {
  // Trained dense, trained experts', both of matrices for a rule about them, the frozen.
  std::vector<FlatParameter> flats;
  std::vector<Bucket> buckets;
  std::vector<std::vector<int>> buckets_of_module;
  std::int64_t unsharded_elements = 0, shard_elements = 0;  // of all flat parameters
  std::int64_t trained_unsharded_elements = 0, trained_shard_elements = 0;
  // Of the trained that are updated element by element.
  std::int64_t elementwise_shard_elements = 0;
  int most_buckets = 1;  // that one module uses

  std::vector<LayoutTensor> tensors;  // dense, then experts'
  std::size_t dense_tensors = 0;
  std::unordered_map<std::string, std::size_t> tensor_index;

  std::size_t tensor_of(const NamedBox& named) const {
    return tensor_index.at(named.tensor);
  }
  const Bucket& bucket(int i) const { return buckets[static_cast<std::size_t>(i)]; }
  const std::vector<int>& module_buckets(int module) const {
    return buckets_of_module[static_cast<std::size_t>(module)];
  }
};

// The groups that hold a kind of flat parameter. sum_group: in each step; all replicas,
// or one, where each takes steps by itself.
struct FlatGroups {
  comm::Group* shard_group = nullptr;
  comm::Group* replicate_group = nullptr;
  comm::Group* sum_group = nullptr;
};

// Which modules are put together into one flat parameter.
struct WrapPolicy {
  // It takes in modules until it has as many parameters (0: one module each; FSDP's size
  // policy).
  std::int64_t parameters = 0;
  // Where there are any: it takes in modules until one comes whose name fits one of these
  // patterns (matches()), in place of the above.
  std::vector<std::string> names{};
};

// Modules in the order of forward. A Param that several modules use, or that both ends of
// the pipeline hold, is a flat parameter of its own. matrices_apart: so are matrices, but
// for tables.
FlatLayout make_flat_layout(const std::vector<ParamModule>& modules,
                            const WrapPolicy& policy, FlatGroups dense, FlatGroups expert,
                            bool matrices_apart = false);

// A box of a named tensor that lies in one range of a Param's elements.
struct ParamBox {
  const NamedBox* named = nullptr;
  std::int64_t begin = 0;      // its first element in the Param
  Shape global_begin, extent;  // of the tensor
};

// The boxes of all tensors in elements [range) of the Param: for a tensor at most three,
// part of a row, whole rows, part of a row.
std::vector<ParamBox> boxes_of(const Param& param, Range range);

// Calls body(view, elements of the view that lie in this rank's shard, where these start
// in the shard), in order.
template <class Body>
void for_each_view(const FlatParameter& flat, const Body& body) {
  const Range shard = flat.shard();
  for (const ParameterView& view : flat.views) {
    const std::int64_t begin = std::max(shard.begin, view.begin);
    const std::int64_t end = std::min(shard.end, view.begin + view.elements);
    if (begin >= end) continue;
    body(view, Range{begin - view.begin, end - view.begin}, begin - shard.begin);
  }
}

// Calls body(tensor, its elements in `range` of the flat parameter), in order.
template <class Body>
void for_each_tensor(const FlatParameter& flat, Range range, const Body& body) {
  for (const TensorRange& tensor : flat.tensors) {
    const Range common{std::max(range.begin, tensor.range.begin),
                       std::min(range.end, tensor.range.end)};
    if (common.begin < common.end) body(tensor, common);
  }
}

}  // namespace trireme::optim
