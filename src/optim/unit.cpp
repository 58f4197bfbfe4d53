// Units: grouping Params, and finding tensors in flat ranges.
// SPDX-License-Identifier: Apache-2.0
#include "optim/unit.hpp"

#include <algorithm>
#include <map>

namespace trireme::optim {
namespace {

// Modules (or tables) whose weights go together, before they are split into units.
struct Part {
  std::string name;
  std::vector<Param*> params;
};

std::int64_t parameters(const std::vector<Param*>& params) {
  std::int64_t sum = 0;
  for (const Param* param : params) sum += param->shape.elements();
  return sum;
}

// Parts in the order of forward, and the parts of each module.
struct Parts {
  std::vector<Part> parts;
  std::vector<std::vector<int>> of_module;
};

Parts cut_parts(const std::vector<ParamModule>& modules, std::int64_t wrap_parameters) {
  std::map<const Param*, int> users;
  for (const auto& module : modules) {
    for (const Param* param : module.params) ++users[param];
  }
  Parts out;
  std::map<const Param*, int> tables;  // Params that are parts of their own
  int open = -1;                       // the part that still takes modules in
  for (const auto& module : modules) {
    auto& mine = out.of_module.emplace_back();
    std::vector<Param*> own;
    for (Param* param : module.params) {
      if (users[param] == 1 && !param->shared_by_ends) {
        own.push_back(param);
        continue;
      }
      const auto [it, fresh] =
          tables.try_emplace(param, static_cast<int>(out.parts.size()));
      if (fresh) out.parts.push_back({param->name, {param}});
      mine.push_back(it->second);
    }
    if (own.empty()) continue;
    if (open < 0) {
      open = static_cast<int>(out.parts.size());
      out.parts.push_back({module.name, {}});
    }
    auto& params = out.parts[static_cast<std::size_t>(open)].params;
    params.insert(params.end(), own.begin(), own.end());
    mine.push_back(open);
    if (parameters(params) >= wrap_parameters) open = -1;
  }
  return out;
}

// Trained dense, trained experts, their matrices, frozen dense, frozen experts.
constexpr int kinds = 6;
int kind_of(const Param& param, bool matrices_apart) {
  const bool matrix = matrices_apart && param.shape.rank() == 2 && !param.table;
  return (param.frozen ? 4 : matrix ? 2 : 0) + (param.expert ? 1 : 0);
}

}  // namespace

UnitLayout make_units(const std::vector<ParamModule>& modules,
                      std::int64_t wrap_parameters, Holders dense, Holders expert,
                      bool matrices_apart) {
  const Parts parts = cut_parts(modules, wrap_parameters);
  UnitLayout layout;
  layout.bundles.resize(parts.parts.size());
  layout.bundles_of_module = parts.of_module;
  for (int kind = 0; kind < kinds; ++kind) {
    for (std::size_t p = 0; p < parts.parts.size(); ++p) {
      Unit unit;
      unit.name = parts.parts[p].name;
      unit.expert = kind % 2 == 1;
      unit.matrices = kind == 2 || kind == 3;
      unit.frozen = kind >= 4;
      const Holders& holders = unit.expert ? expert : dense;
      unit.shards = holders.shards;
      unit.copies = holders.copies;
      for (Param* param : parts.parts[p].params) {
        if (kind_of(*param, matrices_apart) != kind) continue;
        const std::int64_t elements = param->shape.elements();
        unit.pieces.push_back({param, unit.elements, elements});
        unit.elements += divide_up(elements, alignment_elements) * alignment_elements;
        unit.shared_by_ends = param->shared_by_ends;
      }
      if (unit.pieces.empty()) continue;
      const std::int64_t quantum = alignment_elements * unit.shards->size();
      unit.elements = divide_up(unit.elements, quantum) * quantum;
      unit.whole_at = layout.whole_elements;
      unit.share_at = layout.share_elements;
      layout.whole_elements += unit.elements;
      layout.share_elements += unit.share_elements();
      Bundle& bundle = layout.bundles[p];
      bundle.units.push_back(layout.units.size());
      bundle.elements += unit.elements;
      if (!unit.frozen) {
        bundle.trained_elements += unit.elements;
        layout.trained_whole_elements = layout.whole_elements;
        layout.trained_share_elements = layout.share_elements;
        if (!unit.matrices) layout.element_share_elements = layout.share_elements;
      }
      layout.units.push_back(std::move(unit));
    }
  }
  for (const auto& bundles : layout.bundles_of_module) {
    layout.most_bundles = std::max(layout.most_bundles, static_cast<int>(bundles.size()));
  }
  return layout;
}

std::vector<FlatBox> boxes_of(const Param& param, Range range) {
  std::vector<FlatBox> boxes;
  const bool matrix = param.shape.rank() == 2;
  const std::int64_t width = matrix ? param.shape[1] : 1;
  for (const Slab& slab : param.slabs) {
    require(!matrix || (slab.local_begin[1] == 0 && slab.extent[1] == width),
            "'{}' is not whole rows of '{}'", slab.tensor, param.name);
    const std::int64_t first = slab.local_begin[0] * width;
    std::int64_t at = std::max(range.begin, first);
    const std::int64_t end = std::min(range.end, first + slab.extent[0] * width);
    while (at < end) {
      const std::int64_t row = (at - first) / width, column = (at - first) % width;
      const std::int64_t left = end - at;
      const bool whole_rows = column == 0 && left >= width;
      const std::int64_t rows = whole_rows ? left / width : 1;
      const std::int64_t columns = whole_rows ? width : std::min(left, width - column);
      FlatBox box{&slab, at, slab.global_begin, slab.extent};
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
