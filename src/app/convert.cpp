// `trireme convert FROM TO [--dtype T] [--shard-bytes N] [--quantize Q]`.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <filesystem>
#include <optional>

#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "convert/folder_writer.hpp"
#include "convert/kept_files.hpp"
#include "convert/model_folder.hpp"
#include "io/checkpoint_parts.hpp"
#include "io/digest.hpp"

namespace trireme::app {
namespace {

using convert::QuantizeTo;

constexpr std::string_view usage =
    "trireme convert FROM TO [--dtype fp32|bf16|fp16|fp64] [--shard-bytes N] "
    "[--quantize nf4|int8|fp8]";
// Of folders as transformers 4 has it; of checkpoints so that ranks have enough to share.
constexpr std::int64_t folder_shard_bytes = 5'000'000'000;
constexpr std::int64_t checkpoint_shard_bytes = 500'000'000;

std::optional<DType> read_dtype(const Arguments& arguments) {
  if (!arguments.has("--dtype")) return {};
  const std::string name = arguments.text("--dtype", "");
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    if (name == name_of(dtype)) return dtype;
  fail(Status::command_line, "--dtype: '{}' is none of fp32, bf16, fp16 and fp64", name);
}

QuantizeTo read_quantize(const Arguments& arguments) {
  if (!arguments.has("--quantize")) return QuantizeTo::none;
  const std::string name = arguments.text("--quantize", "");
  if (name == "nf4") return QuantizeTo::nf4;
  if (name == "int8") return QuantizeTo::int8;
  if (name == "fp8") return QuantizeTo::fp8;
  fail(Status::command_line, "--quantize: '{}' is none of nf4, int8 and fp8", name);
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// The tensors of the folder in shards of at most so many bytes, or of one tensor each.
std::vector<std::vector<io::TensorBox>> cut(const convert::ModelFolder& folder,
                                            std::optional<DType> dtype,
                                            std::int64_t shard_bytes) {
  std::vector<std::vector<io::TensorBox>> shards(1);
  std::int64_t filled = 0;
  for (const auto& tensor : folder.tensors()) {
    const Shape& shape = tensor.whole.shape;
    const DType stored = folder.dtype_of(tensor);
    const DType type = tensor.whole.learned ? dtype.value_or(stored) : stored;
    const auto bytes = shape.elements() * static_cast<std::int64_t>(size_of(type));
    if (filled > 0 && bytes > shard_bytes - filled) {
      shards.emplace_back();
      filled = 0;
    }
    filled += bytes;
    Shape begin = shape;
    for (int i = 0; i < begin.rank(); ++i) begin[i] = 0;
    const std::string path = "model/" + tensor.whole.name;
    shards.back().push_back(
        {path, shape, begin, TensorView(nullptr, type, shape, Device::meta()), true,
         false, [&folder, path, shape, begin](const TensorView& view) {
           folder.read(path, shape, begin, view);
         }});
  }
  return shards;
}

// What the files made of a folder are a function of. Of its weights size and time are
// taken, for their digest would cost as much as the conversion.
io::Json folder_state(const convert::ModelFolder& folder,
                      const std::vector<convert::KeptFile>& kept) {
  io::Json job;
  for (const convert::KeptFile& file : kept)
    job["files"][file.name] = io::digest_of(file.bytes);
  for (const std::string& shard : folder.files().shards()) {
    struct stat status {};
    const std::string path = folder.path() + "/" + shard;
    require(::stat(path.c_str(), &status) == 0, Status::missing_input,
            "{}: is not there any more", path);
    job["shards"][shard] = {status.st_size, status.st_mtim.tv_sec,
                            status.st_mtim.tv_nsec};
  }
  return job;
}

std::string job_text(const convert::ModelFolder& folder,
                     const std::vector<convert::KeptFile>& kept,
                     const io::CheckpointInfo& info,
                     const convert::FolderOptions& options) {
  io::Json job = folder_state(folder, kept);
  job["to"] = "checkpoint";
  job["deck"] = io::digest_of(info.deck);
  job["dtype"] = options.dtype ? name_of(*options.dtype) : "as stored";
  job["shard_bytes"] = options.shard_bytes;
  job["program"] = info.program_version;
  return job.dump(2) + "\n";
}

std::string kept_text(std::int64_t kept, std::int64_t shards) {
  if (kept == 0) return "";
  return format("; {} of {} shards were there from an earlier try", kept, shards);
}

void to_checkpoint(comm::World& world, const std::string& from, const std::string& to,
                   const convert::FolderOptions& options) {
  const std::optional<DType> dtype = options.dtype;
  std::optional<convert::ModelFolder> folder;
  std::vector<convert::KeptFile> kept;
  io::CheckpointInfo info;
  info.program_version = build_info().version;
  std::vector<std::vector<io::TensorBox>> shards;
  std::string job;
  world.agree([&] {
    const model::ModelConfig model = read_model(from, 0);
    folder.emplace(from);
    info.deck = folder_deck(model, dtype ? dtype : folder->config().dtype);
    shards = cut(*folder, dtype, options.shard_bytes);
    kept = convert::kept_files(from);
    for (auto& box : convert::kept_boxes(kept)) shards[0].push_back(std::move(box));
    if (world.rank() != 0) return;
    std::error_code ignored;
    const auto there = std::filesystem::symlink_status(to, ignored);
    require(!std::filesystem::exists(there) || (std::filesystem::is_directory(there) &&
                                                io::holds_parts_only(to, info.step)),
            Status::cannot_create, "{}: is there already; nothing is replaced", to);
    job = job_text(*folder, kept, info, options);
  });
  const io::PartsResult written =
      io::write_checkpoint_parts(world, to, info, shards, job);
  log::info("{} tensors of {} are a checkpoint in {}{}", folder->tensors().size(), from,
            to, kept_text(written.kept, written.shards));
}

void report(const convert::WrittenFolder& written, const std::string& from,
            const std::string& to) {
  log::info("{} tensors of {} are a Hugging Face folder in {}: {} in {} {}{}",
            written.tensors, from, to, human_bytes(static_cast<double>(written.bytes)),
            written.shards, written.shards == 1 ? "file" : "shards",
            kept_text(written.kept, written.shards));
}

void checkpoint_to_folder(comm::World& world, const std::string& from,
                          const std::string& to, const convert::FolderOptions& options) {
  std::optional<io::CheckpointReader> reader;
  std::optional<convert::FolderSource> source;
  model::ModelConfig model;
  world.agree([&] {
    reader.emplace(from, world.rank(), world.size());
    model = checkpoint_config(*reader).model;
    source.emplace(convert::source_of(*reader));
  });
  report(convert::write_folder(world, *source, model, to, options), reader->directory(),
         to);
}

void folder_to_folder(comm::World& world, const std::string& from, const std::string& to,
                      const convert::FolderOptions& options) {
  std::optional<convert::ModelFolder> folder;
  std::optional<convert::FolderSource> source;
  world.agree([&] {
    folder.emplace(from);
    const auto type_of = [&](const std::string& name) {
      for (const auto& tensor : folder->tensors())
        if (tensor.whole.name == name) return folder->dtype_of(tensor);
      fail(Status::bad_content, "{}: has no tensor '{}'", from, name);
    };
    std::vector<convert::KeptFile> kept = convert::kept_files(from);
    const std::string digest = io::digest_of(folder_state(*folder, kept).dump());
    source.emplace(convert::FolderSource{*folder, type_of, std::move(kept), digest});
  });
  report(convert::write_folder(world, *source, folder->config().model, to, options), from,
         to);
}

}  // namespace

int convert(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  std::string from, to;
  convert::FolderOptions options;
  world.agree([&] {
    constexpr Option known[] = {
        {"--dtype", true}, {"--shard-bytes", true}, {"--quantize", true}};
    arguments.parse(usage, known, 2, 2);
    from = without_slash(arguments.words()[0]);
    to = without_slash(arguments.words()[1]);
    options.dtype = read_dtype(arguments);
    options.quantize = read_quantize(arguments);
    options.shard_bytes = arguments.integer(
        "--shard-bytes",
        convert::is_model_folder(from) && options.quantize == QuantizeTo::none
            ? checkpoint_shard_bytes
            : folder_shard_bytes,
        1, INT64_MAX);
  });
  if (!convert::is_model_folder(from)) {
    checkpoint_to_folder(world, from, to, options);
  } else if (options.quantize != QuantizeTo::none) {
    folder_to_folder(world, from, to, options);
  } else {
    to_checkpoint(world, from, to, options);
  }
  return 0;
}

}  // namespace trireme::app
