// Files of a Hugging Face folder that go with a model through its checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include "convert/kept_files.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/path.hpp"
#include "convert/model_folder.hpp"
#include "io/checkpoint_manifest.hpp"

namespace trireme::convert {
namespace {

constexpr std::string_view prefix = "folder/";
constexpr std::int64_t most_bytes = std::int64_t{1} << 28;

// Whether a tensor of a checkpoint can bear the name; warns where it cannot.
bool can_keep(const std::string& folder, const std::string& name) {
  const bool can = io::is_word(name);
  if (!can)
    log::warn(
        "{}: the file '{}' is not kept in checkpoints, whose names have no spaces and no "
        "control characters: rename it if the model needs it",
        folder, name);
  return can;
}

bool is_tokenizer(const std::string& name) {
  return name == "tokenizer.json" || name.ends_with(".model") ||
         name.ends_with(".tiktoken");
}

// Of a folder, or of a file, under the names by which a model's folder has them.
std::vector<KeptFile> tokenizer_files(const std::string& path) {
  std::vector<KeptFile> files;
  const auto add = [&](const Directory& folder, const std::string& name,
                       const std::string& as) {
    files.push_back(
        {as, io::PlainFile(folder, name, io::Links::followed).text(most_bytes)});
  };
  if (!is_folder(path)) {
    const std::string name = last_name_of(path);
    add(Directory::to_read(parent_of(path)), name,
        name.ends_with(".json") ? "tokenizer.json" : name);
    return files;
  }
  const Directory folder = Directory::to_read(path);
  for (const std::string& name : other_files(folder))
    if (is_tokenizer(name) || name == "tokenizer_config.json" || name.ends_with(".jinja"))
      add(folder, name, name);
  return files;
}

}  // namespace

std::vector<KeptFile> kept_files(const std::string& path) {
  const Directory folder = Directory::to_read(path);
  std::vector<std::string> names = other_files(folder);
  names.insert(names.begin(), config_name);
  std::vector<KeptFile> files;
  for (const auto& name : names) {
    std::string bytes = io::PlainFile(folder, name, io::Links::followed).text(most_bytes);
    if (!bytes.empty()) files.push_back({name, std::move(bytes)});
  }
  return files;
}

void add_tokenizer(const std::string& path, std::vector<KeptFile>& files) {
  const bool has = std::any_of(files.begin(), files.end(), [](const KeptFile& file) {
    return is_tokenizer(file.name);
  });
  if (path.empty() || has) return;
  try {
    for (KeptFile& file : tokenizer_files(path)) files.push_back(std::move(file));
  } catch (const Error& error) {
    log::warn("{}: the folder is written without the run's tokenizer: copy it there",
              error.what());
  }
}

std::string names_of(const std::vector<KeptFile>& files) {
  std::string names;
  for (const KeptFile& file : files) names += file.name + "\n";
  return names;
}

void leave_out_odd_names(const std::string& folder, std::vector<KeptFile>& files) {
  std::erase_if(files,
                [&](const KeptFile& file) { return !can_keep(folder, file.name); });
}

void warn_of_odd_names(const std::string& folder) {
  for (const auto& name : other_files(Directory::to_read(folder))) can_keep(folder, name);
}

std::vector<KeptFile> kept_files(const io::CheckpointReader& checkpoint) {
  std::vector<KeptFile> files;
  for (const auto& tensor : checkpoint.tensors()) {
    if (!tensor.path.starts_with(prefix)) continue;
    const std::string name = tensor.path.substr(prefix.size());
    require(io::is_plain_name(name) && tensor.dtype == DType::u8 &&
                tensor.shape.rank() == 1 && tensor.shape[0] <= most_bytes,
            Status::bad_content, "{}: '{}' is not the content of a file",
            checkpoint.directory(), tensor.path);
    std::string bytes(static_cast<std::size_t>(tensor.shape[0]), '\0');
    checkpoint.read(tensor.path, tensor.shape, {0},
                    TensorView(bytes.data(), DType::u8, tensor.shape));
    files.push_back({name, std::move(bytes)});
  }
  return files;
}

std::vector<io::TensorBox> kept_boxes(std::vector<KeptFile>& files) {
  std::vector<io::TensorBox> boxes;
  for (KeptFile& file : files) {
    const Shape shape = {static_cast<std::int64_t>(file.bytes.size())};
    boxes.push_back({std::string(prefix) + file.name,
                     shape,
                     {0},
                     TensorView(file.bytes.data(), DType::u8, shape)});
  }
  return boxes;
}

}  // namespace trireme::convert
