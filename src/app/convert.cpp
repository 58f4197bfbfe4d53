// `trireme convert FROM TO`: folders, checkpoints, adapters and quantized weights.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "app/adapters.hpp"
#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "base/boxes.hpp"
#include "base/log.hpp"
#include "base/path.hpp"
#include "base/version.hpp"
#include "convert/adapter_folder.hpp"
#include "convert/folder_writer.hpp"
#include "convert/kept_files.hpp"
#include "convert/merged_adapters.hpp"
#include "convert/model_folder.hpp"
#include "io/checkpoint_parts.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"

namespace trireme::app {
namespace {

using convert::QuantizeTo;

constexpr std::string_view usage =
    "trireme convert FROM TO [--dtype fp32|bf16|fp16|fp64] [--shard-bytes N] "
    "[--quantize nf4|fp4|int8|fp8|fp8-blocks|int4] [--double-quantization] "
    "[--keep-experts] [--merge] "
    "[--merge-adapter DIR[=WEIGHT],...] [--unmerge-adapter DIR[=WEIGHT],...]";
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

convert::Quantize read_quantize(const Arguments& arguments) {
  constexpr auto nested = "--double-quantization", keep = "--keep-experts";
  convert::Quantize how{QuantizeTo::none, arguments.has(nested), arguments.has(keep)};
  if (arguments.has("--quantize")) {
    const std::string name = arguments.text("--quantize", "");
    const auto to = convert::quantize_to(name);
    require(to.has_value(), Status::command_line, "--quantize: '{}' is none of {}", name,
            convert::ways_to_quantize());
    how.to = *to;
  }
  const bool four = how.to == QuantizeTo::nf4 || how.to == QuantizeTo::fp4;
  require(four || !how.nested, Status::command_line,
          "{}: is of nf4 and fp4 alone: write --quantize nf4 (or fp4), or leave it out",
          nested);
  require(
      how.of_bitsandbytes() || !how.keeps_experts, Status::command_line,
      "{}: is of nf4, fp4 and int8 alone, for transformers reads experts of the others: "
      "leave it out",
      keep);
  return how;
}

// Adapters to add (or, with weights below 0, to take away).
struct Merging {
  std::vector<NamedAdapter> adapters;
  bool own = false;  // of the checkpoint itself

  // What the result depends on beside the model.
  std::string text() const {
    std::string all = own ? "its own" : "";
    for (const NamedAdapter& adapter : adapters)
      all +=
          format("{} {} {}\n", adapter.weight,
                 io::file_digest(adapter.folder + "/" + convert::adapter_config_name),
                 io::file_digest(adapter.folder + "/" + convert::adapter_weights_name));
    return all;
  }
};

Merging read_merging(const Arguments& arguments) {
  Merging merging{{}, arguments.has("--merge")};
  for (const auto& [option, sign] :
       {std::pair{"--merge-adapter", 1.0}, {"--unmerge-adapter", -1.0}}) {
    if (!arguments.has(option)) continue;
    for (NamedAdapter& adapter : parse_adapters(option, arguments.text(option, ""))) {
      adapter.weight *= sign;
      merging.adapters.push_back(std::move(adapter));
    }
  }
  return merging;
}

void require_no_own(const Merging& merging, const std::string& folder) {
  require(!merging.own, Status::command_line,
          "--merge: {} is a folder, which has no adapter of its own; write "
          "--merge-adapter DIR",
          folder);
}

// The tensors of another source, which outlives this.
class Borrowed : public io::TensorSource {
 public:
  explicit Borrowed(const io::TensorSource& source) : source_(source) {}
  void read(const std::string& path, const Shape& whole, const Shape& begin,
            const TensorView& out) const override {
    source_.read(path, whole, begin, out);
  }

 private:
  const io::TensorSource& source_;
};

// The tensors of the folder in shards of at most so many bytes, or of one tensor each.
std::vector<std::vector<io::TensorBox>> cut(const convert::ModelFolder& folder,
                                            const io::TensorSource& source,
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
    const Shape begin = origin_of(shape);
    const std::string path = "model/" + tensor.whole.name;
    shards.back().push_back(
        {path, shape, begin, TensorView(nullptr, type, shape, Device::meta()), true,
         false, [&source, path, shape, begin](std::int64_t, const TensorView& view) {
           source.read(path, shape, begin, view);
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
                     const convert::FolderOptions& options, const Merging& merging) {
  io::Json job = folder_state(folder, kept);
  job["to"] = "checkpoint";
  job["deck"] = io::digest_of(info.deck);
  job["dtype"] = options.dtype ? name_of(*options.dtype) : "as stored";
  job["shard_bytes"] = options.shard_bytes;
  if (!merging.adapters.empty()) job["adapters"] = merging.text();
  job["program"] = info.program_version;
  return job.dump(2) + "\n";
}

std::string kept_text(std::int64_t kept, std::int64_t shards) {
  if (kept == 0) return "";
  return format("; {} of {} shards were there from an earlier try", kept, shards);
}

void to_checkpoint(comm::World& world, const std::string& from, const std::string& to,
                   const convert::FolderOptions& options, const Merging& merging) {
  const std::optional<DType> dtype = options.dtype;
  std::optional<convert::ModelFolder> folder;
  std::unique_ptr<io::TensorSource> source;
  std::vector<convert::KeptFile> kept;
  io::CheckpointInfo info;
  info.program_version = build_info().version;
  std::vector<std::vector<io::TensorBox>> shards;
  std::string job;
  world.agree([&] {
    const model::ModelConfig model = read_model(from, 0);
    folder.emplace(from);
    info.deck = folder_deck(model, dtype ? dtype : folder->config().dtype);
    require_no_own(merging, from);
    source = with_adapters(std::make_unique<Borrowed>(*folder), model, merging.adapters);
    shards = cut(*folder, *source, dtype, options.shard_bytes);
    kept = convert::kept_files(from);
    convert::leave_out_odd_names(from, kept);
    for (auto& box : convert::kept_boxes(kept)) shards[0].push_back(std::move(box));
    if (world.rank() != 0) return;
    std::error_code ignored;
    const auto there = std::filesystem::symlink_status(to, ignored);
    require(!std::filesystem::exists(there) || (std::filesystem::is_directory(there) &&
                                                io::holds_parts_only(to, info.step)),
            Status::cannot_create, "{}: is there already; nothing is replaced", to);
    job = job_text(*folder, kept, info, options, merging);
  });
  const io::PartsResult written =
      io::write_checkpoint_parts(world, to, info, shards, job);
  log::info("{} tensors of {} are a checkpoint in {}{}", folder->tensors().size(), from,
            to, kept_text(written.kept, written.shards));
}

// The adapter of a checkpoint alone, as PEFT writes it.
void to_adapter(comm::World& world, const io::CheckpointReader& reader,
                const config::RunConfig& config, const std::string& to,
                const convert::FolderOptions& options) {
  const std::int64_t tensors = convert::write_adapter(
      world, reader, config.model, {config.adapter.matrices, config.start_from}, to,
      options.dtype);
  log::info(
      "the adapter of {}, {} tensors, is in {} as PEFT has it; --merge writes the whole "
      "model",
      reader.directory(), tensors, to);
}

void report(const convert::WrittenFolder& written, const std::string& from,
            const std::string& to) {
  log::info("{} tensors of {} are a Hugging Face folder in {}: {} in {} {}{}",
            written.tensors, from, to, human_bytes(static_cast<double>(written.bytes)),
            written.shards, written.shards == 1 ? "file" : "shards",
            kept_text(written.kept, written.shards));
}

void checkpoint_to_folder(comm::World& world, const std::string& from,
                          const std::string& to, const convert::FolderOptions& options,
                          const Merging& merging) {
  std::shared_ptr<const io::CheckpointReader> reader;
  std::unique_ptr<io::TensorSource> merged;
  std::optional<convert::FolderSource> source;
  config::RunConfig config;
  world.agree([&] {
    reader = std::make_shared<io::CheckpointReader>(
        from, io::DigestShare{world.rank(), world.size()});
    config = checkpoint_config(*reader);
    const bool own = config.adapter.matrices.exists();
    require(own || !merging.own, Status::command_line,
            "--merge: {} was trained without adapters; write --merge-adapter DIR", from);
    require(!own || merging.own || merging.adapters.empty(), Status::command_line,
            "{} has an adapter of its own: write --merge, too, to add it to the model",
            from);
    require(!own || merging.own || options.quantize.to == QuantizeTo::none,
            Status::command_line,
            "--quantize: {} has an adapter, which is written alone: write --merge, too",
            from);
    convert::FolderSource plain = convert::source_of(*reader);
    convert::add_tokenizer(config.data.tokenizer, plain.kept);
    merged = std::make_unique<Borrowed>(*reader);
    auto type_of = plain.type_of;
    if (merging.own) {
      merged = std::make_unique<convert::MergedAdapters>(
          tensors_of(reader, config, world.rank(), world.size()),
          std::vector{convert::own_adapter(reader, config.adapter.matrices)});
      if (config.adapter.quantize != model::BaseCodes::none)
        type_of = [reader, type_of, kept = config.precision.recipe[TensorClass::weight]](
                      const std::string& name) {
          return reader->has("model/" + name) ? type_of(name) : kept.type;
        };
    }
    merged = with_adapters(std::move(merged), config.model, merging.adapters);
    source.emplace(convert::FolderSource{
        *merged, type_of, plain.kept,
        io::digest_of(plain.digest + merging.text() + convert::names_of(plain.kept))});
  });
  if (config.adapter.matrices.exists() && !merging.own)
    return to_adapter(world, *reader, config, to, options);
  report(convert::write_folder(world, *source, config.model, to, options),
         reader->directory(), to);
}

void folder_to_folder(comm::World& world, const std::string& from, const std::string& to,
                      const convert::FolderOptions& options, const Merging& merging) {
  std::optional<convert::ModelFolder> folder;
  std::unique_ptr<io::TensorSource> merged;
  std::optional<convert::FolderSource> source;
  world.agree([&] {
    folder.emplace(from);
    require_no_own(merging, from);
    require(
        folder->config().quantization.kind == convert::Quantization::Kind::none,
        Status::bad_content,
        "--quantize: {} holds codes already (quantization_config of config.json), and "
        "codes are made of numbers; convert it to a checkpoint, which has numbers, and "
        "quantize that",
        from);
    const auto type_of = [&](const std::string& name) { return folder->dtype_of(name); };
    merged = with_adapters(std::make_unique<Borrowed>(*folder), folder->config().model,
                           merging.adapters);
    std::vector<convert::KeptFile> kept = convert::kept_files(from);
    const std::string state = folder_state(*folder, kept).dump() + merging.text();
    source.emplace(
        convert::FolderSource{*merged, type_of, std::move(kept), io::digest_of(state)});
  });
  report(convert::write_folder(world, *source, folder->config().model, to, options), from,
         to);
}

}  // namespace

int convert(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  std::string from, to;
  convert::FolderOptions options;
  Merging merging;
  world.agree([&] {
    constexpr Option known[] = {
        {"--dtype", true},         {"--shard-bytes", true},
        {"--quantize", true},      {"--double-quantization", false},
        {"--keep-experts", false}, {"--merge", false},
        {"--merge-adapter", true}, {"--unmerge-adapter", true}};
    arguments.parse(usage, known, 2, 2);
    from = without_slashes(arguments.words()[0]);
    to = without_slashes(arguments.words()[1]);
    const std::string name = last_name_of(to);
    require(!name.empty() && name != "." && name != "..", Status::cannot_create,
            "'{}' is a folder that is there: name a new one for the result",
            arguments.words()[1]);
    options.dtype = read_dtype(arguments);
    options.quantize = read_quantize(arguments);
    merging = read_merging(arguments);
    options.shard_bytes = arguments.integer(
        "--shard-bytes",
        convert::is_model_folder(from) && options.quantize.to == QuantizeTo::none
            ? checkpoint_shard_bytes
            : folder_shard_bytes,
        1, INT64_MAX);
  });
  if (!convert::is_model_folder(from)) {
    checkpoint_to_folder(world, from, to, options, merging);
  } else if (options.quantize.to != QuantizeTo::none) {
    folder_to_folder(world, from, to, options, merging);
  } else {
    to_checkpoint(world, from, to, options, merging);
  }
  return 0;
}

}  // namespace trireme::app
