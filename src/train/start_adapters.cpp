// StartAdapters: adapters of a folder, of the checkpoint, or new ones.
// SPDX-License-Identifier: Apache-2.0
#include "train/start_adapters.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/memory.hpp"
#include "base/row_windows.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/row_lengths.hpp"
#include "model/adapted_modules.hpp"
#include "model/whole_tensors.hpp"

namespace trireme::train {
namespace {

constexpr std::string_view prefix = "model/";

// A folder's matrices are multiplied as the deck says: it must say what the folder does.
void check_scales(const convert::AdapterFolder& folder, const nn::AdapterConfig& deck) {
  const auto word = [](bool value) { return value ? "true" : "false"; };
  require(folder.config().dora == deck.dora, Status::bad_content,
          "{}: has use_dora {}, and the deck adapter.dora = {}: write adapter.dora = {}",
          folder.path(), word(folder.config().dora), word(deck.dora),
          word(folder.config().dora));
  for (const std::string& module : folder.modules()) {
    const auto theirs = folder.config().of(module), ours = deck.of(module);
    require(ours.has_value(), Status::bad_content,
            "{}: has an adapter of '{}', which adapter.targets leaves out", folder.path(),
            module);
    require(!theirs ||
                std::abs(theirs->scale - ours->scale) <= 1e-12 * std::abs(theirs->scale),
            Status::bad_content,
            "{}: multiplies the adapter of '{}' by {}, the deck by {}: write the "
            "adapter.alpha, rank and rslora of its {}",
            folder.path(), module, theirs ? theirs->scale : 0, ours->scale,
            convert::adapter_config_name);
  }
}

// Whole modules of a folder that stay as they are would be missing in what is exported.
void check_saved(const convert::AdapterFolder& folder, const nn::AdapterConfig& deck) {
  for (const std::string& module : folder.config().modules_to_save)
    require(deck.saves(module), Status::bad_content,
            "{}: has '{}' as a whole (modules_to_save), and adapter.modules_to_save "
            "leaves it out: name it there, too",
            folder.path(), module);
}

void open_folder(const std::string& path, const model::ModelConfig& model,
                 std::optional<convert::AdapterFolder>& folder) try {
  folder.emplace(path, model);
} catch (const Error& error) {
  if (error.status() != Status::missing_input) throw;
  fail(error.status(), "{}: write the folder where its {} and weights lie", error.what(),
       convert::adapter_config_name);
}

// The weight whose rows' lengths are in a box.
std::string weight_of(const io::TensorBox& box) {
  return box.path.substr(0, box.path.size() - nn::magnitude_suffix.size()) + ".weight";
}

}  // namespace

StartAdapters::StartAdapters(const config::RunConfig& config,
                             const io::CheckpointReader* checkpoint)
    : config_(config), checkpoint_(checkpoint) {
  const nn::AdapterConfig& adapter = config.adapter.matrices;
  const bool theirs =
      checkpoint != nullptr &&
      std::any_of(checkpoint->tensors().begin(), checkpoint->tensors().end(),
                  [](const auto& entry) { return nn::is_adapter_tensor(entry.path); });
  require(!theirs || adapter.exists(), Status::bad_content,
          "model.from = \"{}\" has adapters, and this run has none: merge them first "
          "(trireme convert --merge), or write its [adapter]",
          config.start_from);
  if (config.adapter.from.empty()) return;
  io::named(config.adapter.named_by,
            [&] { open_folder(config.adapter.from, config.model, folder_); });
  check_scales(*folder_, adapter);
  check_saved(*folder_, adapter);
}

std::optional<io::TensorBox> StartAdapters::rows_of(
    const io::TensorBox& box, const io::CheckpointReader& checkpoint) {
  if (!box.path.ends_with(nn::magnitude_suffix)) return {};
  const std::string weight = weight_of(box);
  for (const io::TensorEntry& entry : checkpoint.tensors()) {
    if (entry.path != weight || entry.shape.rank() != 2) continue;
    io::TensorBox rows;
    rows.path = weight;
    rows.whole = entry.shape;
    rows.begin = {box.begin[0], 0};
    rows.data = TensorView(nullptr, entry.dtype, {box.data.dim(0), entry.shape[1]});
    return rows;
  }
  return {};
}

// Some rows at a time, in the type that the weights are kept in.
void StartAdapters::read_lengths(const io::TensorBox& box,
                                 const io::TensorSource& base) const {
  const std::string weight = weight_of(box);
  const auto tensors = model::whole_tensors(config_.model);
  const auto found = std::find_if(
      tensors.begin(), tensors.end(),
      [&](const auto& tensor) { return std::string(prefix) + tensor.name == weight; });
  require(found != tensors.end(), "'{}' has no weight", box.path);
  const Shape whole = found->shape;
  const DType kept = config_.precision.recipe[TensorClass::weight].type;
  const DType rounded = box.data.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const std::int64_t rows = box.data.dim(0);
  const Buffer lengths(Device::host(), DType::f64, {rows}, MemoryClass::data, "lengths");
  Stream stream;
  kernels::fill(stream, lengths.view(), 0.0);
  for (const auto [row, count] : RowWindows(rows, whole[1], window_elements)) {
    const Buffer some(Device::host(), kept, {count, whole[1]}, MemoryClass::data, "rows");
    base.read(weight, whole, {box.begin[0] + row, 0}, some.view());
    kernels::add_row_squares(stream, some.view(), lengths.view().rows(row, count));
  }
  kernels::take_roots(stream, lengths.view(), rounded);
  kernels::copy(stream, lengths.view(), box.data);
}

bool StartAdapters::read(const io::TensorBox& box, const io::TensorSource& base) const {
  const std::string name = box.path.substr(prefix.size());
  const bool matrix = nn::is_adapter_tensor(name);
  if (folder_ && (matrix || folder_->has(name))) {
    folder_->read(box.path, box.whole, box.begin, box.data);
    return true;
  }
  if (!matrix || (checkpoint_ != nullptr && checkpoint_->has(box.path))) return false;
  if (name.ends_with(nn::magnitude_suffix)) read_lengths(box, base);
  return true;
}

}  // namespace trireme::train
