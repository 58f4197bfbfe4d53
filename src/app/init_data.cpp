// What data of `trireme init` hold: by names, and of JSON lines by the first line.
// SPDX-License-Identifier: Apache-2.0
#include "app/init_data.hpp"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "base/path.hpp"
#include "base/text.hpp"
#include "io/sample_source.hpp"
#include "text/byte_source.hpp"
#include "text/config_node.hpp"
#include "text/corpus.hpp"

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> all;
  for (const std::string_view part : split(text, ',')) {
    const auto begin = part.find_first_not_of(' ');
    if (begin != part.npos)
      all.emplace_back(part.substr(begin, part.find_last_not_of(' ') - begin + 1));
  }
  return all;
}

// The first line that is not blank, as an object; none where it is not one.
std::optional<text::Json> first_object(const std::string& path) {
  text::LineInput lines(text::open_bytes(path));
  while (const auto line = lines.next()) {
    if (line->find_first_not_of(" \t\r") == line->npos) continue;
    try {
      text::Json json = text::parse_json(*line, lines.place());
      if (json.is_object()) return json;
    } catch (const Error& error) {
      if (error.status() != Status::bad_content) throw;
    }
    return {};
  }
  return {};
}

// Of JSON lines, by the members that docs/text.md and docs/preferences.md name.
std::string kind_of_lines(const std::string& path) {
  const auto line = first_object(path);
  if (!line) return "text";
  const auto has = [&](std::initializer_list<const char*> all) {
    return std::all_of(all.begin(), all.end(),
                       [&](const char* one) { return line->contains(one); });
  };
  if (has({"chosen", "rejected"})) return "preference";
  const bool chat = has({"messages"}) || has({"conversations"}) ||
                    has({"prompt", "completion"}) || has({"instruction", "output"});
  return chat ? "chat" : "text";
}

std::string kind_of(const std::string& path) {
  std::error_code none;
  if (path.ends_with(".h5") || path.ends_with(".hdf5")) return "tokens";
  if (path.ends_with(".bin"))
    return fs::exists(fs::path(path).replace_extension(".idx"), none) ? "megatron"
                                                                      : "llmc";
  std::string name = path;
  for (const std::string_view end : {".gz", ".zst"})
    if (name.ends_with(end)) name.erase(name.size() - end.size());
  return name.ends_with(".jsonl") ? kind_of_lines(path) : "text";
}

// The files that a word of --data names.
std::vector<std::string> files_of(const std::string& word) {
  const bool glob = word.find_first_of("*?[") != std::string::npos;
  require(glob || is_folder(word) || is_there(word), Status::missing_input,
          "--data: {}: there is no such file", word);
  return io::named("--data", [&] { return text::corpus_files({word}); });
}

// Of sources that read no folders, the folder's files as a glob.
std::string without_folder(const std::string& word, const std::string& source) {
  if (!is_folder(word)) return word;
  const std::string glob = without_slashes(word) + "/*";
  const bool tokens = source != "bytes";
  require(!tokens, Status::command_line,
          "--data: {}: is a folder of token files: name these, as {} does", word, glob);
  const fs::path folder = fs::path(without_slashes(word)).lexically_normal();
  for (const std::string& file : text::corpus_files({word}))
    require(fs::path(file).parent_path().lexically_normal() == folder,
            Status::command_line,
            "--data: {}: has folders in it, which are read with a tokenizer: give "
            "--tokenizer F too, or name files, as {} does",
            word, glob);
  return glob;
}

void require_tokenizer(const InitAnswers& out) {
  const std::string& first = out.paths.front();
  require(out.source == "text", Status::command_line,
          "--data: {} holds {}, which need a tokenizer with a chat template: give "
          "--tokenizer F too",
          first, out.source == "chat" ? "conversations" : "pairs of answers");
  const std::int64_t vocabulary = out.model.model.vocabulary;
  require(
      vocabulary == 0 || vocabulary == byte_tokens, Status::command_line,
      "--data: {} holds text, and this model reads {} tokens: give --tokenizer F too, "
      "or a file that trireme tokenize made",
      first, vocabulary);
}

}  // namespace

void take_data(const std::string& answer, const Arguments& arguments, InitAnswers& out) {
  out.source = "synthetic";
  out.paths.clear();
  out.tokenizer = arguments.text("--tokenizer", out.model.tokenizer);
  if (answer == "synthetic") return;
  out.paths = split_list(answer);
  require(!out.paths.empty(), Status::command_line,
          "--data: name files, with commas between them, or write synthetic");
  std::string first;
  for (const std::string& path : out.paths) {
    const std::vector<std::string> files = files_of(path);
    if (first.empty()) first = files.front();
  }
  out.source = kind_of(first);
  const bool tokens =
      out.source == "tokens" || out.source == "megatron" || out.source == "llmc";
  if (tokens)
    require(out.model.model.vocabulary != 0 || !out.tokenizer.empty(),
            Status::command_line,
            "--data: {} holds numbers of tokens; how many there are is said by their "
            "tokenizer: give --tokenizer F too",
            first);
  else if (out.tokenizer.empty())
    require_tokenizer(out);
  if (out.source == "text" && out.tokenizer.empty()) out.source = "bytes";
  if (tokens || out.source == "bytes")
    for (std::string& path : out.paths) path = without_folder(path, out.source);
}

}  // namespace trireme::app
