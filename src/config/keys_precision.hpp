// Keys of the deck: types of tensors and how they are scaled.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>

#include "base/recipe_rows.hpp"
#include "config/section.hpp"

namespace trireme::config {

enum class Rounding : std::uint8_t { nearest, stochastic };

// The type of a class of tensors; none: the recipe's.
using PrecisionChoice = Choice<std::optional<Precision>>;
using PrecisionWord = io::Word<std::optional<Precision>>;
// The words of such a key: plain numbers, and what some classes take besides.
inline constexpr std::array plain_types = {PrecisionWord{"auto", std::nullopt},
                                           PrecisionWord{"fp64", Precision{DType::f64}},
                                           PrecisionWord{"fp32", Precision{DType::f32}},
                                           PrecisionWord{"bf16", Precision{DType::bf16}},
                                           PrecisionWord{"fp16", Precision{DType::f16}}};
inline constexpr auto types_and_fp8 = [] {
  std::array<PrecisionWord, plain_types.size() + 1> words{};
  std::copy(plain_types.begin(), plain_types.end(), words.begin());
  words.back() = {"fp8", Precision{DType::e4m3, Scaling::current}};
  return words;
}();

inline constexpr auto moment_types = [] {
  std::array<PrecisionWord, types_and_fp8.size() + 1> words{};
  std::copy(types_and_fp8.begin(), types_and_fp8.end(), words.begin());
  words.back() = {"dynamic8", Precision{DType::u8, Scaling::dynamic}};
  return words;
}();

// The words of precision.recipe: auto, which is no row, and the rows of the table.
inline constexpr auto recipe_words = [] {
  std::array<io::Word<const Recipe*>, recipe_rows.size() + 1> words{};
  words[0] = {"auto", nullptr};
  for (std::size_t i = 0; i < recipe_rows.size(); ++i)
    words[i + 1] = {recipe_rows[i].name, &recipe_rows[i]};
  return words;
}();

struct PrecisionKeys : Section {
  constexpr PrecisionKeys() : Section("precision") {}

  // A word stands for the recipe that it chooses where precision.recipe is auto.
  Choice<const Recipe*> compute{
      *this,
      "compute",
      "\"fp32\"",
      {{"fp64", recipe_row("fp64")},
       {"fp32", recipe_row("fp32")},
       {"bf16", recipe_row("bf16")},
       {"fp16", recipe_row("fp16")},
       {"fp8", recipe_row("te_current")}},
      "Type of the operands of matrix products; fp64 is for proofs; fp16 comes "
      "with a dynamic loss scale; with fp8 the rest of the activations is bf16."};
  Choice<const Recipe*> recipe{
      *this, "recipe", "\"auto\"", std::span<const io::Word<const Recipe*>>(recipe_words),
      "Type and scaling of every class of tensor (docs/precision.md); auto: the "
      "one named as precision.compute, and te_current for fp8."};
  Choice<LogitsType> logits{
      *this,
      "logits",
      "\"auto\"",
      {{"auto", LogitsType::by_device},
       {"fp32", LogitsType::accumulate},
       {"compute", LogitsType::compute}},
      "Type of the logits of the training loss with bf16, fp16 or fp8; compute: that of "
      "activations, so that their gradient takes their place; auto: compute on a GPU, "
      "where model.logit_cap is 0, else fp32.",
      sets<&RunConfig::precision, &PrecisionSettings::logits>};
  PrecisionChoice weights{
      *this, "weights", "\"auto\"", std::span<const PrecisionWord>(plain_types),
      "Type of the weights that forward and backward read; auto: the recipe's."};
  PrecisionChoice gradient_reduce{
      *this, "gradient_reduce", "\"auto\"", std::span<const PrecisionWord>(types_and_fp8),
      "Type of gradients on the wire; fp8 is E4M3 with a scale for each tensor; "
      "auto: the recipe's."};
  Boolean error_feedback{
      *this, "error_feedback", "false",
      "Keep what rounding takes from gradients on the wire and add it to the next "
      "ones; with gradients that travel in bf16 or fp8.",
      sets<&RunConfig::precision, &PrecisionSettings::error_feedback>};
  PrecisionChoice master{
      *this, "master", "\"auto\"", std::span<const PrecisionWord>(plain_types),
      "Type of the weights that the optimizer updates; auto: the recipe's."};
  PrecisionChoice moments{
      *this, "moments", "\"auto\"", std::span<const PrecisionWord>(moment_types),
      "Type of the optimizer's moments; fp8 is E4M3 with a scale for each tensor; "
      "dynamic8 is bitsandbytes' dynamic type of 8 bits by blocks of 256, and fp32 for "
      "tensors of fewer than 4096 elements; auto: the recipe's."};
  Choice<std::optional<Rounding>> rounding{
      *this,
      "rounding",
      "\"auto\"",
      {{"auto", std::nullopt},
       {"nearest", Rounding::nearest},
       {"stochastic", Rounding::stochastic}},
      "How master weights of bf16 or fp16 are rounded after an update; stochastic: "
      "up or down by chance, from run.seed, so that small steps are not lost; "
      "auto: the recipe's."};
  Integer first_bf16{*this,
                     "first_bf16",
                     "blocks",
                     "0",
                     within(0, 1e5),
                     "First blocks whose products stay in bf16 with fp8.",
                     sets<&RunConfig::precision, &PrecisionSettings::first_bf16>};
  Integer last_bf16{*this,
                    "last_bf16",
                    "blocks",
                    "0",
                    within(0, 1e5),
                    "Last blocks whose products stay in bf16 with fp8.",
                    sets<&RunConfig::precision, &PrecisionSettings::last_bf16>};
  Integer amax_history{
      *this,
      "amax_history",
      "steps",
      "1024",
      within(1, 1 << 20),
      "Steps whose largest magnitude sets the scale with delayed scaling.",
      sets<&RunConfig::precision, &PrecisionSettings::amax_history>};
  Integer margin{*this,
                 "margin",
                 "bits",
                 "0",
                 within(0, 16),
                 "Powers of two that delayed scaling leaves free above that magnitude.",
                 sets<&RunConfig::precision, &PrecisionSettings::margin>};
  Boolean keep_weight_codes{
      *this, "keep_weight_codes", "false",
      "Make the FP8 codes of weights once a step instead of for each microbatch: two "
      "bytes more for each weight that is multiplied in FP8, experts' excepted. Not with "
      "weights that are sharded.",
      sets<&RunConfig::precision, &PrecisionSettings::keep_weight_codes>};
  Boolean tf32{
      *this, "tf32", "false",
      "On a GPU: multiply matrices of fp32 with 10 bits of each mantissa (TF32), "
      "on tensor cores. Faster, and no longer as exact as fp32.",
      sets<&RunConfig::precision, &PrecisionSettings::tf32>};
  Integer report_every{
      *this,
      "report_every",
      "steps",
      "100",
      within(0, 1 << 24),
      "Steps between reports of what rounding to FP8, and of gradients and state "
      "to 16 bits, loses (docs/metrics.md); 0: none.",
      sets<&RunConfig::precision, &PrecisionSettings::report_every>};
  Real loss_scale{*this,
                  "loss_scale",
                  "",
                  "65536.0",
                  above(0, 0x1p127),
                  "First factor of the loss with fp16.",
                  sets<&RunConfig::precision, &PrecisionSettings::loss_scale,
                       &optim::LossScaling::initial_scale>};
  Integer loss_scale_interval{
      *this,
      "loss_scale_interval",
      "steps",
      "2000",
      within(1, 1 << 24),
      "Steps without overflow after which the loss scale doubles.",
      sets<&RunConfig::precision, &PrecisionSettings::loss_scale,
           &optim::LossScaling::growth_interval>};
  Real loss_scale_floor{*this,
                        "loss_scale_floor",
                        "",
                        "1.0",
                        above(0, 0x1p127),
                        "An overflow at this loss scale ends the run with status 80.",
                        sets<&RunConfig::precision, &PrecisionSettings::loss_scale,
                             &optim::LossScaling::floor>};
};

namespace key {
inline constexpr PrecisionKeys precision;
}  // namespace key

// A key of the section that replaces the type of some classes of the recipe.
struct ClassKey {
  const PrecisionChoice& key;
  std::span<const TensorClass> classes;
};
std::span<const ClassKey> class_keys();

}  // namespace trireme::config
