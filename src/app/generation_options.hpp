// What generate and chat take of the command line and of generation_config.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/arguments.hpp"
#include "app/model_text.hpp"
#include "infer/generation.hpp"
#include "infer/lane.hpp"

namespace trireme::app {

// How texts are continued unless a prompt says otherwise.
struct GenerationDefaults {
  infer::SamplerConfig sampler{};
  std::int64_t tokens = 100;
  std::vector<std::int32_t> end_tokens{};
};

// Options of sampling, of the model's generation_config.json (do_sample, temperature,
// top_k, top_p, min_p, typical_p, repetition_penalty, max_new_tokens, eos_token_id) where
// they are not given, else as transformers has them, with a temperature of 0.8, and
// `usual_tokens` at most. Throws Error(command_line), and Error(bad_content) for a file
// that is wrong.
GenerationDefaults generation_defaults(const Arguments& arguments,
                                       const model::ModelConfig& model,
                                       const ModelText& text,
                                       std::int64_t usual_tokens = 100);

// --step-tokens, --chunk, --texts, --block, --cache-bytes, --cache-dtype. compute: the
// type of an "auto" cache.
infer::BatchOptions batch_options(const Arguments& arguments, DType compute);

// "20GiB", "512 MB", "1000": bytes. Throws Error(command_line) naming the option.
std::int64_t parse_bytes(std::string_view option, const std::string& text);

}  // namespace trireme::app
