// `trireme convert FROM TO [--dtype T] [--shard-bytes N]`.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <optional>

#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "convert/folder_writer.hpp"
#include "convert/kept_files.hpp"
#include "convert/model_folder.hpp"

namespace trireme::app {
namespace {

constexpr std::string_view usage =
    "trireme convert FROM TO [--dtype fp32|bf16|fp16|fp64] [--shard-bytes N]";
constexpr std::int64_t default_shard_bytes = 5'000'000'000;  // as transformers 4 has it

std::optional<DType> read_dtype(const Arguments& arguments) {
  if (!arguments.has("--dtype")) return {};
  const std::string name = arguments.text("--dtype", "");
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    if (name == name_of(dtype)) return dtype;
  fail(Status::command_line, "--dtype: '{}' is none of fp32, bf16, fp16 and fp64", name);
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Deals tensors out so that every rank writes about as many bytes.
std::vector<io::TensorBox> share_of(const comm::World& world,
                                    const convert::ModelFolder& folder,
                                    std::optional<DType> dtype) {
  std::vector<io::TensorBox> boxes;
  std::vector<double> load(static_cast<std::size_t>(world.size()));
  for (const auto& tensor : folder.tensors()) {
    const Shape& shape = tensor.whole.shape;
    const DType stored = folder.dtype_of(tensor);
    const DType type = tensor.whole.learned ? dtype.value_or(stored) : stored;
    const auto least = std::min_element(load.begin(), load.end());
    *least += static_cast<double>(shape.elements()) * static_cast<double>(size_of(type));
    if (least - load.begin() != world.rank()) continue;
    Shape begin = shape;
    for (int i = 0; i < begin.rank(); ++i) begin[i] = 0;
    const std::string path = "model/" + tensor.whole.name;
    boxes.push_back({path, shape, begin, TensorView(nullptr, type, shape, Device::meta()),
                     true, false, [&folder, path, shape, begin](const TensorView& view) {
                       folder.read(path, shape, begin, view);
                     }});
  }
  return boxes;
}

void to_checkpoint(comm::World& world, const std::string& from, const std::string& to,
                   std::optional<DType> dtype) {
  std::optional<convert::ModelFolder> folder;
  std::vector<convert::KeptFile> kept;
  io::CheckpointInfo info;
  info.program_version = build_info().version;
  std::vector<io::TensorBox> boxes;
  world.agree([&] {
    const model::ModelConfig model = read_model(from, 0);
    folder.emplace(from);
    info.deck = folder_deck(model, dtype ? dtype : folder->config().dtype);
    boxes = share_of(world, *folder, dtype);
    if (world.rank() != 0) return;
    std::error_code ignored;
    const auto there = std::filesystem::symlink_status(to, ignored);
    require(!std::filesystem::exists(there) || (std::filesystem::is_directory(there) &&
                                                std::filesystem::is_empty(to, ignored)),
            Status::cannot_create, "{}: is there already; nothing is replaced", to);
    kept = convert::kept_files(from);
    for (auto& box : convert::kept_boxes(kept)) boxes.push_back(std::move(box));
  });
  io::write_checkpoint(world, to, info, boxes, 0);
  log::info("{} tensors of {} are a checkpoint in {}", folder->tensors().size(), from,
            to);
}

void to_folder(comm::World& world, const std::string& from, const std::string& to,
               const convert::FolderOptions& options) {
  std::optional<io::CheckpointReader> reader;
  model::ModelConfig model;
  world.agree([&] {
    reader.emplace(from, world.rank(), world.size());
    model = checkpoint_config(*reader).model;
  });
  const auto written = convert::write_folder(world, *reader, model, to, options);
  log::info("{} tensors of {} are a Hugging Face folder in {}: {} in {} {}",
            written.tensors, reader->directory(), to,
            human_bytes(static_cast<double>(written.bytes)), written.shards,
            written.shards == 1 ? "file" : "shards");
}

}  // namespace

int convert(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  std::string from, to;
  convert::FolderOptions options;
  world.agree([&] {
    constexpr Option known[] = {{"--dtype", true}, {"--shard-bytes", true}};
    arguments.parse(usage, known, 2, 2);
    from = without_slash(arguments.words()[0]);
    to = without_slash(arguments.words()[1]);
    options.dtype = read_dtype(arguments);
    options.shard_bytes =
        arguments.integer("--shard-bytes", default_shard_bytes, 1, INT64_MAX);
    require(!convert::is_model_folder(from) || !arguments.has("--shard-bytes"),
            Status::command_line,
            "--shard-bytes cuts a Hugging Face folder, and '{}' is to be a checkpoint",
            to);
  });
  if (convert::is_model_folder(from)) {
    to_checkpoint(world, from, to, options.dtype);
  } else {
    to_folder(world, from, to, options);
  }
  return 0;
}

}  // namespace trireme::app
