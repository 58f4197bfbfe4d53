// Texts of config.json, and a model there and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/deck_table.hpp"
#include "config/keys.hpp"
#include "config/resolved_deck.hpp"
#include "config/start_model.hpp"
#include "convert/folder_config.hpp"

namespace trireme::convert {

// A tiny llama with further keys.
inline std::string llama(const std::string& more = "", const std::string& type = "llama",
                         const std::string& theta = R"("rope_theta":10000.0,)") {
  return R"({"model_type":")" + type + R"(",)" + theta +
         R"("hidden_size":24,"num_hidden_layers":2,"num_attention_heads":4,)"
         R"("num_key_value_heads":2,"intermediate_size":40,"vocab_size":67,)"
         R"("max_position_embeddings":64)" +
         (more.empty() ? "" : "," + more) + "}";
}

inline FolderConfig parse(const std::string& text) {
  return parse_folder_config(text, "c");
}

// A deck of one step of it.
inline std::vector<std::string> deck_lines(const model::ModelConfig& model) {
  std::vector<std::string> all = config::model_lines(model);
  all.insert(all.end(), {"run.steps=1", "batch.global=1", "batch.micro=1",
                         "data.source=\"synthetic\""});
  return all;
}

// As text, again from what is written, as a deck, and as text from the deck that a run
// writes, in which what follows from other keys is written out.
inline void expect_both_ways(const model::ModelConfig& m) {
  const auto lines = config::model_lines(m);
  const std::string text = folder_config_text(m, DType::f32, "");
  EXPECT_EQ(config::model_lines(parse(text).model), lines) << text;
  const auto deck = io::Deck::parse("", "deck", deck_lines(m), config::deck_table());
  const config::RunConfig run = config::make_run_config(deck, 1);
  EXPECT_EQ(config::model_lines(run.model), lines);
  const auto written = io::Deck::parse(config::resolved_deck(deck.effective(), run),
                                       "deck.toml", {}, config::deck_table());
  EXPECT_EQ(folder_config_text(config::make_run_config(written, 1).model, DType::f32, ""),
            text);
}

}  // namespace trireme::convert
