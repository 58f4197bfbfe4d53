// Writing a model as a Hugging Face folder, its weights as numbers or codes.
// SPDX-License-Identifier: Apache-2.0
#include "convert/folder_writer.hpp"

#include <array>
#include <cstdio>
#include <map>
#include <set>

#include "base/boxes.hpp"
#include "base/directory.hpp"
#include "base/log.hpp"
#include "base/memory.hpp"
#include "base/version.hpp"
#include "convert/folder_config.hpp"
#include "convert/folder_place.hpp"
#include "convert/kept_files.hpp"
#include "io/checkpoint_shard.hpp"
#include "io/digest.hpp"
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

// What a tensor of the folder is made of, and which of a matrix's tensors of codes it is.
struct Origin {
  std::vector<Part> parts;
  DType dtype = DType::f32;  // of the numbers
  int coded = -1;            // below 0: it holds numbers
};

struct Shard {
  std::string name;
  io::SafetensorsPlan plan;
};

std::string shard_name(std::size_t number, std::size_t of) {
  if (of == 1) return io::safetensors_name;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "model-%05zu-of-%05zu.safetensors", number, of);
  return text.data();
}

std::string module_of(const std::string& name) {
  return name.substr(0, name.size() - std::string_view(".weight").size());
}

// The model's tensors in its own order, cut where a file would grow too large. Tensors of
// one matrix's codes stay together.
class Plan {
 public:
  Plan(const FolderSource& source, const model::ModelConfig& model,
       const FolderOptions& options)
      : quantize_(options.quantize),
        writer_(code_writer(options.quantize)),
        shard_bytes_(options.shard_bytes),
        row_(row_for(model)) {
    require_expressible(model);
    for (const auto& whole : model::whole_tensors(model)) {
      const DType dtype = options.dtype.value_or(source.type_of(whole.name));
      if (!dtype_) dtype_ = dtype;
      const FolderPlace place = place_of(*row_, model, whole);
      const auto there = origins_.find(place.name);
      if (there != origins_.end()) {  // of experts in one tensor
        there->second.parts.push_back({whole, place});
        continue;
      }
      add(whole, place, dtype);
    }
    require(!quantizes() || coded_ > 0, Status::bad_content,
            "{} has no linear layers that could be quantized: leave out --quantize",
            row_->class_name);
    for (std::size_t i = 0; i < files_.size(); ++i)
      shards_.push_back(
          {shard_name(i + 1, files_.size()), io::SafetensorsPlan(std::move(files_[i]))});
  }

  const Origin& origin(const std::string& name) const { return origins_.at(name); }
  const std::vector<Shard>& shards() const { return shards_; }
  DType dtype() const { return dtype_.value_or(DType::f32); }
  std::int64_t bytes() const { return total_; }
  std::int64_t count() const { return count_; }
  bool quantizes() const { return writer_ != nullptr; }
  const CodeWriter& writer() const { return *writer_; }
  // Says what whoever reads the folder must know.
  void report() const {
    if (stacked_experts_)
      log::info(
          "experts stay numbers: {} has one tensor of all of them, and no codes of it",
          row_->class_name);
    if (expert_codes_ && quantize_.of_bitsandbytes() && !quantize_.keeps_experts)
      log::info(
          "experts are codes, which transformers 4 reads and transformers 5 does not, of "
          "bitsandbytes; --keep-experts leaves them numbers");
    if (!caution_.empty()) log::warn("{}", caution_);
  }
  // Linear layers that stay numbers.
  const std::vector<std::string>& kept_modules() const { return kept_modules_; }

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
  void add(const model::WholeTensor& whole, const FolderPlace& place, DType dtype) {
    const Written as = quantizes() ? written_as(whole, place) : Written::numbers;
    stacked_experts_ = stacked_experts_ || as == Written::stacked;
    expert_codes_ = expert_codes_ || as == Written::expert;
    const Origin origin{{{whole, place}}, dtype};
    if (as == Written::linear && module_of(place.name) != kept_modules_[0])
      kept_modules_.push_back(module_of(place.name));
    if (as != Written::codes && (as != Written::expert || quantize_.keeps_experts)) {
      io::SafetensorsTensor tensor{place.name, &io::safetensors_type(dtype), {}, 0, 0};
      const Shape& shape = place.shape;
      for (int i = 0; i < shape.rank(); ++i) tensor.extents.push_back(shape[i]);
      put({std::move(tensor)}, origin);
      return;
    }
    writer_->check(whole, place);
    const std::string_view caution = writer_->caution(whole.shape);
    if (caution_.empty() && !caution.empty())
      caution_ = format("'{}' {}", place.name, caution);
    Origin coded = origin;
    if (dtype == DType::f64) coded.dtype = DType::f32;  // there are no codes of it
    ++coded_;
    put(writer_->tensors(place.name, whole.shape, coded.dtype), coded);
  }

  // Adds tensors of one origin to the last file, or to a new one.
  void put(std::vector<io::SafetensorsTensor> tensors, const Origin& origin) {
    std::int64_t bytes = 0;
    for (const auto& tensor : tensors) bytes += bytes_of(tensor);
    if (filled_ > 0 && bytes > shard_bytes_ - filled_) {
      files_.emplace_back();
      filled_ = 0;
    }
    filled_ += bytes;
    total_ += bytes;
    const bool coded = tensors.size() > 1;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      Origin& own = origins_[tensors[i].name] = origin;
      if (coded) own.coded = static_cast<int>(i);
      files_.back().push_back(std::move(tensors[i]));
      ++count_;
    }
  }
  static std::int64_t bytes_of(const io::SafetensorsTensor& tensor) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : tensor.extents) elements *= extent;
    return elements * tensor.type->bits / 8;
  }

  Quantize quantize_;
  CodeWriterPtr writer_;  // null: all are numbers
  std::int64_t shard_bytes_;
  const model::HuggingFaceRow* row_;
  std::vector<std::vector<io::SafetensorsTensor>> files_{1};
  std::map<std::string, Origin> origins_;
  std::vector<Shard> shards_;
  // A head that is tied has no tensor, and must be named all the same.
  std::vector<std::string> kept_modules_{"lm_head"};
  std::optional<DType> dtype_;
  bool stacked_experts_ = false, expert_codes_ = false;
  std::string caution_;  // about the first matrix that has one
  std::int64_t filled_ = 0, total_ = 0, count_ = 0, coded_ = 0;
};

// Tensors of a shard, one at a time, and what is small of matrices of codes until it is
// asked for.
class Loader {
 public:
  Loader(const FolderSource& source, const Plan& plan) : source_(source), plan_(plan) {}

  // The elements in the order of the file, on the host.
  Buffer load(const io::SafetensorsTensor& tensor) {
    const Origin& origin = plan_.origin(tensor.name);
    if (origin.coded < 0) return numbers(tensor, origin);
    const model::WholeTensor& whole = origin.parts[0].whole;
    if (const auto small = small_.find(tensor.name); small != small_.end()) {
      Buffer out = std::move(small->second);
      small_.erase(small);
      return out;
    }
    const Buffer matrix(Device::host(), origin.dtype, whole.shape, MemoryClass::data,
                        "numbers to be quantized");
    read(whole, matrix.view());
    const std::string& name = origin.parts[0].place.name;
    std::vector<Buffer> all = plan_.writer().encode(name, matrix.view());
    const auto entries = plan_.writer().tensors(name, whole.shape, origin.dtype);
    for (std::size_t i = 1; i < all.size(); ++i)
      if (static_cast<int>(i) != origin.coded && asked_.count(entries[i].name) == 0)
        small_[entries[i].name] = std::move(all[i]);
    asked_.insert(tensor.name);
    return std::move(all[static_cast<std::size_t>(origin.coded)]);
  }

 private:
  void read(const model::WholeTensor& whole, const TensorView& view) const {
    source_.tensors.read("model/" + whole.name, whole.shape, origin_of(whole.shape),
                         view);
  }
  Buffer numbers(const io::SafetensorsTensor& tensor, const Origin& origin) const {
    const DType dtype = *tensor.type->dtype;
    Buffer out(Device::host(), dtype, *tensor.shape(), MemoryClass::data,
               "exported tensor");
    for (const Part& part : origin.parts) {
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

  const FolderSource& source_;
  const Plan& plan_;
  std::map<std::string, Buffer> small_;
  std::set<std::string> asked_;
};

void write_shard(const FolderSource& source, const Plan& plan, const Directory& folder,
                 const Shard& shard) {
  io::SafetensorsWriter writer(folder, shard.name, shard.plan);
  Loader loader(source, plan);
  for (const auto& tensor : shard.plan.tensors())
    writer.write(loader.load(tensor).view());
  writer.close();
}

// This rank's shards, but for those that an earlier try has finished; returns how many.
std::int64_t write_shards(const comm::World& world, const FolderSource& source,
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
    write_shard(source, plan, work.folder(), shard);
    work.record(io::file_entry(work.folder().path(), shard.name));
  }
  return kept;
}

// What the files of a conversion are a function of.
std::string job_of(const FolderSource& source, const Plan& plan,
                   const FolderOptions& options) {
  io::Json job;
  job["to"] = "Hugging Face folder";
  job["source"] = source.digest;
  job["dtype"] = options.dtype ? name_of(*options.dtype) : "as stored";
  job["quantize"] = name_of(options.quantize.to);
  job["double_quantization"] = options.quantize.nested;
  job["keep_experts"] = options.quantize.keeps_experts;
  job["shard_bytes"] = options.shard_bytes;
  job["shards"] = plan.shards().size();
  job["program"] = build_info().version;
  return job.dump(2) + "\n";
}

// What is not a tensor: the index, config.json and the files that the model came with.
void write_rest(const FolderSource& source, const model::ModelConfig& model,
                const Plan& plan, const Directory& folder) {
  std::string kept;
  for (const KeptFile& file : source.kept) {
    if (file.name == config_name) {
      kept = file.bytes;
    } else {
      io::write_text_atomically(folder, file.name, file.bytes);
    }
  }
  if (plan.shards().size() > 1)
    io::write_text_atomically(folder, io::safetensors_index_name, plan.index());
  std::string config = folder_config_text(model, plan.dtype(), kept);
  if (plan.quantizes()) {
    io::Json json = io::Json::parse(config);
    json["quantization_config"] = plan.writer().config(plan.dtype(), plan.kept_modules());
    config = json.dump(2) + "\n";
  }
  io::write_text_atomically(folder, config_name, config);
}

}  // namespace

FolderSource source_of(const io::CheckpointReader& checkpoint) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 32;
  // The manifest has the digests of all files of the checkpoint.
  const std::string manifest =
      io::read_text(checkpoint.directory() + "/" + io::manifest_name, most_bytes);
  const auto type_of = [&checkpoint](const std::string& name) {
    return checkpoint.dtype_of("model/" + name);
  };
  return {checkpoint, type_of, kept_files(checkpoint), io::digest_of(manifest)};
}

WrittenFolder write_folder(comm::World& world, const FolderSource& source,
                           const model::ModelConfig& model, const std::string& path,
                           const FolderOptions& options) {
  const std::string name = last_name_of(path), temporary = "." + name + ".tmp";
  std::optional<Plan> plan;
  std::optional<io::RunLock> lock;  // of rank 0
  bool stayed = false;
  world.agree([&] {
    plan.emplace(source, model, options);
    folder_config_text(model, plan->dtype(), "");  // before anything is written
    if (world.rank() != 0) return;
    io::make_directories(parent_of(path));
    const Directory parent(parent_of(path));
    const auto require_none = [&] {
      require(!parent.has(name), Status::cannot_create,
              "{}: is there already; nothing is replaced", path);
    };
    require_none();
    // Beside the folder and not in it, so that it is held until that has its name.
    lock.emplace(parent_of(path), "." + name + ".lock");
    require_none();  // who held it before may have made it
    stayed = io::PartialWork::prepare(parent, temporary, job_of(source, *plan, options));
    plan->report();
  });
  const auto work = [&] {
    return io::PartialWork(Directory(parent_of(path)).open(temporary));
  };
  std::int64_t kept = 0;
  try {
    world.agree([&] { kept = write_shards(world, source, *plan, work()); });
    kept = static_cast<std::int64_t>(world.sum(static_cast<double>(kept)));
    world.agree([&] {
      if (world.rank() != 0) return;
      const io::PartialWork made = work();
      const Directory& folder = made.folder();
      write_rest(source, model, *plan, folder);
      made.clear();
      folder.sync();
      const Directory parent(parent_of(path));
      parent.rename(temporary, name);
      parent.sync();
    });
  } catch (const comm::Agreed&) {
    if (world.rank() == 0)
      io::PartialWork::give_up(Directory(parent_of(path)), temporary, stayed);
    throw;
  }
  return {plan->count(), static_cast<std::int64_t>(plan->shards().size()), kept,
          plan->bytes()};
}

}  // namespace trireme::convert
