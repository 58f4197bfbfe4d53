// Rules about adapters.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/number.hpp"
#include "config/adapter_patterns.hpp"
#include "config/rules.hpp"
#include "model/adapted_modules.hpp"

namespace trireme::config {
namespace {

// What is wrong with the names of modules for this model, as a sentence; or nothing.
std::string misfit_of(const nn::AdapterConfig& config, const model::ModelConfig& model) {
  try {
    return model::adapter_misfit(config, model);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

void AdapterRules::adapter_rules() {
  const nn::AdapterConfig& adapter = config_.adapter.matrices;
  for (const io::DeckKey* key :
       {static_cast<const io::DeckKey*>(&key::adapter.alpha),
        static_cast<const io::DeckKey*>(&key::adapter.rslora),
        static_cast<const io::DeckKey*>(&key::adapter.dora),
        static_cast<const io::DeckKey*>(&key::adapter.targets),
        static_cast<const io::DeckKey*>(&key::adapter.dropout),
        static_cast<const io::DeckKey*>(&key::adapter.rank_pattern),
        static_cast<const io::DeckKey*>(&key::adapter.alpha_pattern),
        static_cast<const io::DeckKey*>(&key::adapter.modules_to_save),
        static_cast<const io::DeckKey*>(&key::adapter.from),
        static_cast<const io::DeckKey*>(&key::adapter.quantize)})
    meaningless(*key, key::adapter.rank, !adapter.exists(),
                std::vector{Advice(key::adapter.rank, {"8"})});
  if (!adapter.exists()) return;
  rule({key::adapter.from, key::model.from},
       config_.adapter.from.empty() || !config_.start_from.empty(), key::adapter.from,
       " is an adapter of a model, and ", key::model.from,
       " names none: write the folder or checkpoint that it was trained beside");
  rule({key::adapter.targets, key::adapter.modules_to_save},
       !adapter.targets.empty() || !adapter.modules_to_save.empty(), key::adapter.targets,
       " and ", key::adapter.modules_to_save,
       " leave nothing to train: write adapter.targets = [\"all-linear\"]");
  quantize_rules();
  dora_rules();
  pattern_rule(key::adapter.rank_pattern, 1, 1e6);
  pattern_rule(key::adapter.alpha_pattern, 0, 1e6);
  std::string wrong;
  rule(
      {key::adapter.targets, key::adapter.modules_to_save, key::adapter.rank_pattern,
       key::adapter.alpha_pattern},
      [&] {
        if (is_quiet() || !nothing_broken()) return true;
        wrong = misfit_of(adapter, config_.model);
        return wrong.empty();
      },
      [&] { return wrong; });
  rule({key::parallel.tensor_chunks, key::adapter.dropout},
       adapter.dropout == 0 || config_.parallel.tensor_chunks <= 1,
       key::parallel.tensor_chunks, " cuts the rows of products, whose inputs ",
       key::adapter.dropout,
       " drops as a whole: write parallel.tensor_chunks = 1, or "
       "adapter.dropout = 0.0");
  rule(
      {key::adapter.dropout, key::adapter.targets, key::moe.experts},
      [&] {
        return is_quiet() || adapter.dropout == 0 || !nothing_broken() ||
               !model::adapts_experts(adapter, config_.model);
      },
      key::adapter.dropout,
      " cannot be with adapters of experts, whose rows come sorted from other ranks: "
      "write adapter.dropout = 0.0, or adapter.targets without layers of experts");
  rule({key::adapter.rank, key::precision.recipe, key::precision.weights},
       !is_fp8(config_.precision.recipe[TensorClass::weight].type), key::adapter.rank,
       " freezes the model's weights as they are kept, and ", key::precision.recipe,
       " keeps them in FP8 with scales that follow the master weights: write a recipe "
       "with weights in bf16 or fp32");
}

void AdapterRules::quantize_rules() {
  if (config_.adapter.quantize == model::BaseCodes::none) return;
  rule({key::adapter.quantize, key::run.cuda_graphs}, !config_.run.cuda_graphs,
       key::adapter.quantize, " and ", key::run.cuda_graphs,
       " cannot go together: which layer is decoded in a graph would depend on what ran "
       "before it: write run.cuda_graphs = false, or adapter.quantize = \"none\"");
  rule({key::adapter.quantize, key::precision.compute}, !config_.precision.recipe.fp8(),
       key::adapter.quantize, " and ", key::precision.compute,
       ", which multiplies in FP8, cannot go together: its scales follow weights that "
       "are there all the time: write adapter.quantize = \"none\", or ",
       [&] { return bf16_instead(); });
}

void AdapterRules::dora_rules() {
  const nn::AdapterConfig& adapter = config_.adapter.matrices;
  if (!adapter.dora) return;
  rule({key::adapter.dora, key::model.from}, !config_.start_from.empty(),
       key::adapter.dora, " starts from the lengths of rows of a model's weights, and ",
       key::model.from,
       " names none: write the folder or checkpoint to start from, or adapter.dora = "
       "false");
  rule({key::adapter.dora, key::adapter.dropout}, adapter.dropout == 0, key::adapter.dora,
       " and ", key::adapter.dropout,
       " cannot go together: the model's own product would have to be made once more, of "
       "what is left of its input: write adapter.dropout = 0.0, or adapter.dora = false");
  rule({key::adapter.dora, key::run.device}, config_.run.device != DeviceChoice::cuda,
       key::adapter.dora, " and ", key::run.device,
       ": lengths of rows are made on CPUs alone: write adapter.dora = false, or "
       "run.device = \"cpu\"");
  rule({key::adapter.dora, key::precision.compute}, !config_.precision.recipe.fp8(),
       key::adapter.dora, " and ", key::precision.compute,
       ", which multiplies in FP8, cannot go together: its scales would be of other "
       "numbers than the products': write adapter.dora = false, or ",
       [&] { return bf16_instead(); });
  rule({key::adapter.dora, key::parallel.tensor_chunks},
       config_.parallel.tensor_chunks <= 1, key::adapter.dora, " and ",
       key::parallel.tensor_chunks,
       ": lengths of rows would be made anew for each chunk: write "
       "parallel.tensor_chunks = 1, or adapter.dora = false");
}

void AdapterRules::pattern_rule(const io::Key<std::vector<std::string>>& key,
                                double least, double most) {
  for (const std::string& text : deck_[key])
    rule(
        {key}, [&] { return parse_module_pattern(text, least, most).has_value(); },
        full_name(key), ": \"", text,
        "\" is not PATTERN=NUMBER with a number that is legal here: write "
        "[\"q_proj=16\"]");
}

}  // namespace trireme::config
