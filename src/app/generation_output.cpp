// The lines of texts, and the file that they are kept in until all are there.
// SPDX-License-Identifier: Apache-2.0
#include "app/generation_output.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/system_reason.hpp"
#include "io/digest.hpp"
#include "io/lines.hpp"

namespace trireme::app {
namespace {

constexpr auto replace = nlohmann::ordered_json::error_handler_t::replace;

// A line of a file of texts, or nothing where it is none.
io::Json parse_line(const std::string& line) {
  if (!io::why_no_json(line, 64).empty()) return {};
  io::Json json = io::Json::parse(line, nullptr, false);
  return json.is_object() ? json : io::Json();
}

}  // namespace

GenerationOutput::GenerationOutput(const std::string& path, const PromptFile& prompts,
                                   const std::string& key)
    : prompts_(prompts),
      key_(key),
      name_(last_name_of(path)),
      partial_(name_ + ".partial"),
      folder_(parent_of(path)),
      lines_(prompts.wanted.size()) {
  require(!name_.empty(), Status::cannot_create,
          "{}: names a folder: write the file that texts go to, such as {}texts.jsonl",
          path, path);
  if (folder_.has(name_)) {
    require(folder_.is_file(name_), Status::cannot_create,
            "{}: is there and is no file: choose another -o", path);
    require(is_complete(folder_), Status::cannot_create,
            "{}: is there, and is not what these prompts give with this model and these "
            "options: remove it, or choose another -o",
            path);
    complete_ = true;
    return;
  }
  file_ = folder_.open_to_write(partial_);
  require(::flock(file_.get(), LOCK_EX | LOCK_NB) == 0, Status::cannot_create,
          "{}: another program is writing it", folder_.path_of(partial_));
  read_partial();
}

GenerationOutput::~GenerationOutput() {
  const bool open = file_.is_open() && !complete_;
  if (open && ::lseek(file_.get(), 0, SEEK_END) == 0)
    static_cast<void>(folder_.remove(partial_));
}

std::string GenerationOutput::digest_of(std::size_t number) const {
  return io::digest_of(key_ + prompts_.wanted[number].digest).substr(0, 16);
}

bool GenerationOutput::is_complete(const Directory& folder) const {
  io::LineReader lines(folder, name_, io::no_line_limits);
  std::size_t number = 0;
  while (const auto line = lines.next()) {
    const io::Json json = parse_line(*line);
    if (number == lines_.size() || !json.is_object() || !json.contains("request") ||
        json["request"] != digest_of(number++))
      return false;
  }
  return number == lines_.size();
}

// A line of a generation of this run; its place is found by what it says of itself.
bool GenerationOutput::take_line(const std::string& line) {
  const io::Json json = parse_line(line);
  for (const char* field : {"index", "sample"})
    if (!json.is_object() || !json.contains(field) || !json[field].is_number_unsigned())
      return false;
  const std::pair place(json["index"].get<std::uint64_t>(),
                        json["sample"].get<std::uint64_t>());
  const auto place_of = [](const WantedText& wanted) {
    return std::pair<std::uint64_t, std::uint64_t>(wanted.prompt, wanted.sample);
  };
  const auto found =
      std::ranges::lower_bound(prompts_.wanted, place, std::less<>(), place_of);
  if (found == prompts_.wanted.end() || place_of(*found) != place) return false;
  const auto number = static_cast<std::size_t>(found - prompts_.wanted.begin());
  if (!json.contains("request") || json["request"] != digest_of(number)) return false;
  lines_[number] = line;
  return true;
}

// A last line without its end was being written when the program was stopped.
void GenerationOutput::read_partial() {
  off_t whole = 0;
  std::size_t number = 0;
  {
    io::LineReader lines(folder_, partial_, io::no_line_limits);
    while (const auto line = lines.next()) {
      ++number;
      if (!lines.whole()) break;
      require(take_line(*line), Status::bad_content,
              "{}: line {} was made of other prompts, by another model or with other "
              "options: remove the file to begin again, or choose another -o",
              folder_.path_of(partial_), number);
      whole += static_cast<off_t>(line->size()) + 1;
    }
  }
  const bool cut = ::ftruncate(file_.get(), whole) == 0 &&
                   ::lseek(file_.get(), whole, SEEK_SET) == whole;
  const int error = errno;
  require(cut, Status::io, "{}: {}", folder_.path_of(partial_), system_reason(error));
}

std::vector<std::size_t> GenerationOutput::missing() const {
  std::vector<std::size_t> numbers;
  if (complete_) return numbers;
  for (std::size_t i = 0; i < lines_.size(); ++i)
    if (lines_[i].empty()) numbers.push_back(i);
  return numbers;
}

std::size_t GenerationOutput::finished() const {
  return lines_.size() - missing().size();
}

std::string GenerationOutput::line_of(std::size_t number, const infer::Generated& made,
                                      const ModelText& text) const {
  const WantedText& wanted = prompts_.wanted[number];
  io::Json line = {{"index", wanted.prompt}, {"sample", wanted.sample}};
  if (!wanted.id.is_null()) line["id"] = wanted.id;
  if (text.speaks()) line["text"] = text.decode(made.tokens);
  line["tokens"] = made.tokens;
  line["finish"] = infer::name_of(made.finish);
  line["prompt_tokens"] = prompts_.generations[number].prompt.size();
  if (!made.probabilities.empty()) {
    io::Json chosen = io::Json::array(), likeliest = io::Json::array();
    for (const infer::TokenProbability& one : made.probabilities) {
      chosen.push_back(one.chosen);
      io::Json pairs = io::Json::array();
      for (const auto& [id, value] : one.likeliest)
        pairs.push_back(io::Json::array({id, value}));
      likeliest.push_back(std::move(pairs));
    }
    line["logprobs"] = std::move(chosen);
    if (prompts_.generations[number].log_probabilities > 0)
      line["top_logprobs"] = std::move(likeliest);
  }
  line["request"] = digest_of(number);
  return line.dump(-1, ' ', false, replace);
}

void GenerationOutput::add(std::size_t number, const infer::Generated& made,
                           const ModelText& text) {
  std::string line = line_of(number, made, text);
  if (!write_all(file_.get(), line + "\n")) {
    const int error = errno;
    fail(Status::io,
         "{}: cannot be written: {}; what is in it stays, and the same command goes on "
         "from it",
         folder_.path_of(partial_), system_reason(error));
  }
  lines_[number] = std::move(line);
}

void GenerationOutput::finish() {
  const std::size_t left = missing().size();
  require(left == 0, Status::internal,
          "{}: {} texts were not made: what is in it stays, and the same command goes on "
          "from it",
          folder_.path_of(partial_), left);
  std::string all;
  for (const std::string& line : lines_) all += line + "\n";
  replace_text(folder_, name_, all, Durability::synced);
  folder_.remove(partial_);
  complete_ = true;
}

}  // namespace trireme::app
