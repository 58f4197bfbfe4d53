// JsonLines: a file with a JSON object on each line, as people write them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "io/json_fields.hpp"
#include "io/lines.hpp"

namespace trireme::io {

class JsonLines {
 public:
  struct Line {
    Json object;
    std::string source;  // "prompts.jsonl: line 3", for messages
    std::size_t number = 0;
  };

  // Throws as LineReader does.
  explicit JsonLines(const std::string& path) : path_(path), lines_(path) {}

  // The next object; nothing after the last. A byte order mark and empty lines are passed
  // over. Throws Error(io), and Error(bad_content) that names the line where it is longer
  // than LineReader::most_line_bytes, no JSON, no object, deeper than 64 objects and
  // lists, or has an object with a key twice (of which parsers take either).
  std::optional<Line> next();

 private:
  std::string path_;
  LineReader lines_;
  std::size_t number_ = 0;
};

}  // namespace trireme::io
