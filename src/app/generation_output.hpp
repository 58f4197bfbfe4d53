// GenerationOutput: texts as they end, in a file that survives being killed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/prompt_file.hpp"
#include "base/directory.hpp"

namespace trireme::app {

// OUT.partial gets a line as each text ends; when all have, OUT is written from them, in
// the order of the prompts, under another name first. So OUT is whole or is not there,
// and its bytes do not depend on when texts ended or how often the program was stopped.
// Each line has the digest of what decided it, by which a later run knows it again.
class GenerationOutput {
 public:
  // key: what decides the texts besides their prompts (the model, options). The file is
  // locked. Throws Error(cannot_create), where another program writes it or where OUT is
  // there and is not what this would write; Error(bad_content) where OUT.partial is of
  // other prompts or settings. Neither is changed then.
  GenerationOutput(const std::string& path, const PromptFile& prompts,
                   const std::string& key);
  // A partial file that no text came to is removed.
  ~GenerationOutput();
  GenerationOutput(const GenerationOutput&) = delete;
  GenerationOutput& operator=(const GenerationOutput&) = delete;

  // Nothing is left to do.
  bool complete() const { return complete_; }
  // Numbers of the generations that are still to be made.
  std::vector<std::size_t> missing() const;
  std::size_t finished() const;

  // Throws Error(io): what was written before stays.
  void add(std::size_t number, const infer::Generated& made, const ModelText& text);
  // Puts OUT in place. Throws Error(internal), and leaves the partial file, where not all
  // generations have been added.
  void finish();

 private:
  std::string digest_of(std::size_t number) const;
  bool is_complete(const Directory& folder) const;
  void read_partial();
  bool take_line(const std::string& line);
  std::string line_of(std::size_t number, const infer::Generated& made,
                      const ModelText& text) const;

  const PromptFile& prompts_;
  std::string key_, name_, partial_;
  Directory folder_;
  Descriptor file_;
  std::vector<std::string> lines_;  // of each generation; empty: not made
  bool complete_ = false;
};

}  // namespace trireme::app
