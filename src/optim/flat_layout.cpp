// Grouping Params into flat parameters, and finding tensors in ranges of them.
// SPDX-License-Identifier: Apache-2.0
#include "optim/flat_layout.hpp"

#include <algorithm>
#include <map>

#include "optim/parameter_groups.hpp"

namespace trireme::optim {
namespace {

// Modules (or tables) whose weights go together, before they are split by kind.
struct Wrapped {
  std::string name;
  std::vector<Param*> params;
};

std::int64_t parameters(const std::vector<Param*>& params) {
  std::int64_t sum = 0;
  for (const Param* param : params) sum += param->shape.elements();
  return sum;
}

// All of them in the order of forward, and those of each module.
struct Wrapping {
  std::vector<Wrapped> wrapped;
  std::vector<std::vector<int>> of_module;
};

Wrapping wrap(const std::vector<ParamModule>& modules, const WrapPolicy& policy) {
  const auto is_named = [&](const ParamModule& module) {
    return std::ranges::any_of(policy.names, [&](const std::string& pattern) {
      return matches(pattern, module.name);
    });
  };
  std::map<const Param*, int> users;
  for (const auto& module : modules) {
    for (const Param* param : module.params) ++users[param];
  }
  Wrapping out;
  std::map<const Param*, int> tables;  // Params that are wrapped alone
  int open = -1;                       // the one that still takes modules in
  for (const auto& module : modules) {
    auto& mine = out.of_module.emplace_back();
    std::vector<Param*> own;
    for (Param* param : module.params) {
      if (users[param] == 1 && !param->in_embedding_group) {
        own.push_back(param);
        continue;
      }
      const auto [it, fresh] =
          tables.try_emplace(param, static_cast<int>(out.wrapped.size()));
      if (fresh) out.wrapped.push_back({param->name, {param}});
      mine.push_back(it->second);
    }
    if (own.empty()) continue;
    if (open < 0 || is_named(module)) {
      open = static_cast<int>(out.wrapped.size());
      out.wrapped.push_back({module.name, {}});
    }
    auto& params = out.wrapped[static_cast<std::size_t>(open)].params;
    params.insert(params.end(), own.begin(), own.end());
    mine.push_back(open);
    if (policy.names.empty() && parameters(params) >= policy.parameters) open = -1;
  }
  return out;
}

// Trained dense, trained experts', the matrices of both, frozen dense, frozen experts'.
constexpr int kinds = 6;
int kind_of(const Param& param, bool matrices_apart) {
  const bool matrix = matrices_apart && param.shape.rank() == 2 && !param.table;
  return (param.frozen ? 4 : matrix ? 2 : 0) + (param.expert ? 1 : 0);
}

// Which tensors each flat parameter holds; dense tensors are numbered before experts'.
void index_tensors(FlatLayout& layout) {
  for (const bool expert : {false, true}) {
    if (expert) layout.dense_tensors = layout.tensors.size();
    for (FlatParameter& flat : layout.flats) {
      if (flat.expert != expert) continue;
      for (const ParameterView& view : flat.views) {
        const Shape& shape = view.param->shape;
        const std::int64_t width = shape.rank() == 2 ? shape[1] : 1;
        for (const NamedBox& named : view.param->boxes) {
          const auto [found, fresh] =
              layout.tensor_index.try_emplace(named.tensor, layout.tensors.size());
          if (fresh) layout.tensors.push_back({&named, flat.index});
          const std::int64_t begin = view.begin + named.local_begin[0] * width;
          flat.tensors.push_back({found->second,
                                  view.param,
                                  &named,
                                  {begin, begin + named.extent[0] * width}});
        }
      }
    }
  }
}

// Puts a flat parameter behind the others, and into its bucket.
void append(FlatLayout& layout, FlatParameter flat, Bucket& bucket) {
  const std::int64_t quantum = alignment_elements * flat.shard_group->size();
  flat.elements = divide_up(flat.elements, quantum) * quantum;
  flat.index = layout.flats.size();
  flat.unsharded_begin = layout.unsharded_elements;
  flat.shard_begin = layout.shard_elements;
  layout.unsharded_elements += flat.elements;
  layout.shard_elements += flat.shard_elements();
  bucket.flats.push_back(flat.index);
  bucket.elements += flat.elements;
  if (!flat.frozen) {
    bucket.trained_elements += flat.elements;
    layout.trained_unsharded_elements = layout.unsharded_elements;
    layout.trained_shard_elements = layout.shard_elements;
    if (!flat.matrices) layout.elementwise_shard_elements = layout.shard_elements;
  }
  layout.flats.push_back(std::move(flat));
}

}  // namespace

FlatLayout make_flat_layout(const std::vector<ParamModule>& modules,
                            const WrapPolicy& policy, FlatGroups dense, FlatGroups expert,
                            bool matrices_apart) {
  const Wrapping wrapping = wrap(modules, policy);
  FlatLayout layout;
  layout.buckets.resize(wrapping.wrapped.size());
  layout.buckets_of_module = wrapping.of_module;
  for (int kind = 0; kind < kinds; ++kind) {
    for (std::size_t w = 0; w < wrapping.wrapped.size(); ++w) {
      FlatParameter flat;
      flat.name = wrapping.wrapped[w].name;
      flat.expert = kind % 2 == 1;
      flat.matrices = kind == 2 || kind == 3;
      flat.frozen = kind >= 4;
      const FlatGroups& groups = flat.expert ? expert : dense;
      flat.shard_group = groups.shard_group;
      flat.replicate_group = groups.replicate_group;
      flat.sum_group = groups.sum_group;
      for (Param* param : wrapping.wrapped[w].params) {
        if (kind_of(*param, matrices_apart) != kind) continue;
        const std::int64_t elements = param->shape.elements();
        flat.views.push_back({param, flat.elements, elements});
        flat.elements += divide_up(elements, alignment_elements) * alignment_elements;
        flat.in_embedding_group = param->in_embedding_group;
      }
      if (!flat.views.empty()) append(layout, std::move(flat), layout.buckets[w]);
    }
  }
  for (const auto& buckets : layout.buckets_of_module) {
    layout.most_buckets = std::max(layout.most_buckets, static_cast<int>(buckets.size()));
  }
  index_tensors(layout);
  return layout;
}

std::vector<ParamBox> boxes_of(const Param& param, Range range) {
  std::vector<ParamBox> boxes;
  const bool matrix = param.shape.rank() == 2;
  const std::int64_t width = matrix ? param.shape[1] : 1;
  for (const NamedBox& named : param.boxes) {
    require(!matrix || (named.local_begin[1] == 0 && named.extent[1] == width),
            "'{}' is not whole rows of '{}'", named.tensor, param.name);
    const std::int64_t first = named.local_begin[0] * width;
    std::int64_t at = std::max(range.begin, first);
    const std::int64_t end = std::min(range.end, first + named.extent[0] * width);
    while (at < end) {
      const std::int64_t row = (at - first) / width, column = (at - first) % width;
      const std::int64_t left = end - at;
      const bool whole_rows = column == 0 && left >= width;
      const std::int64_t rows = whole_rows ? left / width : 1;
      const std::int64_t columns = whole_rows ? width : std::min(left, width - column);
      ParamBox box{&named, at, named.global_begin, named.extent};
      box.global_begin[0] += row;
      box.extent[0] = rows;
      if (matrix) {
        box.global_begin[1] += column;
        box.extent[1] = columns;
      }
      boxes.push_back(box);
      at += rows * columns;
    }
  }
  return boxes;
}

}  // namespace trireme::optim
