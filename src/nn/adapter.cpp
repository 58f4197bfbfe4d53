// Adapter: its matrices from the boxes of a weight, and its products.
// SPDX-License-Identifier: Apache-2.0
#include "nn/adapter.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/philox.hpp"
#include "kernels/dropout.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/moe.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {

using kernels::Accumulate, kernels::Transpose;

// Of one module in the weight, the boxes of each expert.
struct Adapter::Boxes {
  std::vector<std::string> modules;  // of each expert
  std::vector<std::vector<const NamedBox*>> of_expert;
};

namespace {

// The modules of the weight in the order of their rows, as indices of its boxes: of each
// expert those whose rows are its own.
std::vector<std::vector<std::pair<std::string, std::vector<const NamedBox*>>>> modules_of(
    const Param& weight, std::int64_t experts) {
  std::vector<std::vector<std::pair<std::string, std::vector<const NamedBox*>>>> all(
      static_cast<std::size_t>(experts));
  const std::int64_t each = weight.shape[0] / experts;
  for (const NamedBox& named : weight.boxes) {
    auto& modules = all[static_cast<std::size_t>(named.local_begin[0] / each)];
    const std::string module = module_of_tensor(named.tensor);
    const auto found = std::find_if(modules.begin(), modules.end(),
                                    [&](const auto& one) { return one.first == module; });
    if (found == modules.end()) {
      modules.push_back({module, {&named}});
    } else {
      found->second.push_back(&named);
    }
  }
  return all;
}

bool alike(const std::optional<AdapterModule>& a, const std::optional<AdapterModule>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->rank == b->rank && a->scale == b->scale;
}

// The box of a matrix that every rank of the tensor axis has whole, where each has a part
// of its gradient.
void share(NamedBox& named, const parallel::TensorRegion& region) {
  if (!region.divided()) return;
  named.place = Place::replicate;
  named.owned = region.counts_here();
}

// y += v, where rows of both may be strided.
void add_columns(Pass& pass, const TensorView& v, const TensorView& y) {
  const ArenaScope scope(pass.scratch);
  const TensorView sum = pass.scratch.take(y.dtype(), y.shape(), "adapter.sum");
  const TensorView dense = pass.scratch.take(v.dtype(), v.shape(), "adapter.columns");
  kernels::copy(pass.stream, y, sum);
  kernels::copy(pass.stream, v, dense);
  kernels::accumulate(pass.stream, dense, sum);
  kernels::copy(pass.stream, sum, y);
}

}  // namespace

bool Adapter::split_by_columns() const {
  const NamedBox& named = weight_.boxes.front();
  return named.extent[1] != named.whole[1];
}

void Adapter::attach(const AdapterConfig& config, const parallel::TensorRegion& region,
                     std::int64_t experts) {
  if (!config.exists() || weight_.boxes.empty()) return;
  experts_ = experts;
  const auto all = modules_of(weight_, std::max<std::int64_t>(experts, 1));
  std::vector<std::pair<Boxes, AdapterModule>> chosen;
  for (std::size_t j = 0; j < all.front().size(); ++j) {
    const auto what = config.of(all.front()[j].first);
    Boxes boxes;
    for (const auto& modules : all) {
      require(alike(what, config.of(modules[j].first)), Status::bad_content,
              "adapter.targets or its patterns give '{}' another adapter than '{}': all "
              "experts of a layer have the same one",
              modules[j].first, all.front()[j].first);
      boxes.modules.push_back(modules[j].first);
      boxes.of_expert.push_back(modules[j].second);
    }
    if (what) chosen.emplace_back(std::move(boxes), *what);
  }
  if (chosen.empty()) return;
  dropout_ = config.dropout;
  dora_ = config.dora;
  region_ = &region;
  for (const auto& [boxes, what] : chosen) ranks_ += what.rank;
  const NamedBox& first = weight_.boxes.front();
  columns_ = first.whole[1];
  first_column_ = first.global_begin[1];
  stream_ = hash_name(chosen.front().first.modules.front() + " adapter dropout");
  down_.name = chosen.front().first.modules.front() + std::string(down_suffix);
  down_.shape = {std::max<std::int64_t>(experts, 1) * ranks_, weight_.shape[1]};
  down_.expert = weight_.expert;
  const double limit = 1 / std::sqrt(static_cast<double>(columns_));
  down_.initializer = {Initializer::Kind::uniform, 0, -limit, limit};
  std::int64_t rank = 0;
  for (const auto& [boxes, what] : chosen) {
    add_part(boxes, what, region);
    parts_.back().first_rank = rank;
    rank += what.rank;
  }
  std::stable_sort(down_.boxes.begin(), down_.boxes.end(),
                   [](const NamedBox& a, const NamedBox& b) {
                     return a.local_begin[0] < b.local_begin[0];
                   });
}

void Adapter::add_part(const Boxes& boxes, const AdapterModule& what,
                       const parallel::TensorRegion& region) {
  const bool by_columns = split_by_columns();
  const std::int64_t each =
      weight_.shape[0] / static_cast<std::int64_t>(boxes.modules.size());
  Part part;
  part.module = boxes.modules.front();
  part.what = what;
  part.up.name = part.module + std::string(up_suffix);
  part.up.expert = weight_.expert;
  std::int64_t before = 0;  // ranks of the parts before this one
  for (const Part& other : parts_) before += other.what.rank;
  std::int64_t rows = 0;
  for (std::size_t e = 0; e < boxes.modules.size(); ++e) {
    const auto expert = static_cast<std::int64_t>(e);
    const NamedBox& like = *boxes.of_expert[e].front();
    // 1. B's rows are the weight's
    for (const NamedBox* named : boxes.of_expert[e]) {
      const std::int64_t extent = named->extent[0], begin = named->local_begin[0];
      NamedBox box{boxes.modules[e] + std::string(up_suffix),
                   {named->whole[0], what.rank},
                   {rows, 0},
                   {named->global_begin[0], 0},
                   {extent, what.rank},
                   named->place,
                   named->owned};
      if (by_columns) share(box, region);
      part.up.boxes.push_back(box);
      rows += extent;
      if (e > 0) continue;
      if (!part.outputs.empty() && part.outputs.back().end == begin) {
        part.outputs.back().end += extent;
      } else {
        part.outputs.push_back({begin, begin + extent});
      }
      part.width += extent;
    }
    // 2. A's columns are the weight's
    NamedBox box{boxes.modules[e] + std::string(down_suffix),
                 {what.rank, like.whole[1]},
                 {expert * ranks_ + before, 0},
                 {0, like.global_begin[1]},
                 {what.rank, like.extent[1]},
                 Place::varying,
                 true};
    if (!by_columns) {
      share(box, region);
      if (like.place == Place::invariant) box.place = Place::invariant;
    }
    down_.boxes.push_back(box);
  }
  require(part.width <= each, "an adapter of more rows than its weight");
  part.up.shape = {rows, what.rank};
  if (dora_) add_magnitudes(part);
  parts_.push_back(std::move(part));
}

void Adapter::collect(std::vector<Param*>& params) {
  if (!attached()) return;
  params.push_back(&down_);
  for (Part& part : parts_) params.push_back(&part.up);
  if (!dora_) return;
  for (Part& part : parts_) params.push_back(&part.magnitude);
}

void Adapter::drop(Pass& pass, const TensorView& x_TI, const TensorView& y_TI) const {
  const DropoutRows& rows = pass.dropout;
  require(!grouped() && x_TI.dim(0) == pass.tokens(),
          "dropout of an adapter's input needs all tokens of the microbatch");
  kernels::dropout(pass.stream,
                   {.seed = rows.seed,
                    .stream = stream_,
                    .first_sequence = rows.first_sequence,
                    .first_token = 0,
                    .here = pass.microbatch.sequence,
                    .sequence = rows.sequence,
                    .first_column = first_column_,
                    .columns = columns_,
                    .first_sequence_1 = rows.first_sequence_1},
                   dropout_, rows.positions_T, x_TI, y_TI);
}

TensorView Adapter::input(Pass& pass, Arena& arena, const TensorView& x_TI) const {
  if (!drops(pass)) return x_TI;
  const TensorView y_TI = arena.take(x_TI.dtype(), x_TI.shape(), "adapter.input");
  drop(pass, x_TI, y_TI);
  return y_TI;
}

void Adapter::scale(Pass& pass, const TensorView& u_TR) const {
  const double first = parts_.front().what.scale;
  const bool one = std::all_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.what.scale == first;
  });
  if (one) return kernels::scale(pass.stream, u_TR, first);
  for (const Part& part : parts_) {
    const ArenaScope scope(pass.scratch);
    const TensorView columns = u_TR.columns(part.first_rank, part.what.rank);
    const TensorView dense =
        pass.scratch.take(u_TR.dtype(), columns.shape(), "adapter.scaled");
    kernels::copy(pass.stream, columns, dense);
    kernels::scale(pass.stream, dense, part.what.scale);
    kernels::copy(pass.stream, dense, columns);
  }
}

TensorView Adapter::inner(Pass& pass, Arena& arena, const TensorView& x_TI,
                          Rows rows) const {
  const DType type = x_TI.dtype();
  const TensorView u_TR = arena.take(type, {x_TI.dim(0), ranks_}, "adapter.u");
  const ArenaScope scope(pass.scratch);
  const TensorView down = in_type(pass, down_.value, type);
  if (grouped()) {
    kernels::grouped_linear(pass.stream, rows, x_TI, down, u_TR);
  } else {
    linear(pass.stream, x_TI, down, {}, u_TR);
  }
  scale(pass, u_TR);
  return u_TR;
}

// Products of groups want dense operands.
TensorView Adapter::columns_of(Pass& pass, Arena& arena, const Part& part,
                               const TensorView& u_TR) const {
  const TensorView columns = u_TR.columns(part.first_rank, part.what.rank);
  if (!grouped() || parts_.size() == 1) return columns;
  const TensorView dense = arena.take(u_TR.dtype(), columns.shape(), "adapter.columns");
  kernels::copy(pass.stream, columns, dense);
  return dense;
}

TensorView Adapter::output_of(Pass& pass, Arena& arena, const Part& part,
                              const TensorView& dy_TO) const {
  if (part.width == dy_TO.dim(1)) return dy_TO;
  const TensorView dense =
      arena.take(dy_TO.dtype(), {dy_TO.dim(0), part.width}, "adapter.dy");
  std::int64_t at = 0;
  for (const Range& range : part.outputs) {
    kernels::copy(pass.stream, dy_TO.columns(range.begin, range.count()),
                  dense.columns(at, range.count()));
    at += range.count();
  }
  return dense;
}

void Adapter::part_forward(Pass& pass, const Part& part, const TensorView& u_TR,
                           const TensorView& y_TO, Rows rows) const {
  const ArenaScope scope(pass.scratch);
  const DType type = y_TO.dtype();
  const TensorView up = in_type(pass, part.up.value, type);
  const TensorView u_Tr = columns_of(pass, pass.scratch, part, u_TR);
  TensorView v_TO;
  if (grouped()) {
    v_TO = pass.scratch.take(type, {y_TO.dim(0), part.width}, "adapter.v");
    kernels::grouped_linear(pass.stream, rows, u_Tr, up, v_TO);
  }
  std::int64_t at = 0;
  for (const Range& range : part.outputs) {
    const TensorView y = y_TO.columns(range.begin, range.count());
    if (grouped()) {
      add_columns(pass, v_TO.columns(at, range.count()), y);
    } else {
      kernels::gemm(pass.stream, y, u_Tr, Transpose::no, up.rows(at, range.count()),
                    Transpose::yes, Accumulate::yes);
    }
    at += range.count();
  }
}

void Adapter::forward(Pass& pass, const TensorView& x_TI, const TensorView& y_TO,
                      Rows rows) const {
  if (!attached()) return;
  const ArenaScope scope(pass.scratch);
  const TensorView u_TR =
      inner(pass, pass.scratch, input(pass, pass.scratch, x_TI), rows);
  for (const Part& part : parts_) part_forward(pass, part, u_TR, y_TO, rows);
}

void Adapter::part_backward(Pass& pass, const Part& part, const TensorView& dy_TO,
                            const TensorView& du_TR, Rows rows) const {
  const ArenaScope scope(pass.scratch);
  const TensorView up = in_type(pass, part.up.value, dy_TO.dtype());
  const TensorView du_Tr = du_TR.columns(part.first_rank, part.what.rank);
  if (grouped()) {
    const TensorView dy = output_of(pass, pass.scratch, part, dy_TO);
    const TensorView dense =
        pass.scratch.take(du_TR.dtype(), du_Tr.shape(), "adapter.du");
    kernels::grouped_linear_input_gradient(pass.stream, rows, dy, up, dense);
    return kernels::copy(pass.stream, dense, du_Tr);
  }
  std::int64_t at = 0;
  for (const Range& range : part.outputs) {
    kernels::gemm(pass.stream, du_Tr, dy_TO.columns(range.begin, range.count()),
                  Transpose::no, up.rows(at, range.count()), Transpose::no,
                  at > 0 ? Accumulate::yes : Accumulate::no);
    at += range.count();
  }
}

TensorView Adapter::output_gradient(Pass& pass, const TensorView& dy_TO,
                                    Rows rows) const {
  if (!attached()) return {};
  const TensorView du_TR =
      pass.kept().take(dy_TO.dtype(), {dy_TO.dim(0), ranks_}, "adapter.du");
  for (const Part& part : parts_) part_backward(pass, part, dy_TO, du_TR, rows);
  scale(pass, du_TR);
  return du_TR;
}

void Adapter::input_gradient(Pass& pass, const TensorView& du_TR, const TensorView& dx_TI,
                             Rows rows) const {
  if (!attached()) return;
  const ArenaScope scope(pass.scratch);
  const TensorView down = in_type(pass, down_.value, du_TR.dtype());
  if (!grouped() && !drops(pass)) {
    kernels::gemm(pass.stream, dx_TI, du_TR, Transpose::no, down, Transpose::no,
                  Accumulate::yes);
    return;
  }
  const TensorView dinput_TI =
      pass.scratch.take(dx_TI.dtype(), dx_TI.shape(), "adapter.dinput");
  if (grouped()) {
    kernels::grouped_linear_input_gradient(pass.stream, rows, du_TR, down, dinput_TI);
  } else {
    kernels::gemm(pass.stream, dinput_TI, du_TR, Transpose::no, down, Transpose::no);
  }
  if (drops(pass)) drop(pass, dinput_TI, dinput_TI);
  kernels::accumulate(pass.stream, dinput_TI, dx_TI);
}

void Adapter::post_gradients(Pass& pass, const TensorView& du_TR, const TensorView& dy_TO,
                             const TensorView& x_TI, std::vector<std::int32_t> rows) {
  if (!attached()) return;
  std::optional<ArenaScope> scope;  // what is posted runs at once, or its memory stays
  if (!pass.weight_gradients.deferred()) scope.emplace(pass.scratch);
  Arena& kept = pass.kept();
  const TensorView input_TI = input(pass, kept, x_TI);
  const TensorView u_TR = inner(pass, kept, input_TI, rows);
  // 1. dA = du^T x, where du has the scale
  pass.weight_gradients.post(
      pass.stream, down_, [this, du_TR, input_TI, rows](Stream& on) {
        if (grouped()) {
          kernels::grouped_linear_weight_gradient(on, rows, du_TR, input_TI,
                                                  down_.gradient);
        } else {
          linear_weight_gradient(on, du_TR, input_TI, down_.gradient,
                                 kernels::Accumulate::yes);
        }
      });
  // 2. dB = dy^T u, where u has it
  for (Part& part : parts_) {
    const TensorView u_Tr = columns_of(pass, kept, part, u_TR);
    if (grouped()) {
      const TensorView dy = output_of(pass, kept, part, dy_TO);
      pass.weight_gradients.post(
          pass.stream, part.up, [&part, dy, u_Tr, rows](Stream& on) {
            kernels::grouped_linear_weight_gradient(on, rows, dy, u_Tr, part.up.gradient);
          });
      continue;
    }
    pass.weight_gradients.post(pass.stream, part.up, [&part, dy_TO, u_Tr](Stream& on) {
      std::int64_t at = 0;
      for (const Range& range : part.outputs) {
        linear_weight_gradient(on, dy_TO.columns(range.begin, range.count()), u_Tr,
                               part.up.gradient.rows(at, range.count()),
                               kernels::Accumulate::yes);
        at += range.count();
      }
    });
  }
}

}  // namespace trireme::nn
