// Keys of the deck: adapters of a frozen model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/section.hpp"

namespace trireme::config {

// A setting of adapters.
template <auto member>
inline constexpr auto of_adapter =
    sets<&RunConfig::adapter, &AdapterSettings::matrices, member>;

struct AdapterKeys : Section {
  constexpr AdapterKeys() : Section("adapter") {}

  Integer rank{
      *this,
      "rank",
      "",
      "0",
      within(0, 1e6),
      "Rank of the two matrices that are trained beside the weight of each of `targets` "
      "(LoRA), while the model itself is frozen, without gradients, moments or master "
      "weights; 0: no adapters.",
      of_adapter<&nn::AdapterConfig::rank>};
  Real alpha{*this,
             "alpha",
             "",
             "8.0",
             within(0, 1e6),
             "The product of the two matrices is multiplied by alpha / rank.",
             of_adapter<&nn::AdapterConfig::alpha>};
  Boolean rslora{*this, "rslora", "false",
                 "It is multiplied by alpha / sqrt(rank) instead.",
                 of_adapter<&nn::AdapterConfig::by_root>};
  Boolean dora{*this, "dora", "false",
               "Each target's weight with its product has the lengths of its rows "
               "learned apart from their directions, from those of the model on (DoRA). "
               "On CPUs.",
               of_adapter<&nn::AdapterConfig::dora>};
  Strings targets{
      *this, "targets", "[\"all-linear\"]",
      "Linear layers with adapters, by their names in transformers: the whole "
      "name or its last parts (\"q_proj\"), \"re:\" and a regular expression "
      "that fits the whole name, or \"all-linear\": every one in the blocks.",
      of_adapter<&nn::AdapterConfig::targets>};
  Real dropout{*this,
               "dropout",
               "",
               "0.0",
               within(0, 0.99),
               "Part of the numbers that training drops of what an adapter reads: at "
               "random, but the same ones on every mesh.",
               of_adapter<&nn::AdapterConfig::dropout>};
  Strings rank_pattern{*this, "rank_pattern", "[]",
                       "Ranks of some targets, each as \"PATTERN=8\": a regular "
                       "expression that fits the name or its last parts. The first that "
                       "fits wins."};
  Strings alpha_pattern{*this, "alpha_pattern", "[]", "The same of alpha."};
  Strings modules_to_save{*this, "modules_to_save", "[]",
                          "Modules that are trained whole beside the adapters, by their "
                          "names or the last parts of them (\"lm_head\").",
                          of_adapter<&nn::AdapterConfig::modules_to_save>};
  String from{*this,
              "from",
              "\"\"",
              "",
              "Folder of an adapter as PEFT writes it, to start from instead of a new "
              "one; of the same targets and ranks.",
              sets<&RunConfig::adapter, &AdapterSettings::from>};
  Choice<model::BaseCodes> quantize{
      *this,
      "quantize",
      "\"none\"",
      {{"none", model::BaseCodes::none},
       {"stored", model::BaseCodes::stored},
       {"nf4", model::BaseCodes::nf4},
       {"int8", model::BaseCodes::int8},
       {"fp8", model::BaseCodes::fp8}},
      "How the frozen linear layers of blocks lie in memory (QLoRA): none: as numbers; "
      "stored: as the codes that the folder of model.from has; nf4 (blocks of 64), int8 "
      "(rows) or fp8 (E4M3, a scale for each output): as codes made of its numbers at "
      "the start. A layer is decoded while it runs.",
      sets<&RunConfig::adapter, &AdapterSettings::quantize>};
};

namespace key {
inline constexpr AdapterKeys adapter;
}  // namespace key

}  // namespace trireme::config
