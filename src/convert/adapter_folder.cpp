// AdapterFolder: reading an adapter as PEFT writes it.
// SPDX-License-Identifier: Apache-2.0
#include "convert/adapter_folder.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <tuple>
#include <type_traits>

#include "base/memory.hpp"
#include "convert/config_fields.hpp"
#include "io/element_convert.hpp"
#include "io/files.hpp"
#include "io/host_copy.hpp"

namespace trireme::convert {
namespace {

constexpr std::int64_t most_config_bytes = 1 << 24;
constexpr std::size_t most_listed = 20;
constexpr std::int64_t most_rank = 1'000'000;

// Ways of making the first matrices that change the model's weights as well, whenever
// PEFT loads the adapter. Names may go on: pissa_niter_16.
constexpr std::array<std::string_view, 5> changes_of_base = {"pissa", "olora", "corda",
                                                             "loftq", "lora_ga"};

// Kinds of LoRA with a part of their own, which is not read.
constexpr std::array<std::string_view, 5> other_parts = {
    "use_qalora", "use_bdlora", "kasa_config", "arrow_config", "monteclora_config"};

// What makes of an adapter more than matrices that are added, everywhere and always.
void refuse_other_kinds(const ConfigFields& fields) {
  if (fields.text("bias", "none") != "none")
    fields.refuse("bias", "trains biases, which this program reads of no adapter");
  if (fields.has("target_parameters") && !fields.value("target_parameters").empty())
    fields.refuse("target_parameters",
                  "adapts parameters that are no module; write an adapter of modules");
  constexpr const char* init = "init_lora_weights";
  const bool named = fields.has(init) && fields.value(init).is_string();
  std::string how = named ? fields.text(init, "") : std::string();
  for (char& letter : how)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  for (const std::string_view each : changes_of_base)
    if (how.starts_with(each))
      fields.refuse(init,
                    "changes the model's weights, too, whenever PEFT loads the adapter, "
                    "which is not done here: save it as plain LoRA, by save_pretrained "
                    "of PEFT with path_initial_model_for_weight_conversion (of loftq: "
                    "save the changed model as well, and write true here)");
  for (const std::string_view key : other_parts)
    if (fields.has(key) && fields.value(key) != false)
      fields.refuse(
          std::string(key),
          "makes more of the adapter than matrices that are added, which is not "
          "done here: train it without");
  if (fields.has("alora_invocation_tokens"))
    fields.refuse("alora_invocation_tokens",
                  "lets the adapter act behind these tokens alone (aLoRA), and here one "
                  "acts on every token: train it without");
  if (fields.has("layer_replication") && !fields.value("layer_replication").empty())
    fields.refuse("layer_replication",
                  "repeats layers of the model, which is not done here: write a model "
                  "with these layers, and an adapter of that");
}

template <class T>
std::vector<nn::ModulePattern<T>> read_patterns(const ConfigFields& fields,
                                                const char* key) {
  std::vector<nn::ModulePattern<T>> all;
  if (!fields.has(key)) return all;
  const ConfigFields object = fields.object(key);
  for (const auto& [pattern, value] : fields.value(key).items()) {
    if (pattern.empty() || value.is_null())
      object.refuse(pattern, "is no number of a pattern");
    const std::string mistake = nn::pattern_mistake(pattern);
    require(mistake.empty(), Status::bad_content,
            "{}: '{}' has the pattern '{}', which is no regular expression that this "
            "program reads ({}): write one of ECMAScript's",
            fields.source(), fields.place_of(key), pattern, mistake);
    if constexpr (std::is_integral_v<T>) {
      all.push_back({pattern, object.integer(pattern, 0, 1, most_rank)});
    } else {
      all.push_back({pattern, object.finite(pattern, 0)});
    }
  }
  return all;
}

// The names of a list; none where it is not there.
std::vector<std::string> read_names(const ConfigFields& fields, const char* key,
                                    std::string_view what) {
  if (!fields.has(key)) return {};
  const io::Json& json = fields.value(key);
  std::vector<std::string> names;
  if (json.is_array())
    for (const io::Json& each : json)
      if (each.is_string()) names.push_back(each.get<std::string>());
  if (!json.is_array() || names.size() != json.size()) fields.refuse(key, what);
  return names;
}

// The names of target_modules. Empty where it is a text, which may be a regular
// expression of Python's, or is not there.
std::vector<std::string> read_targets(const ConfigFields& fields) {
  constexpr const char* key = "target_modules";
  if (fields.has(key) && fields.value(key).is_string()) return {};
  return read_names(fields, key, "is neither names nor a regular expression");
}

std::string shape_text(const io::SafetensorsTensor& tensor) {
  const auto shape = tensor.shape();
  return shape ? format("{}", *shape) : std::string("no shape of at most four dims");
}

}  // namespace

AdapterFolder::AdapterFolder(const std::string& path, const model::ModelConfig& model)
    : files_(path, adapter_weights_name) {
  read_config();
  match(model);
}

void AdapterFolder::read_config() {
  const std::string path = files_.path() + "/" + adapter_config_name;
  const io::Json json = parse_config(io::read_text(path, most_config_bytes), path);
  const ConfigFields fields(json, path);
  require(fields.has("peft_type"), Status::bad_content,
          "{}: 'peft_type' is missing: LORA is what is read", path);
  if (fields.text("peft_type", "") != "LORA")
    fields.refuse("peft_type", "is not LORA, which is what is read");
  refuse_other_kinds(fields);
  config_.rank = fields.integer("r", 8, 1, most_rank);
  if (fields.is_given("lora_alpha") && !fields.has("lora_alpha"))
    fields.refuse("lora_alpha", "is null, where PEFT writes a number");
  config_.alpha = fields.finite("lora_alpha", 8);
  config_.by_root = fields.flag("use_rslora", false);
  config_.dora = fields.flag("use_dora", false);
  ties_ = fields.flag("ensure_weight_tying", false);
  config_.dropout = fields.real("lora_dropout", 0, -1, 1);
  config_.ranks = read_patterns<std::int64_t>(fields, "rank_pattern");
  config_.alphas = read_patterns<double>(fields, "alpha_pattern");
  config_.targets = {std::string(nn::all_linear)};
  targets_ = read_targets(fields);
  read_names(fields, "modules_to_save", "is no list of the names of modules");
}

// Notes a tensor of the file by its name in a checkpoint, or says what is wrong with it.
void AdapterFolder::take(const AdapterNames& names,
                         const io::SafetensorsFolder::Tensor& tensor,
                         std::vector<std::string>& wrong) {
  const AdapterNames::Found found = names.find(tensor.entry.name);
  const auto shape = tensor.entry.shape();
  const auto& type = tensor.entry.type->dtype;
  if (found.name.empty()) {
    wrong.push_back(
        format("'{}' is no tensor of an adapter for this model", tensor.entry.name));
    return;
  }
  Shape wanted = found.of_adapter() ? found.whole : found.place.shape;
  if (found.down && shape && shape->rank() == 2) wanted = {(*shape)[0], found.whole[1]};
  if (found.up && shape && shape->rank() == 2) wanted = {found.whole[0], (*shape)[1]};
  if (found.magnitude) wanted = {found.whole[0]};
  if (!shape || *shape != wanted) {
    wrong.push_back(format("'{}' is {}, where {} fits the model", tensor.entry.name,
                           shape_text(tensor.entry), wanted));
    return;
  }
  if (!type || !io::converts(*type, DType::f32)) {
    wrong.push_back(format("'{}' holds {}, which is no floating type", tensor.entry.name,
                           tensor.entry.type->name));
    return;
  }
  if (found.down || found.up) {
    const std::int64_t rank = found.down ? (*shape)[0] : (*shape)[1];
    const auto module = config_.of(found.module);
    if (!module || module->rank != rank)
      wrong.push_back(format("'{}' has the rank {}, and {} says {}", tensor.entry.name,
                             rank, adapter_config_name, module ? module->rank : 0));
  } else if (!found.magnitude) {
    config_.modules_to_save.push_back(found.module);
  }
  by_name_[found.name] = {&tensor, found.place};
}

void AdapterFolder::match(const model::ModelConfig& model) {
  const AdapterNames names(model);
  std::vector<std::string> wrong;
  const io::SafetensorsFolder::Tensor* tied_head = nullptr;
  for (const auto& tensor : files_.tensors()) {
    if (tensor.entry.name == names.tied_head()) {
      tied_head = &tensor;
    } else {
      take(names, tensor, wrong);
    }
  }
  check_tied_head(names, tied_head, wrong);
  check_company(wrong);
  check_targets(wrong);
  if (wrong.empty() && by_name_.empty()) wrong.push_back("there are no tensors");
  if (wrong.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < std::min(wrong.size(), most_listed); ++i)
    text += "\n  " + wrong[i];
  if (wrong.size() > most_listed)
    text += format("\n  and {} more", wrong.size() - most_listed);
  fail(Status::bad_content, "{}/{}: is no adapter for this {} model:{}", path(),
       adapter_weights_name, model.row().name, text);
}

// The head of a tied model is the table here. PEFT leaves it as the model's was, but
// where the file has the table once more for it.
void AdapterFolder::check_tied_head(const AdapterNames& names,
                                    const io::SafetensorsFolder::Tensor* head,
                                    std::vector<std::string>& wrong) const {
  const auto table = by_name_.find(names.tied_table());
  const bool replaced = table != by_name_.end();
  if (replaced && head == nullptr && !names.tied_head().empty() && !ties_)
    wrong.push_back(
        format("'{}' replaces the embedding of a model whose head is tied to it: PEFT "
               "would leave the head at the old table, which this program has no place "
               "for; where the head was trained with the embedding, write "
               "\"ensure_weight_tying\": true in {}",
               table->second.tensor->entry.name, adapter_config_name));
  if (head != nullptr && !replaced)
    wrong.push_back(
        format("'{}' replaces the head of a model that ties it to its embedding, whose "
               "tensor is not beside it: save both, with \"ensure_weight_tying\": true",
               head->entry.name));
  if (head != nullptr && replaced && !files_.are_same(*head, *table->second.tensor))
    wrong.push_back(
        format("'{}' differs from '{}', and this model ties the two: write a model with "
               "\"tie_word_embeddings\": false, and an adapter of that",
               head->entry.name, table->second.tensor->entry.name));
}

// A matrix comes with the other, and with DoRA with lengths.
void AdapterFolder::check_company(std::vector<std::string>& wrong) const {
  const auto without = [&](const Stored& stored, std::string_view what) {
    wrong.push_back(
        format("'{}' is there without its {}", stored.tensor->entry.name, what));
  };
  for (const auto& [name, stored] : by_name_) {
    for (const auto& [end, other, called] :
         {std::tuple{nn::down_suffix, nn::up_suffix, "lora_B"},
          std::tuple{nn::up_suffix, nn::down_suffix, "lora_A"},
          std::tuple{nn::magnitude_suffix, nn::down_suffix, "lora_A"}})
      if (name.ends_with(end) &&
          !by_name_.contains(name.substr(0, name.size() - end.size()) +
                             std::string(other)))
        without(stored, called);
    if (name.ends_with(nn::magnitude_suffix) && !config_.dora)
      wrong.push_back(format("'{}' is there, and {} has use_dora false",
                             stored.tensor->entry.name, adapter_config_name));
    if (config_.dora && name.ends_with(nn::down_suffix) &&
        !by_name_.contains(name.substr(0, name.size() - nn::down_suffix.size()) +
                           std::string(nn::magnitude_suffix)))
      without(stored, "lora_magnitude_vector, which use_dora asks for");
  }
}

// PEFT makes matrices for what the targets name, and refuses targets that name nothing.
void AdapterFolder::check_targets(std::vector<std::string>& wrong) const {
  if (targets_.empty()) return;
  bool matrices = false;
  for (const auto& [name, stored] : by_name_) {
    const std::string_view tensor = stored.tensor->entry.name;
    if (!tensor.ends_with(nn::down_suffix)) continue;
    matrices = true;
    const std::string module(
        tensor.substr(adapter_prefix.size(),
                      tensor.size() - adapter_prefix.size() - nn::down_suffix.size()));
    for (const std::string& target : targets_)
      if (nn::ends_with_module(module, target)) return;
  }
  if (matrices)
    wrong.push_back(
        format("'target_modules' of {} names none of the modules that have "
               "matrices here",
               adapter_config_name));
}

std::vector<std::string> AdapterFolder::modules() const {
  std::vector<std::string> all;
  for (const auto& [name, stored] : by_name_)
    if (name.ends_with(nn::down_suffix))
      all.push_back(name.substr(0, name.size() - nn::down_suffix.size()));
  return all;
}

void AdapterFolder::read(const std::string& path, const Shape& whole, const Shape& begin,
                         const TensorView& out) const {
  const auto found =
      path.starts_with("model/") ? by_name_.find(path.substr(6)) : by_name_.end();
  require(found != by_name_.end(), Status::bad_content,
          "{}: has no tensor '{}': adapter.targets, or a rank, is not what it was made "
          "with",
          files_.path(), path);
  const Stored& stored = found->second;
  const auto& tensor = *stored.tensor;
  const bool matrix = nn::is_adapter_tensor(found->first);
  const Shape shape = *tensor.entry.shape();
  require(!matrix || shape == whole, Status::bad_content,
          "{}: '{}' is {}, but {} is wanted: write the adapter.rank and rank_pattern "
          "that it was made with",
          files_.path(), tensor.entry.name, shape, whole);
  io::HostCopy host;
  host.write(out, [&](const TensorView& view) {
    if (view.elements() == 0) return;
    if (matrix || stored.place.transform == model::Transform::copy)
      return files_.read(tensor, begin, view);
    const FolderPlace::Box box = stored.place.box_of(begin, view.shape());
    const Buffer memory(Device::host(), view.dtype(), box.extent, MemoryClass::data,
                        "part of a tensor");
    files_.read(tensor, box.begin, memory.view());
    from_folder(stored.place, memory.view(), view);
  });
}

}  // namespace trireme::convert
