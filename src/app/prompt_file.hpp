// PromptFile: the texts that `trireme generate --prompts` is asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/generation_options.hpp"
#include "data/chat_template.hpp"
#include "io/json_fields.hpp"

namespace trireme::app {

// One text: a prompt gives as many as it wants samples.
struct WantedText {
  std::size_t prompt = 0;  // number of its line, from 0, blank ones not counted
  std::int64_t sample = 0;
  io::Json id{};       // as the line has it; null without one
  std::string digest;  // of all that decides its result, but for the model
};

struct PromptFile {
  std::vector<infer::Generation> generations;
  std::vector<WantedText> wanted;  // of each generation, by prompt and sample
};

// Reads JSON lines, an object each: "prompt" (text), "prompt_tokens" (ids) or "messages"
// (for the chat template), and, for this prompt, "id", "tokens", "samples",
// "temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty", "seed",
// "stop" (a text or a list), "stop_tokens", "logprobs". defaults: of what a line leaves
// out. Throws Error(bad_content) naming file, line and what is wrong with it, such as a
// key that comes twice.
PromptFile read_prompts(const std::string& path, const GenerationDefaults& defaults,
                        std::int64_t samples, const model::ModelConfig& model,
                        const ModelText& text, const data::ChatTemplate* chat);

// Ends a text where one of `stops` appears in the prompt and what was added, with its end
// in the last token, as transformers' stop strings do.
std::function<bool(std::span<const std::int32_t>)> stop_strings(
    const ModelText& text, std::span<const std::int32_t> prompt,
    std::vector<std::string> stops);

}  // namespace trireme::app
