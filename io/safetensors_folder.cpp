// The tensors of a Hugging Face folder: one safetensors file, or shards and their index.
// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors_folder.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/boxes.hpp"
#include "base/memory.hpp"
#include "base/text.hpp"
#include "io/element_convert.hpp"
#include "io/json_members.hpp"

namespace trireme::io {
namespace {

constexpr std::int64_t most_index_bytes = std::int64_t{1} << 28;
constexpr int index_depth = 8;
constexpr std::size_t longest_shown = 200;

constexpr auto pickle_advice =
    "is a pickle file, which can run any program when it is read, and is never opened; "
    "convert the folder to safetensors first (save_pretrained of {} writes them)";

// Why a folder without safetensors is refused.
[[noreturn]] void refuse(const Directory& folder) {
  for (const auto& name : folder.names()) {
    const bool pickle = name.ends_with(".bin") || name.ends_with(".pt") ||
                        name.ends_with(".pth") || name.ends_with(".bin.index.json");
    require(!pickle, Status::bad_content, "{}: {}", folder.path_of(name),
            format(pickle_advice, "transformers"));
  }
  fail(Status::missing_input, "{}: there is neither {} nor {} here", folder.path(),
       safetensors_name, safetensors_index_name);
}

}  // namespace

SafetensorsFolder::SafetensorsFolder(const std::string& path, const std::string& file)
    : files_(path, Links::followed) {
  const Directory& folder = files_.folder();
  const std::string stem = file.substr(0, file.rfind('.'));
  for (const char* end : {".bin", ".pt", ".pth"})
    require(folder.has(file) || !folder.has(stem + end), Status::bad_content,
            "{}: there is no {} here, and {}{} {}", path, file, stem, end,
            format(pickle_advice, "PEFT or transformers"));
  require(folder.has(file), Status::missing_input, "{}: there is no {} here", path, file);
  add(file);
  std::sort(tensors_.begin(), tensors_.end(),
            [](const Tensor& a, const Tensor& b) { return a.entry.name < b.entry.name; });
}

SafetensorsFolder::SafetensorsFolder(const std::string& path)
    : files_(path, Links::followed) {
  if (files_.folder().has(safetensors_name)) {
    add(safetensors_name);
  } else if (files_.folder().has(safetensors_index_name)) {
    read_index();
  } else {
    refuse(files_.folder());
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const Tensor& a, const Tensor& b) { return a.entry.name < b.entry.name; });
  const auto twice = std::adjacent_find(
      tensors_.begin(), tensors_.end(),
      [](const Tensor& a, const Tensor& b) { return a.entry.name == b.entry.name; });
  require(twice == tensors_.end(), Status::bad_content,
          "{}: '{}' is in '{}' and again in '{}'", files_.path(),
          twice == tensors_.end() ? "" : twice->entry.name,
          twice == tensors_.end() ? "" : twice->file,
          twice == tensors_.end() ? "" : std::next(twice)->file);
}

void SafetensorsFolder::add(const std::string& file) {
  shards_.push_back(file);
  for (auto& entry : read_safetensors(files_.open(file)).tensors)
    tensors_.push_back({file, std::move(entry)});
}

void SafetensorsFolder::read_index() {
  const PlainFile file(files_.folder(), safetensors_index_name, Links::followed);
  const std::string text = file.text(most_index_bytes);
  std::set<std::string> shards;
  std::vector<std::pair<std::string, std::string>> named;
  bool has_map = false;
  const auto see = [&](const std::string& object, const std::string& tensor,
                       const Json& value) {
    if (object != "weight_map") return;
    has_map = true;
    const std::string shard = JsonField(value, file.path(), tensor).text();
    require(is_plain_name(shard), Status::bad_content,
            "{}: '{}' lies in '{}', which is no file of this folder", file.path(), tensor,
            shard.substr(0, longest_shown));
    shards.insert(shard);
    named.emplace_back(tensor, shard);
  };
  try {
    for_each_member(text, 2, index_depth, see);
  } catch (const JsonMistake& mistake) {
    fail(Status::bad_content, "{}: is no JSON: {}", file.path(), mistake.what());
  }
  require(has_map, Status::bad_content,
          "{}: 'weight_map', the file of each tensor, is missing", file.path());
  for (const auto& shard : shards) {
    require(files_.folder().has(shard), Status::bad_content,
            "{}: the file '{}' that it names is missing", file.path(), one_line(shard));
    add(shard);
  }
  std::set<std::pair<std::string, std::string>> found;
  for (const auto& tensor : tensors_) found.insert({tensor.entry.name, tensor.file});
  for (const auto& [tensor, shard] : named)
    require(found.contains({tensor, shard}), Status::bad_content,
            "{}: '{}' is not in '{}', where it should be", file.path(), tensor, shard);
}

const SafetensorsFolder::Tensor* SafetensorsFolder::find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const Tensor& tensor, std::string_view key) { return tensor.entry.name < key; });
  return found != tensors_.end() && found->entry.name == name ? &*found : nullptr;
}

void SafetensorsFolder::read(const Tensor& tensor, const Shape& begin,
                             const TensorView& out) {
  const auto& entry = tensor.entry;
  const auto shape = entry.shape();
  require(shape && is_inside(*shape, begin, out.shape()), Status::bad_content,
          "{}/{}: '{}' has no box of {} at {}", path(), tensor.file, entry.name,
          out.shape(), begin);
  require(entry.type->dtype && converts(*entry.type->dtype, out.dtype()),
          Status::bad_content, "{}/{}: '{}' holds {}, which does not convert to {}",
          path(), tensor.file, entry.name, entry.type->name, name_of(out.dtype()));
  const BoxEntry box{tensor.file, entry.begin, origin_of(*shape), *shape, ""};
  read_boxes(files_, {box}, *entry.type->dtype, begin, out);
}

bool SafetensorsFolder::are_same(const Tensor& a, const Tensor& b) {
  const auto shape = a.entry.shape();
  const auto& dtype = a.entry.type->dtype;
  if (!shape || shape->rank() == 0 || !dtype || a.entry.type != b.entry.type ||
      b.entry.shape() != shape)
    return false;
  constexpr std::int64_t some_rows = 1024;
  for (std::int64_t row = 0; row < (*shape)[0]; row += some_rows) {
    Shape begin = origin_of(*shape), extent = *shape;
    begin[0] = row;
    extent[0] = std::min(some_rows, (*shape)[0] - row);
    const Buffer one(Device::host(), *dtype, extent, MemoryClass::data, "a tensor");
    const Buffer other(Device::host(), *dtype, extent, MemoryClass::data, "another");
    read(a, begin, one.view());
    read(b, begin, other.view());
    if (std::memcmp(one.view().raw(), other.view().raw(), one.bytes()) != 0) return false;
  }
  return true;
}

}  // namespace trireme::io
