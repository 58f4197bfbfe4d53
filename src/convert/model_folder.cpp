// ModelFolder: a Hugging Face folder as a source of a model's tensors.
// SPDX-License-Identifier: Apache-2.0
#include "convert/model_folder.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/log.hpp"
#include "base/memory.hpp"
#include "io/checkpoint.hpp"
#include "io/element_convert.hpp"
#include "io/host_copy.hpp"

namespace trireme::convert {
namespace {

constexpr std::string_view prefix = "model/";
constexpr std::size_t most_listed = 50;
// Of FP8 products, whose inputs are quantized here by recipes of this program.
constexpr std::array<std::string_view, 7> scales_of_inputs = {
    ".activation_scale",  ".input_scale", ".input_zero_point", ".output_scale",
    ".output_zero_point", ".k_scale",     ".v_scale"};

std::string shape_text(const io::SafetensorsTensor& tensor) {
  std::string text;
  for (const std::int64_t extent : tensor.extents)
    text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

bool ends_with_any(std::string_view name, std::span<const std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&](std::string_view end) { return name.ends_with(end); });
}

bool begins_with_any(std::string_view name, std::span<const std::string_view> begins) {
  return std::any_of(begins.begin(), begins.end(),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

std::size_t bytes_held(const QuantizedMatrix& matrix, const Shape& begin,
                       const Shape& extent) {
  const auto held = matrix.held(begin, extent);
  return held ? held->bytes(extent) : 0;
}

// Whether this is a tensor of a layer that comes after the model's.
bool is_beyond(const model::ModelConfig& m, std::string_view name) {
  const std::string_view layers = m.row().names.layers;
  if (!name.starts_with(layers)) return false;
  std::int64_t layer = 0;
  const char* const begin = name.data() + layers.size();
  const auto read = std::from_chars(begin, name.data() + name.size(), layer);
  return read.ec == std::errc() && layer >= m.layers;
}

}  // namespace

ModelFolder::ModelFolder(const std::string& path)
    : config_(read_folder_config(path)), files_(path) {
  match();
  check_tied_head();
}

// Some files lack the base's prefix from all names, others have a longer one, of a model
// with other parts; the embedding of a tied model may stand under the head's name.
const io::SafetensorsFolder::Tensor* ModelFolder::find(const std::string& name) const {
  const auto& row = *config_.row;
  if (const auto* found = files_.find(name)) return found;
  if (name.starts_with(row.base)) {
    const std::string_view rest = std::string_view(name).substr(row.base.size());
    if (const auto* found = files_.find(rest)) return found;
    if (!row.outer_base.empty())
      if (const auto* found =
              files_.find(std::string(row.outer_base) + std::string(rest)))
        return found;
  }
  const auto& names = config_.model.row().names;
  if (config_.model.tie_embeddings && name == std::string(names.tokens) + ".weight")
    return files_.find(std::string(names.head) + ".weight");
  return nullptr;
}

// Codes of FP8 stand under the tensor's own name, those of MXFP4 beside it.
std::string ModelFolder::find_scales(FolderTensor& tensor) const {
  const Quantization& how = config_.quantization;
  const std::string& name = tensor.place.name;
  const bool mxfp4 = how.kind == Quantization::Kind::mxfp4;
  QuantizedTensor found{how, tensor.stored, nullptr};
  if (mxfp4) found.codes = find(name + "_blocks");
  for (const char* end : {"_scale_inv", "_scale", "_scales"})
    if (found.scales == nullptr) found.scales = find(name + end);
  if (found.codes == nullptr)
    return format("'{}' of {} is missing", name, tensor.place.shape);
  if (found.scales == nullptr)
    return format("'{}' holds codes, whose scales '{}{}' are missing",
                  found.codes->entry.name, name, mxfp4 ? "_scales" : "_scale_inv");
  tensor.stored = found.codes;
  tensor.quantized = found;
  return why_unusable(found, tensor.place, tensor.whole.shape);
}

bool ModelFolder::find_matrix(FolderTensor& tensor, std::string& wrong) const {
  if (tensor.place.stacked()) return false;
  const QuantizedSearch search{
      config_.quantization, tensor.place.name, tensor.whole.shape,
      [this](const std::string& name) { return find(name); }, files_};
  try {
    tensor.matrix = find_quantized(search);
  } catch (const Error& error) {
    if (error.status() != Status::bad_content) throw;
    wrong = error.what();
    return true;
  }
  if (tensor.matrix == nullptr) return false;
  tensor.stored = tensor.matrix->stored().front();
  return true;
}

std::string ModelFolder::find_stored(FolderTensor& tensor) const {
  const auto kind = config_.quantization.kind;
  const std::string& name = tensor.place.name;
  if (std::string wrong; find_matrix(tensor, wrong)) return wrong;
  tensor.stored = find(name);
  const bool codes =
      tensor.stored != nullptr && tensor.stored->entry.type->dtype == DType::e4m3;
  if ((kind == Quantization::Kind::fp8 && codes) ||
      (kind == Quantization::Kind::mxfp4 && tensor.stored == nullptr))
    return find_scales(tensor);
  if (tensor.stored == nullptr)
    return format("'{}' of {} is missing", name, tensor.place.shape);
  const auto& entry = tensor.stored->entry;
  if (entry.shape() != tensor.place.shape)
    return format("'{}' has the shape {}, where {} was expected", entry.name,
                  shape_text(entry), tensor.place.shape);
  if (!entry.type->dtype || !io::converts(*entry.type->dtype, DType::f32))
    return format("'{}' holds {}, which is no floating type of this program", entry.name,
                  entry.type->name);
  return "";
}

void ModelFolder::match() {
  std::vector<std::string> wrong;
  std::set<std::string> said;
  for (auto& whole : model::whole_tensors(config_.model)) {
    FolderTensor tensor{std::move(whole), {}};
    tensor.place = place_of(*config_.row, config_.model, tensor.whole);
    if (find(tensor.place.name) == nullptr)
      if (const auto other = stacked_place_of(*config_.row, config_.model, tensor.whole);
          find(other.name) != nullptr)
        tensor.place = other;
    const std::string what = find_stored(tensor);
    if (!what.empty() && said.insert(what).second) wrong.push_back(what);
    if (tensor.stored == nullptr) continue;
    by_name_[tensor.whole.name] = tensors_.size();
    tensors_.push_back(std::move(tensor));
  }
  check_others(wrong);
  if (wrong.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < std::min(wrong.size(), most_listed); ++i)
    text += "\n  " + wrong[i];
  if (wrong.size() > most_listed)
    text += format("\n  and {} more", wrong.size() - most_listed);
  fail(Status::bad_content, "{}: the tensors are not those of {} that {} describes:{}",
       path(), config_.row->class_name, config_name, text);
}

void ModelFolder::check_others(std::vector<std::string>& wrong) const {
  std::set<std::string_view> used;
  for (const FolderTensor& tensor : tensors_) {
    used.insert(tensor.stored->entry.name);
    if (tensor.quantized.scales != nullptr)
      used.insert(tensor.quantized.scales->entry.name);
    if (tensor.matrix == nullptr) continue;
    for (const auto* stored : tensor.matrix->stored()) used.insert(stored->entry.name);
  }
  const std::string head = std::string(config_.model.row().names.head) + ".weight";
  const auto kind = config_.quantization.kind;
  const bool of_matrices =
      kind >= Quantization::Kind::bitsandbytes;  // with tensors beside the codes
  if (of_matrices && !wrong.empty()) return;     // they may be those of what is wrong
  const bool inputs_too =
      kind == Quantization::Kind::fp8 || kind == Quantization::Kind::compressed;
  std::size_t left_out = 0, other_parts = 0;
  for (const auto& stored : files_.tensors()) {
    const std::string& name = stored.entry.name;
    const bool tied_head = config_.model.tie_embeddings && name == head;
    const bool of_inputs = inputs_too && ends_with_any(name, scales_of_inputs);
    if (config_.row->further_layers && is_beyond(config_.model, name))
      ++left_out;
    else if (begins_with_any(name, config_.row->left_out))
      ++other_parts;
    else if (!used.contains(name) && !tied_head && !of_inputs &&
             !ends_with_any(name, config_.row->buffers))
      wrong.push_back(format("'{}' is no tensor of this model", name));
  }
  if (wrong.empty() && other_parts > 0)
    log::info(
        "{}: {} tensors of vision or multi-token prediction are left out: the model here "
        "is its text part",
        path(), other_parts);
  if (wrong.empty() && left_out > 0)
    log::info(
        "{}: {} tensors of layers beyond the {} of the model (multi-token prediction) "
        "are left out",
        path(), left_out, config_.model.layers);
}

// Of a tied model that has a head as well the two must be the same bytes: transformers
// would otherwise not tie them.
void ModelFolder::check_tied_head() const {
  const auto& names = config_.model.row().names;
  if (!config_.model.tie_embeddings) return;
  const auto* head = files_.find(std::string(names.head) + ".weight");
  const FolderTensor& table =
      tensors_.at(by_name_.at(std::string(names.tokens) + ".weight"));
  if (head == nullptr || head == table.stored) return;
  const bool same = files_.are_same(*head, *table.stored);
  require(same, Status::bad_content,
          "{}: 'tie_word_embeddings' is true, but '{}' differs from '{}': write "
          "\"tie_word_embeddings\": false in {} if both are meant",
          path(), head->entry.name, table.stored->entry.name, config_name);
}

const FolderTensor& ModelFolder::tensor_of(const std::string& path,
                                           const Shape& whole) const {
  const auto found = path.starts_with(prefix)
                         ? by_name_.find(std::string_view(path).substr(prefix.size()))
                         : by_name_.end();
  require(found != by_name_.end(), Status::bad_content, "{}: has no tensor '{}'",
          files_.path(), path);
  const FolderTensor& tensor = tensors_[found->second];
  require(tensor.whole.shape == whole, Status::bad_content,
          "{}: the tensor '{}' has the shape {}, but {} is wanted", files_.path(), path,
          tensor.whole.shape, whole);
  return tensor;
}

std::size_t ModelFolder::code_bytes(const std::string& path, const Shape& whole,
                                    const Shape& begin, const Shape& extent) const {
  const FolderTensor& tensor = tensor_of(path, whole);
  if (!tensor.is_quantized() || extent.elements() == 0) return 0;
  const auto bytes = tensor.matrix != nullptr
                         ? bytes_held(*tensor.matrix, begin, extent)
                         : bytes_held(tensor.quantized, begin, extent);
  const auto numbers = static_cast<std::size_t>(extent.elements()) * sizeof(BFloat16);
  return bytes < numbers ? bytes : 0;
}

OwnedCodes ModelFolder::read_codes(const std::string& path, const Shape& whole,
                                   const Shape& begin, const Shape& extent) const {
  const FolderTensor& tensor = tensor_of(path, whole);
  if (tensor.matrix != nullptr) return tensor.matrix->read(files_, begin, extent);
  return convert::read_codes(files_, tensor.quantized, tensor.place, begin, extent);
}

void ModelFolder::read(const std::string& path, const Shape& whole, const Shape& begin,
                       const TensorView& out) const {
  const FolderTensor& tensor = tensor_of(path, whole);
  io::HostCopy host;
  host.write(out, [&](const TensorView& view) {
    if (tensor.matrix != nullptr) {
      read_matrix_numbers(*tensor.matrix, files_, begin, view);
      return;
    }
    if (tensor.is_quantized()) {
      read_quantized(files_, tensor.quantized, tensor.place, begin, view);
      return;
    }
    const FolderPlace& place = tensor.place;
    if (!place.stacked() && place.transform == model::Transform::copy) {
      files_.read(*tensor.stored, begin, view);
      return;
    }
    if (view.elements() == 0) return;
    const FolderPlace::Box box = place.box_of(begin, view.shape());
    const Buffer memory(Device::host(), view.dtype(), box.extent, MemoryClass::data,
                        "part of a tensor");
    files_.read(*tensor.stored, box.begin, memory.view());
    from_folder(place, memory.view(), view);
  });
}

std::string_view FolderTensor::type_name() const {
  if (matrix != nullptr) return matrix->type_name();
  if (quantized.how.kind == Quantization::Kind::mxfp4) return "MXFP4";
  return stored->entry.type->name;
}

DType ModelFolder::dtype_of(const FolderTensor& tensor) const {
  if (tensor.is_quantized()) return config_.dtype.value_or(DType::bf16);
  return *tensor.stored->entry.type->dtype;
}

DType ModelFolder::dtype_of(const std::string& name) const {
  const auto found = by_name_.find(name);
  require(found != by_name_.end(), Status::bad_content, "{}: has no tensor '{}'",
          files_.path(), name);
  return dtype_of(tensors_[found->second]);
}

std::vector<std::string> other_files(const Directory& folder) {
  std::vector<std::string> names;
  for (const auto& name : folder.names()) {
    const bool text = name.ends_with(".json") || name.ends_with(".txt") ||
                      name.ends_with(".jinja") || name.ends_with(".model") ||
                      name.ends_with(".tiktoken");
    const bool weights = name.ends_with(".index.json") || name == config_name;
    const bool file = folder.is_file(name) || folder.is_link(name);
    if (text && !weights && file) names.push_back(name);
  }
  return names;
}

bool is_model_folder(const std::string& path) {
  struct stat status {};
  const auto has = [&](const char* name) {
    return ::lstat((path + "/" + name).c_str(), &status) == 0;
  };
  return has(config_name) || has(io::safetensors_name) || has(io::safetensors_index_name);
}

std::unique_ptr<io::TensorSource> open_tensors(const std::string& path, int part,
                                               int parts) {
  if (is_model_folder(path)) return std::make_unique<ModelFolder>(path);
  return std::make_unique<io::CheckpointReader>(path, io::DigestShare{part, parts});
}

}  // namespace trireme::convert
