// MergedAdapters: the products of adapters, added as tensors are read.
// SPDX-License-Identifier: Apache-2.0
#include "convert/merged_adapters.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/memory.hpp"
#include "base/row_windows.hpp"
#include "convert/adapter_folder.hpp"
#include "io/element_convert.hpp"
#include "io/host_copy.hpp"

namespace trireme::convert {
namespace {

constexpr std::string_view prefix = "model/";

// The tensor's name in the model; "" of another path.
std::string name_in(const std::string& path) {
  return path.starts_with(prefix) ? path.substr(prefix.size()) : std::string();
}

Buffer read_box(const io::TensorSource& source, const std::string& path,
                const Shape& whole, const Shape& begin, const Shape& extent) {
  Buffer box(Device::host(), DType::f64, extent, MemoryClass::data, "adapter's matrix");
  source.read(path, whole, begin, box.view());
  return box;
}

// sum_NM (f64) += factor B_NR A_RM
void add_product(double factor, const TensorView& up, const TensorView& down,
                 const TensorView& sum) {
  const std::int64_t rows = up.dim(0), rank = up.dim(1), columns = down.dim(1);
  const double* const b = up.data<double>();
  const double* const a = down.data<double>();
  double* const y = sum.data<double>();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < rank; ++k) {
      const double weight = factor * b[i * rank + k];
      for (std::int64_t j = 0; j < columns; ++j)
        y[i * columns + j] += weight * a[k * columns + j];
    }
  }
}

// sum_NM (f64) += weight (c V - W), of the columns of V = W + P that begin at `column`,
// where P_NK is in f64 and c is m over the length of V's row: DoRA.
void add_weighed(double weight, const TensorView& base_NK, const TensorView& product_NK,
                 const TensorView& magnitude_N, std::int64_t column,
                 const TensorView& sum_NM) {
  const std::int64_t rows = base_NK.dim(0), K = base_NK.dim(1), M = sum_NM.dim(1);
  for (std::int64_t i = 0; i < rows; ++i) {
    const double* const w = base_NK.data<double>() + i * K;
    const double* const p = product_NK.data<double>() + i * K;
    double squares = 0;
    for (std::int64_t j = 0; j < K; ++j) squares += (w[j] + p[j]) * (w[j] + p[j]);
    const double c =
        squares == 0 ? 1 : magnitude_N.data<double>()[i] / std::sqrt(squares);
    for (std::int64_t j = 0; j < M; ++j) {
      const std::int64_t at = column + j;
      sum_NM.data<double>()[i * M + j] += weight * (c * (w[at] + p[at]) - w[at]);
    }
  }
}

// sum (f64) += weight (saved - base), all dense and of one shape.
void add_difference(double weight, const TensorView& saved, const TensorView& base,
                    const TensorView& sum) {
  const std::int64_t elements = sum.elements();
  const double* const s = saved.data<double>();
  double* const y = sum.data<double>();
  const auto add = [&]<class T>(T) {
    const T* const w = base.data<T>();
    for (std::int64_t i = 0; i < elements; ++i)
      y[i] += weight * (s[i] - static_cast<double>(w[i]));
  };
  if (base.dtype() == DType::f64) return add(double{});
  add(float{});
}

// The same elements as a matrix, whose rows may be strided; other tensors are dense.
TensorView as_matrix(const TensorView& view) {
  return view.shape().rank() == 2 ? view : view.reshape({1, view.elements()});
}

// out = the rows of a dense f64 matrix plus those of the model, whose rows may be
// strided.
void store_sum(const TensorView& base, const TensorView& sum, const TensorView& out) {
  const std::int64_t rows = sum.dim(0), columns = sum.dim(1);
  const auto store = [&]<class T>(T) {
    std::vector<T> row(static_cast<std::size_t>(columns));
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* const w = base.data<T>() + i * columns;
      const double* const d = sum.data<double>() + i * columns;
      for (std::int64_t j = 0; j < columns; ++j)
        row[static_cast<std::size_t>(j)] =
            static_cast<T>(static_cast<double>(w[j]) + d[j]);
      io::convert_elements(row.data(), base.dtype(), out.rows(i, 1).raw(), out.dtype(),
                           columns);
    }
  };
  if (base.dtype() == DType::f64) return store(double{});
  store(float{});
}

}  // namespace

bool MergedAdapters::is_replaced(const std::string& name) const {
  return !name.empty() &&
         std::any_of(adapters_.begin(), adapters_.end(), [&](const auto& adapter) {
           return adapter.weight != 0 && adapter.has(name);
         });
}

const AddedAdapter* MergedAdapters::sole_owner(const std::string& name,
                                               const Shape& whole) const {
  if (!is_replaced(name)) return nullptr;
  const std::string down = nn::module_of_tensor(name) + std::string(nn::down_suffix);
  const bool adapted = is_adapted(name, whole);
  const AddedAdapter* owner = nullptr;
  for (const AddedAdapter& adapter : adapters_) {
    const bool holds = adapter.has(name);
    if (adapter.weight == 0 || (!holds && !(adapted && adapter.has(down)))) continue;
    if (!holds || adapter.weight != 1 || owner != nullptr) return nullptr;
    owner = &adapter;
  }
  return owner;
}

bool MergedAdapters::is_adapted(const std::string& name, const Shape& whole) const {
  const std::string module = nn::module_of_tensor(name);
  if (whole.rank() != 2 || name != module + ".weight") return false;
  const std::string down = module + std::string(nn::down_suffix);
  return std::any_of(adapters_.begin(), adapters_.end(),
                     [&](const auto& adapter) { return adapter.has(down); });
}

std::size_t MergedAdapters::code_bytes(const std::string& path, const Shape& whole,
                                       const Shape& begin, const Shape& extent) const {
  const std::string name = name_in(path);
  if (codes_ == nullptr || is_replaced(name) || is_adapted(name, whole)) return 0;
  return codes_->code_bytes(path, whole, begin, extent);
}

OwnedCodes MergedAdapters::read_codes(const std::string& path, const Shape& whole,
                                      const Shape& begin, const Shape& extent) const {
  require(codes_ != nullptr, "'{}' is not stored as codes", path);
  return codes_->read_codes(path, whole, begin, extent);
}

// Lengths are of whole rows, whichever columns are wanted: some rows at a time.
void MergedAdapters::add_dora(const AddedAdapter& adapter, const DoraBox& box,
                              const TensorView& sum) const {
  const std::string tensor = std::string(prefix) + box.module;
  const auto& [path, whole, begin] = box.of;
  const std::int64_t K = whole[1], r = box.rank;
  const Buffer a = read_box(*adapter.tensors, tensor + std::string(nn::down_suffix),
                            {r, K}, {0, 0}, {r, K});
  for (const auto [row, count] : RowWindows(sum.dim(0), K, window_elements)) {
    const std::int64_t first = begin[0] + row;
    const Buffer base = read_box(*base_, path, whole, {first, 0}, {count, K});
    const Buffer b = read_box(*adapter.tensors, tensor + std::string(nn::up_suffix),
                              {whole[0], r}, {first, 0}, {count, r});
    const Buffer m =
        read_box(*adapter.tensors, tensor + std::string(nn::magnitude_suffix), {whole[0]},
                 {first}, {count});
    const Buffer product(Device::host(), DType::f64, {count, K}, MemoryClass::data,
                         "product of an adapter");
    std::fill_n(product.view().data<double>(), count * K, 0.0);
    add_product(box.scale, b.view(), a.view(), product.view());
    add_weighed(adapter.weight, base.view(), product.view(), m.view(), begin[1],
                sum.rows(row, count));
  }
}

// Some rows at a time: tables are large.
void MergedAdapters::add_whole(const AddedAdapter& adapter, const Box& box,
                               const TensorView& base, const TensorView& sum) const {
  const std::int64_t rows = base.dim(0), elements = base.elements() / rows;
  for (const auto [row, count] : RowWindows(rows, elements, window_elements)) {
    Shape first = box.begin, extent = base.shape();
    first[0] += row;
    extent[0] = count;
    const Buffer saved = read_box(*adapter.tensors, box.path, box.whole, first, extent);
    add_difference(adapter.weight, saved.view(), base.rows(row, count),
                   sum.rows(row, count));
  }
}

void MergedAdapters::add_matrices(const AddedAdapter& adapter, const Box& box,
                                  const TensorView& sum) const {
  const std::string module = nn::module_of_tensor(name_in(box.path));
  const std::string tensor = std::string(prefix) + module;
  const auto what = adapter.config.of(module);
  require(what.has_value(), Status::bad_content,
          "'{}' has an adapter that its configuration does not name", module);
  const std::int64_t r = what->rank;
  if (adapter.config.dora) return add_dora(adapter, {box, module, r, what->scale}, sum);
  const Buffer b = read_box(*adapter.tensors, tensor + std::string(nn::up_suffix),
                            {box.whole[0], r}, {box.begin[0], 0}, {sum.dim(0), r});
  const Buffer a = read_box(*adapter.tensors, tensor + std::string(nn::down_suffix),
                            {r, box.whole[1]}, {0, box.begin[1]}, {r, sum.dim(1)});
  add_product(adapter.weight * what->scale, b.view(), a.view(), sum);
}

void MergedAdapters::read(const std::string& path, const Shape& whole, const Shape& begin,
                          const TensorView& out) const {
  const std::string name = name_in(path);
  // 1. what one adapter holds whole, and no other changes
  if (const AddedAdapter* owner = sole_owner(name, whole))
    return owner->tensors->read(path, whole, begin, out);
  // 2. the model's, unchanged
  const bool adapted = is_adapted(name, whole);
  if (!adapted && !is_replaced(name)) return base_->read(path, whole, begin, out);
  // 3. the sum
  const std::string down = nn::module_of_tensor(name) + std::string(nn::down_suffix);
  io::HostCopy host;
  host.write(out, [&](const TensorView& view) {
    if (view.elements() == 0) return;
    const DType type = out.dtype() == DType::f64 ? DType::f64 : DType::f32;
    const Buffer base(Device::host(), type, view.shape(), MemoryClass::data,
                      "model's tensor");
    base_->read(path, whole, begin, base.view());
    const Buffer sum(Device::host(), DType::f64, view.shape(), MemoryClass::data,
                     "changes of adapters");
    std::fill_n(sum.view().data<double>(), view.elements(), 0.0);
    const Box box{path, whole, begin};
    for (const AddedAdapter& adapter : adapters_) {
      if (adapter.weight != 0 && adapter.has(name))
        add_whole(adapter, box, base.view(), sum.view());
      if (adapted && adapter.has(down)) add_matrices(adapter, box, sum.view());
    }
    store_sum(as_matrix(base.view()), as_matrix(sum.view()), as_matrix(view));
  });
}

AddedAdapter added_adapter(const std::string& folder, const model::ModelConfig& model,
                           double weight) {
  const auto tensors = std::make_shared<const AdapterFolder>(folder, model);
  nn::AdapterConfig config = tensors->config();
  require(
      !config.dora || weight >= 0, Status::command_line,
      "{}: is a DoRA adapter (use_dora), which cannot be taken away again: merging "
      "puts learned lengths of rows in the place of the model's; go back to the model "
      "that it was merged into",
      folder);
  require(config.modules_to_save.empty() || weight >= 0, Status::command_line,
          "{}: is an adapter with whole modules (modules_to_save), which cannot be taken "
          "away again: merging puts them in the place of the model's; go back to the "
          "model that it was merged into",
          folder);
  config.modules_to_save.clear();
  return {tensors, config, weight,
          [tensors](const std::string& tensor) { return tensors->has(tensor); }};
}

AddedAdapter own_adapter(std::shared_ptr<const io::CheckpointReader> checkpoint,
                         const nn::AdapterConfig& config) {
  return {checkpoint, config, 1, [checkpoint](const std::string& tensor) {
            return nn::is_adapter_tensor(tensor) && checkpoint->has("model/" + tensor);
          }};
}

}  // namespace trireme::convert
