// `trireme tokenize FILES --train SIZE -o tokenizer.json`: a byte-level BPE from text.
// SPDX-License-Identifier: Apache-2.0
#include "app/train_tokenizer.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include "app/result_path.hpp"
#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "io/files.hpp"
#include "text/bpe_trainer.hpp"
#include "text/corpus.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

namespace trireme::app {
namespace {

// The end token and 256 bytes are there before anything is learnt.
constexpr std::int64_t least_size = 257, most_size = 1 << 24;

}  // namespace

void train_tokenizer(const Arguments& arguments, int threads) {
  const auto start = std::chrono::steady_clock::now();
  const std::string path = arguments.text("-o", "");
  text::BpeTraining training;
  training.size = arguments.integer("--train", 0, least_size, most_size);
  training.min_frequency = arguments.integer("--min-frequency", 0, 0, INT64_C(1) << 40);
  training.end_token = arguments.text("--end-token", "<|endoftext|>");
  require(!training.end_token.empty() &&
              text::valid_bytes(training.end_token) == training.end_token.size(),
          Status::command_line, "--end-token has to be text in UTF-8, and not empty");
  std::optional<std::string> field;
  if (arguments.has("--field")) field = arguments.text("--field", "");
  Directory(parent_of(path)).require_file(last_name_of(path));
  const auto files = text::corpus_files(arguments.words());
  check_result(path, files);
  check_replaced(path, {"{"}, "tokenizer");
  text::BpeTrainer trainer(threads);
  auto told = start;
  for (std::size_t i = 0; i < files.size(); ++i)
    text::read_documents(files[i], field, [&](text::Document document) {
      trainer.add(std::move(document));
      const auto now = std::chrono::steady_clock::now();
      if (now - told < std::chrono::seconds(5)) return;
      told = now;
      log::info("{} of {} files, {} of text, {} words", i, files.size(),
                human_bytes(static_cast<double>(trainer.text_bytes())),
                human_count(static_cast<double>(trainer.words())));
    });
  trainer.count();
  require(trainer.words() > 0, Status::bad_content, "{}{}: no text in {}",
          one_line(files.front()), files.size() > 1 ? " and others" : "",
          files.size() > 1 ? "them" : "it");
  const std::string json = trainer.train(training);
  const text::Tokenizer made(json, path);  // what was written can be read
  io::write_text_atomically(path, json);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  log::info("{}: {} tokens from {} of text with {} words, {}", path, made.vocabulary(),
            human_bytes(static_cast<double>(trainer.text_bytes())), trainer.words(),
            human_seconds(time.count()));
  if (made.vocabulary() < training.size)
    log::info("the text holds no more pairs to merge: {} tokens instead of {}",
              made.vocabulary(), training.size);
}

}  // namespace trireme::app
