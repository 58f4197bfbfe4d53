// Documents of files: one each, or one a line.
// SPDX-License-Identifier: Apache-2.0
#include "text/corpus.hpp"

#include <algorithm>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/path.hpp"
#include "io/files.hpp"
#include "text/byte_source.hpp"
#include "text/json_lines.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

void add_folder(const Directory& folder, std::vector<std::string>& files) {
  for (const std::string& name : folder.names()) {
    if (name.starts_with('.') || folder.is_link(name)) continue;
    if (folder.is_file(name))
      files.push_back(folder.path_of(name));
    else if (is_folder(folder.path_of(name)))
      add_folder(folder.open(name), files);
  }
}

bool is_json_lines(std::string name) {
  for (const std::string_view end : {".gz", ".zst"})
    if (name.ends_with(end)) name.erase(name.size() - end.size());
  return name.ends_with(".jsonl");
}

std::string whole_text(const std::string& path) {
  const auto source = open_bytes(path);
  constexpr std::size_t block = std::size_t{1} << 18;
  std::string text;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + block);
    const std::size_t got = source->read(text.data() + before, block);
    text.resize(before + got);
    if (got == 0) break;
    require(text.size() <= Tokenizer::most_bytes, Status::bad_content,
            "{}: is a document of more than {}; give it as JSON lines, a document each",
            source->name(), human_bytes(static_cast<double>(Tokenizer::most_bytes)));
  }
  const std::size_t valid = valid_bytes(text);
  require(valid == text.size() && text.find('\0') == text.npos, Status::bad_content,
          "{}: byte {} is no UTF-8 text; leave binary files out", source->name(),
          std::min(valid, text.find('\0')));
  return text;
}

}  // namespace

std::vector<std::string> corpus_files(const std::vector<std::string>& words) {
  std::vector<std::string> files;
  for (const std::string& word : words) {
    if (word == "-") {
      files.push_back(word);
    } else if (is_folder(word)) {
      const std::size_t before = files.size();
      add_folder(Directory::to_read(word), files);
      require(files.size() > before, Status::missing_input, "{}: holds no file", word);
    } else {
      for (std::string& file : io::expand(word)) files.push_back(std::move(file));
    }
  }
  return files;
}

std::string Document::text() && {
  return field.empty() ? std::move(bytes) : field_of_json(bytes, field, place);
}

void read_documents(const std::string& path, const std::optional<std::string>& field,
                    const std::function<void(Document)>& take) {
  if (!field && !is_json_lines(path)) {
    std::string text = whole_text(path);
    if (!text.empty()) take({std::move(text), {}, path});
    return;
  }
  LineInput lines(open_bytes(path));
  while (auto line = lines.next()) {
    if (line->find_first_not_of(" \t\r") == line->npos) continue;
    take({std::move(*line), field.value_or("text"), lines.place()});
  }
}

}  // namespace trireme::text
