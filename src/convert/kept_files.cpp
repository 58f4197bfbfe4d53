// Files of a Hugging Face folder that go with a model through its checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include "convert/kept_files.hpp"

#include "base/log.hpp"
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
