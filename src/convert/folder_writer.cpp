// Writing a checkpoint's model as a Hugging Face folder.
// SPDX-License-Identifier: Apache-2.0
#include "convert/folder_writer.hpp"

#include <array>
#include <cstdio>
#include <map>

#include "base/directory.hpp"
#include "base/memory.hpp"
#include "base/version.hpp"
#include "convert/folder_config.hpp"
#include "convert/folder_place.hpp"
#include "convert/kept_files.hpp"
#include "io/checkpoint_shard.hpp"
#include "io/digest.hpp"
#include "io/element_convert.hpp"
#include "io/files.hpp"
#include "io/json_fields.hpp"
#include "io/partial_work.hpp"
#include "io/run_lock.hpp"
#include "io/safetensors_folder.hpp"
#include "model/whole_tensors.hpp"

namespace trireme::convert {
namespace {

// A tensor of the model and its place in the folder.
struct Part {
  model::WholeTensor whole;
  FolderPlace place;
};

struct Shard {
  std::string name;
  io::SafetensorsPlan plan;
};

DType stored_type(const io::CheckpointReader& checkpoint, const std::string& name) {
  for (const auto& tensor : checkpoint.tensors())
    if (tensor.path == "model/" + name) return tensor.dtype;
  fail(Status::bad_content, "{}: has no tensor 'model/{}'", checkpoint.directory(), name);
}

std::string shard_name(std::size_t number, std::size_t of) {
  if (of == 1) return io::safetensors_name;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "model-%05zu-of-%05zu.safetensors", number, of);
  return text.data();
}

// The model's tensors in its own order, cut where a file would grow too large.
class Plan {
 public:
  Plan(const io::CheckpointReader& checkpoint, const model::ModelConfig& model,
       const FolderOptions& options)
      : row_(row_for(model)) {
    require(row_ != nullptr, Status::bad_content,
            "model.architecture = \"{}\" has no class in transformers", model.row().name);
    std::vector<std::vector<io::SafetensorsTensor>> files(1);
    std::int64_t filled = 0;
    for (const auto& whole : model::whole_tensors(model)) {
      const DType dtype = options.dtype.value_or(stored_type(checkpoint, whole.name));
      if (!dtype_) dtype_ = dtype;
      const FolderPlace place = place_of(*row_, model, whole);
      std::vector<Part>& parts = parts_[place.name];
      parts.push_back({whole, place});
      if (parts.size() > 1) continue;  // it is in the plan already
      io::SafetensorsTensor tensor{place.name, &io::safetensors_type(dtype), {}, 0, 0};
      const Shape& shape = place.shape;
      for (int i = 0; i < shape.rank(); ++i) tensor.extents.push_back(shape[i]);
      const std::int64_t bytes = io::safetensors_bytes(tensor);
      if (filled > 0 && bytes > options.shard_bytes - filled) {
        files.emplace_back();
        filled = 0;
      }
      filled += bytes;
      total_ += bytes;
      ++count_;
      files.back().push_back(std::move(tensor));
    }
    for (std::size_t i = 0; i < files.size(); ++i)
      shards_.push_back(
          {shard_name(i + 1, files.size()), io::SafetensorsPlan(std::move(files[i]))});
  }

  // What one tensor of the folder is made of.
  const std::vector<Part>& parts(const std::string& name) const {
    return parts_.at(name);
  }
  const std::vector<Shard>& shards() const { return shards_; }
  DType dtype() const { return dtype_.value_or(DType::f32); }
  std::int64_t bytes() const { return total_; }
  std::int64_t count() const { return count_; }

  std::string index() const {
    io::Json json;
    json["metadata"]["total_size"] = total_;
    std::map<std::string, std::string> files;
    for (const Shard& shard : shards_)
      for (const auto& tensor : shard.plan.tensors()) files[tensor.name] = shard.name;
    json["weight_map"] = files;
    return json.dump(2) + "\n";
  }

 private:
  const model::HuggingFaceRow* row_;
  std::map<std::string, std::vector<Part>> parts_;
  std::vector<Shard> shards_;
  std::optional<DType> dtype_;
  std::int64_t total_ = 0, count_ = 0;
};

// Its elements in the order of the file, on the host.
Buffer load(const io::TensorSource& checkpoint, const io::SafetensorsTensor& tensor,
            const std::vector<Part>& parts) {
  const DType dtype = *tensor.type->dtype;
  const auto read = [&](const model::WholeTensor& whole, const TensorView& view) {
    checkpoint.read("model/" + whole.name, whole.shape, io::origin_of(whole.shape), view);
  };
  Buffer out(Device::host(), dtype, *tensor.shape(), MemoryClass::data,
             "exported tensor");
  for (const Part& part : parts) {
    const FolderPlace& place = part.place;
    if (!place.stacked() && place.transform == model::Transform::copy) {
      read(part.whole, out.view());
      continue;
    }
    const Buffer own(Device::host(), dtype, part.whole.shape, MemoryClass::data,
                     "part of a tensor");
    read(part.whole, own.view());
    to_folder(place, own.view(), out.view());
  }
  return out;
}

void write_shard(const io::TensorSource& checkpoint, const Plan& plan,
                 const Directory& folder, const Shard& shard) {
  io::SafetensorsWriter writer(folder, shard.name, shard.plan);
  for (const auto& tensor : shard.plan.tensors())
    writer.write(load(checkpoint, tensor, plan.parts(tensor.name)).view());
  writer.close();
}

// This rank's shards, but for those that an earlier try has finished; returns how many.
std::int64_t write_shards(const comm::World& world, const io::TensorSource& checkpoint,
                          const Plan& plan, const io::PartialWork& work) {
  std::int64_t kept = 0;
  const auto size = static_cast<std::size_t>(world.size());
  for (auto i = static_cast<std::size_t>(world.rank()); i < plan.shards().size();
       i += size) {
    const Shard& shard = plan.shards()[i];
    if (work.note_of(shard.name)) {
      ++kept;
      continue;
    }
    write_shard(checkpoint, plan, work.folder(), shard);
    work.record(io::file_entry(work.folder().path(), shard.name));
  }
  return kept;
}

// What the files of a conversion are a function of. The manifest has the digests of all
// files of the checkpoint.
std::string job_of(const io::CheckpointReader& checkpoint, const Plan& plan,
                   const FolderOptions& options) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 32;
  const std::string manifest =
      io::read_text(checkpoint.directory() + "/" + io::manifest_name, most_bytes);
  io::Json job;
  job["to"] = "Hugging Face folder";
  job["checkpoint"] = io::digest_of(manifest);
  job["dtype"] = options.dtype ? name_of(*options.dtype) : "as stored";
  job["shard_bytes"] = options.shard_bytes;
  if (!options.adapters.empty()) job["adapters"] = options.adapters;
  job["shards"] = plan.shards().size();
  job["program"] = build_info().version;
  return job.dump(2) + "\n";
}

// What is not a tensor: the index, config.json and the files that the model came with.
void write_rest(const io::CheckpointReader& checkpoint, const model::ModelConfig& model,
                const Plan& plan, const Directory& folder) {
  std::string kept;
  for (const KeptFile& file : kept_files(checkpoint)) {
    if (file.name == config_name) {
      kept = file.bytes;
    } else {
      io::write_text_atomically(folder, file.name, file.bytes);
    }
  }
  if (plan.shards().size() > 1)
    io::write_text_atomically(folder, io::safetensors_index_name, plan.index());
  io::write_text_atomically(folder, config_name,
                            folder_config_text(model, plan.dtype(), kept));
}

}  // namespace

WrittenFolder write_folder(comm::World& world, const io::CheckpointReader& checkpoint,
                           const model::ModelConfig& model, const std::string& path,
                           const FolderOptions& options) {
  const std::string name = last_name_of(path), temporary = "." + name + ".tmp";
  std::optional<Plan> plan;
  std::optional<io::RunLock> lock;  // of rank 0
  world.agree([&] {
    plan.emplace(checkpoint, model, options);
    folder_config_text(model, plan->dtype(), "");  // before anything is written
    if (world.rank() != 0) return;
    io::make_directories(parent_of(path));
    const Directory parent(parent_of(path));
    require(!parent.has(name), Status::cannot_create,
            "{}: is there already; nothing is replaced", path);
    io::PartialWork::prepare(parent, temporary, job_of(checkpoint, *plan, options));
    lock.emplace(parent.path_of(temporary));
  });
  const auto work = [&] {
    return io::PartialWork(Directory(parent_of(path)).open(temporary));
  };
  const io::TensorSource& tensors =
      options.tensors != nullptr ? *options.tensors : checkpoint;
  std::int64_t kept = 0;
  try {
    world.agree([&] { kept = write_shards(world, tensors, *plan, work()); });
    kept = static_cast<std::int64_t>(world.sum(static_cast<double>(kept)));
    world.agree([&] {
      if (world.rank() != 0) return;
      const io::PartialWork made = work();
      const Directory& folder = made.folder();
      write_rest(checkpoint, model, *plan, folder);
      made.clear();
      lock.reset();
      folder.sync();
      const Directory parent(parent_of(path));
      parent.rename(temporary, name);
      parent.sync();
    });
  } catch (const comm::Agreed&) {
    lock.reset();
    if (world.rank() == 0) Directory(parent_of(path)).remove_tree(temporary);
    throw;
  }
  return {plan->count(), static_cast<std::int64_t>(plan->shards().size()), kept,
          plan->bytes()};
}

}  // namespace trireme::convert
