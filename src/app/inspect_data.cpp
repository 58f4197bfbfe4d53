// `trireme inspect DATA`: tokens and documents of a file, and its first sample.
// SPDX-License-Identifier: Apache-2.0
#include "app/inspect_data.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "app/tokenizer_option.hpp"
#include "base/counted.hpp"
#include "base/directory.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "engine/documents.hpp"
#include "io/hdf5_file.hpp"
#include "io/sample_source.hpp"
#include "text/tokenizer.hpp"

namespace trireme::app {
namespace {

bool is_regular(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_hdf5(const std::string& path) {
  constexpr std::string_view signature = "\x89HDF";
  std::array<char, signature.size()> head{};
  if (!is_regular(path)) return false;
  std::ifstream(path, std::ios::binary).read(head.data(), head.size());
  return std::string_view(head.data(), head.size()) == signature;
}

// What all tokens of a source say.
struct Census {
  std::int64_t tokens = 0, documents = 0, longest = 0;
  std::int32_t highest = 0;
  std::map<int, std::int64_t> lengths;  // by their bits: 1, 2-3, 4-7, ...
  std::int64_t unfinished = 0;          // tokens behind the last end token
};

Census count(const io::SampleSource& source, std::int64_t sequence,
             std::optional<std::int32_t> end) {
  Census census;
  std::vector<std::int32_t> window(static_cast<std::size_t>(sequence) + 1);
  const auto take = [&](std::int32_t token) {
    ++census.tokens;
    ++census.unfinished;
    census.highest = std::max(census.highest, token);
    if (token != end) return;
    ++census.documents;
    census.longest = std::max(census.longest, census.unfinished);
    ++census.lengths[std::bit_width(static_cast<std::uint64_t>(census.unfinished))];
    census.unfinished = 0;
  };
  for (std::int64_t i = 0; i < source.windows(); ++i) {
    source.sample(i, window);
    if (i == 0) take(window[0]);  // windows share a token with the one before
    for (std::size_t t = 1; t < window.size() && window[t] >= 0; ++t) take(window[t]);
  }
  return census;
}

// Documents by what the file itself says of them.
std::optional<std::int64_t> stored_documents(const std::string& path,
                                             io::SourceKind kind) {
  if (kind == io::SourceKind::tokens) {
    const io::Hdf5File file(path, io::Hdf5File::Mode::read);
    if (!file.has("documents")) return {};
    return file.describe("documents").second.elements() - 1;  // their borders
  }
  if (kind != io::SourceKind::megatron) return {};
  const std::string base = path.ends_with(".bin") || path.ends_with(".idx")
                               ? path.substr(0, path.size() - 4)
                               : path;
  std::ifstream index(base + ".idx", std::ios::binary);
  std::uint64_t borders = 0;  // behind the magic, version, type and number of sequences
  index.seekg(26).read(reinterpret_cast<char*>(&borders), sizeof borders);
  if (!index || borders == 0) return {};
  return static_cast<std::int64_t>(borders) - 1;
}

void print_lengths(const Census& census) {
  log::info("tokens of a document   documents");
  for (const auto& [bits, documents] : census.lengths) {
    const std::int64_t least = std::int64_t{1} << (bits - 1), most = 2 * least - 1;
    std::string range =
        most > least ? format("{} to {}", least, most) : format("{}", least);
    range.resize(std::max<std::size_t>(range.size(), 22), ' ');
    const auto share = static_cast<std::size_t>(40 * documents / census.documents);
    log::info("{} {}  {}", range, documents, std::string(share, '#'));
  }
}

// The documents of the first sample, one a line, by their places in it.
void print_sample(const std::vector<std::int32_t>& sample, std::int32_t end,
                  const std::optional<text::Tokenizer>& tokenizer) {
  auto starts = engine::document_starts(sample, end);
  starts.pop_back();  // the last token is a target only
  log::info("the first sample of {} tokens; an end token has no target when packed",
            starts.size());
  for (std::size_t begin = 0; begin < starts.size();) {
    std::size_t next = begin + 1;
    while (next < starts.size() && starts[next] == starts[begin]) ++next;
    const std::vector<std::int32_t> ids(
        sample.begin() + static_cast<std::ptrdiff_t>(begin),
        sample.begin() + static_cast<std::ptrdiff_t>(next));
    std::string text;
    if (tokenizer)
      text = one_line(valid_utf8(tokenizer->decode(ids, false)));
    else
      for (const std::int32_t id : ids) text += format("{} ", id);
    log::info("[{}, {})  {}", begin, next, text);
    begin = next;
  }
}

}  // namespace

std::optional<io::SourceKind> token_file_kind(const std::string& path) {
  if (path.ends_with(".h5") || path.ends_with(".hdf5") || is_hdf5(path))
    return io::SourceKind::tokens;
  if (path.ends_with(".idx") || is_regular(path + ".idx"))
    return io::SourceKind::megatron;
  if (!path.ends_with(".bin")) return {};
  const std::string index = path.substr(0, path.size() - 4) + ".idx";
  return is_regular(index) ? io::SourceKind::megatron : io::SourceKind::llmc;
}

bool is_token_file(const std::string& path) {
  if (!is_regular(path)) return false;
  if (path.ends_with(".bin") || path.ends_with(".idx")) return true;
  return (path.ends_with(".h5") || is_hdf5(path)) &&
         io::Hdf5File(path, io::Hdf5File::Mode::read).has("tokens");
}

void inspect_data(const std::string& path, const Arguments& arguments) {
  std::optional<text::Tokenizer> tokenizer;
  if (arguments.has("--tokenizer")) tokenizer.emplace(tokenizer_option(arguments));
  const std::int64_t sequence = arguments.integer("--sequence", 128, 1, 1 << 24);
  const auto source =
      io::open_source({.kind = token_file_kind(path).value_or(io::SourceKind::tokens),
                       .paths = {path},
                       .sequence = sequence,
                       .vocabulary = tokenizer ? tokenizer->vocabulary() : INT32_MAX,
                       .sequence_by = "--sequence"});
  std::optional<std::int32_t> end = source->end_token();
  if (!end && tokenizer) end = tokenizer->end_token();
  const Census census = count(*source, sequence, end);
  log::info("{}", source->describe());
  log::info("the highest token is {}", census.highest);
  const auto stored =
      stored_documents(path, token_file_kind(path).value_or(io::SourceKind::tokens));
  if (stored) log::info("{}, as the file says", counted(*stored, "document"));
  if (!end) {
    log::info("nothing says which token ends documents: give --tokenizer to see {}",
              stored ? "how long they are" : "them");
    return;
  }
  log::info("{} by the end token {}, {} tokens each, the longest {}; {} behind the last",
            counted(census.documents, "document"), *end,
            fixed(static_cast<double>(census.tokens - census.unfinished) /
                      static_cast<double>(std::max<std::int64_t>(census.documents, 1)),
                  1),
            census.longest, counted(census.unfinished, "token"));
  if (census.documents > 0) print_lengths(census);
  std::vector<std::int32_t> sample(static_cast<std::size_t>(sequence) + 1);
  source->sample(0, sample);
  print_sample(sample, *end, tokenizer);
}

}  // namespace trireme::app
