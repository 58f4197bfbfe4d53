// Corpus: the documents of text files, JSON lines and folders of them, one by one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trireme::text {

// The files that words of a command line name: files, "-", globs, and folders with all
// below them that is no link and not hidden, sorted. Throws Error(missing_input).
std::vector<std::string> corpus_files(const std::vector<std::string>& words);

// A document as it lies in its file, so that threads can share the work of reading JSON.
struct Document {
  std::string bytes;  // a line of JSON, or without a field the text
  std::string field, place;

  // Its text, which may be empty. Throws Error(bad_content) naming file and line for what
  // is no object with the field.
  std::string text() &&;
};

// Calls take(document) for each document of a file, in order: with a field, or for names
// in .jsonl (.gz, .zst), each line that is not blank is an object whose field, "text"
// unless it is given, is one; else the whole file is one, unless it is empty.
// Throws Error(bad_content) naming file and line or byte for what is no UTF-8.
void read_documents(const std::string& path, const std::optional<std::string>& field,
                    const std::function<void(Document)>& take);

}  // namespace trireme::text
