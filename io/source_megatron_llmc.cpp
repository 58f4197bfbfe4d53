// The "megatron" and "llmc" sources: token files of those programs, read in place.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <set>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "io/files.hpp"
#include "io/source_stream.hpp"
#include "io/token_formats.hpp"

namespace trireme::io {
namespace {

// Tokens of one type that lie one after another in a file, from `begin` on.
struct PackedFile {
  DataFile file;
  std::int64_t begin = 0, tokens = 0;
  DType dtype = DType::u16;
  // Of Megatron's documents, with packing = best_fit; empty: the file does not say.
  std::vector<std::int64_t> document_ends = {};
};

class PackedSource final : public TokenStream {
 public:
  PackedSource(const SourceConfig& config, std::vector<PackedFile> files)
      : TokenStream(std::string(name_of(config.kind)), config.sequence),
        vocabulary_(config.vocabulary),
        end_(config.tokenizer_end),
        files_(std::move(files)) {
    for (const PackedFile& file : files_) add_part(file.tokens);
    cut_samples(config);
    for (PackedFile& file : files_) file.document_ends = {};  // rows have them
    if (file_table() != nullptr && file_table()->is_told()) return;
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(config.sequence) + 1);
    sample(0, tokens);  // ids beyond the vocabulary show here, not within a run
    sample(samples() - 1, tokens);
  }

  std::optional<std::int32_t> end_token() const override {
    if (end_ < 0) return {};
    return static_cast<std::int32_t>(end_);
  }

 private:
  template <class Stored>
  static void widen(std::span<const std::byte> from, std::span<std::int32_t> to) {
    // Narrow numbers are in the last bytes of `to`: each is read before what is behind it
    // is written over.
    for (std::size_t i = 0; i < to.size(); ++i) {
      Stored value;
      std::memcpy(&value, from.data() + i * sizeof value, sizeof value);
      to[i] = static_cast<std::int32_t>(value);
    }
  }

  void read(std::size_t part, std::int64_t begin,
            std::span<std::int32_t> out) const override {
    const PackedFile& file = files_[part];
    const auto width = static_cast<std::int64_t>(size_of(file.dtype));
    const auto bytes =
        std::as_writable_bytes(out).last(out.size() * static_cast<std::size_t>(width));
    file.file.read(file.begin + begin * width, bytes);
    if (file.dtype == DType::u16) widen<std::uint16_t>(bytes, out);
    if (file.dtype == DType::u8) widen<std::uint8_t>(bytes, out);
    check_tokens(out, vocabulary_, file.file.path(), begin);
  }
  std::optional<std::vector<std::int64_t>> document_ends(
      std::size_t part) const override {
    if (files_[part].document_ends.empty()) return {};
    return files_[part].document_ends;
  }
  std::int64_t bytes() const override {
    std::int64_t sum = 0;
    for (const PackedFile& file : files_) sum += file.file.size();
    return sum;
  }
  const std::string& path_of(std::size_t part) const override {
    return files_[part].file.path();
  }

  std::int64_t vocabulary_, end_;  // end_: below 0: none is known
  std::vector<PackedFile> files_;
};

template <class Number>
Number number_at(std::span<const std::byte> bytes, std::size_t at) {
  Number value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// An index beside a file of tokens, checked: what it says of the other file.
class MegatronIndex {
 public:
  // keep_ends: those of documents are wanted.
  MegatronIndex(const DataFile& file, bool keep_ends)
      : file_(file), keep_ends_(keep_ends) {
    read_header();
    check_sequences();
    check_documents();
  }
  FileFacts facts() const { return {.tokens = tokens_, .dtype = dtype_}; }
  std::vector<std::int64_t> document_ends() const { return document_ends_; }

 private:
  static constexpr std::int64_t block = 1 << 16;  // entries that are read at once

  [[noreturn]] void refuse(const std::string& what) const {
    fail(Status::bad_content, "{}: {}", file_.path(), what);
  }

  void read_header() {
    using namespace megatron;
    std::vector<std::byte> header(header_bytes);
    if (file_.size() < header_bytes) refuse("is too short for an index of Megatron-LM");
    file_.read(0, header);
    if (std::memcmp(header.data(), magic.data(), magic.size()) != 0)
      refuse("is no index of Megatron-LM: it does not begin with MMIDIDX");
    const auto found = number_at<std::uint64_t>(header, 9);
    if (found != version) refuse(format("has version {}; 1 is known", found));
    const auto code = number_at<std::uint8_t>(header, 17);
    if (code != code_u8 && code != code_i32 && code != code_u16)
      refuse(format("has tokens of type {}; u8 (1), i32 (4) and u16 (8) are supported",
                    unsigned{code}));
    dtype_ = code == code_u8 ? DType::u8 : code == code_i32 ? DType::i32 : DType::u16;
    const auto sequences = number_at<std::uint64_t>(header, 18);
    const auto documents = number_at<std::uint64_t>(header, 26);
    const auto most = static_cast<std::uint64_t>(file_.size());
    if (sequences > most / 12 || documents > most / 8)
      refuse(format("announces {} sequences and {} documents, for which it is too short",
                    sequences, documents));
    sequences_ = static_cast<std::int64_t>(sequences);
    documents_ = static_cast<std::int64_t>(documents);
    const std::int64_t size = header_bytes + 12 * sequences_ + 8 * documents_;
    if (file_.size() == size + sequences_ && sequences_ > 0)
      refuse("has modes of sequences, as multimodal data do, which is not supported");
    if (file_.size() != size)
      refuse(format("has {} bytes instead of {} for {} sequences and {} documents",
                    file_.size(), size, sequences_, documents_));
  }

  // Sequences lie one after another, so that their tokens are those of the file in order.
  void check_sequences() {
    const auto width = static_cast<std::int64_t>(size_of(dtype_));
    for (std::int64_t done = 0; done < sequences_; done += block) {
      const std::int64_t count = std::min(block, sequences_ - done);
      std::vector<std::byte> lengths(static_cast<std::size_t>(4 * count));
      std::vector<std::byte> begins(static_cast<std::size_t>(8 * count));
      file_.read(megatron::header_bytes + 4 * done, lengths);
      file_.read(megatron::header_bytes + 4 * sequences_ + 8 * done, begins);
      for (std::int64_t i = 0; i < count; ++i) {
        const auto length =
            number_at<std::int32_t>(lengths, static_cast<std::size_t>(4 * i));
        const auto begin =
            number_at<std::int64_t>(begins, static_cast<std::size_t>(8 * i));
        if (length < 0) refuse(format("sequence {} has length {}", done + i, length));
        if (begin != tokens_ * width)
          refuse(
              format("sequence {} begins at byte {} instead of {}: sequences must lie "
                     "one after another",
                     done + i, begin, tokens_ * width));
        tokens_ += length;
        if (keep_ends_) sequence_ends_.push_back(tokens_);
      }
    }
  }

  void check_documents() {
    if (documents_ == 0) refuse("has no list of documents");
    std::int64_t before = 0;
    for (std::int64_t done = 0; done < documents_; done += block) {
      const std::int64_t count = std::min(block, documents_ - done);
      std::vector<std::byte> entries(static_cast<std::size_t>(8 * count));
      file_.read(megatron::header_bytes + 12 * sequences_ + 8 * done, entries);
      for (std::int64_t i = 0; i < count; ++i) {
        const auto entry =
            number_at<std::int64_t>(entries, static_cast<std::size_t>(8 * i));
        if (entry < before || entry > sequences_ || (done + i == 0 && entry != 0))
          refuse(format("document {} begins at sequence {}", done + i, entry));
        before = entry;
        if (keep_ends_ && entry > 0)
          document_ends_.push_back(sequence_ends_[static_cast<std::size_t>(entry - 1)]);
      }
    }
    if (before != sequences_)
      refuse(format("its last document ends at sequence {} of {}", before, sequences_));
  }

  const DataFile& file_;
  bool keep_ends_;
  std::vector<std::int64_t> sequence_ends_, document_ends_;
  DType dtype_ = DType::u16;
  std::int64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
};

std::string without_end(std::string path) {
  for (const char* end : {".bin", ".idx"})
    if (path.ends_with(end)) path.resize(path.size() - 4);
  return path;
}

// Paths are PREFIX, PREFIX.bin or PREFIX.idx, or globs of them; each prefix once.
std::vector<std::string> prefixes_of(const SourceConfig& config) {
  std::vector<std::string> prefixes;
  for (const std::string& path : config.paths) {
    const bool named = path.ends_with(".bin") || path.ends_with(".idx");
    std::set<std::string> known;  // of this path
    for (const std::string& name : names_of(named ? path : path + ".idx"))
      if (const std::string prefix = without_end(name); known.insert(prefix).second)
        prefixes.push_back(prefix);
  }
  return prefixes;
}

void require_paths(const SourceConfig& config) {
  require(!config.paths.empty(), Status::missing_input,
          "data.source = \"{}\" needs data.paths", name_of(config.kind));
}

FileFacts look_into_llmc(const DataFile& file) {
  using namespace llmc;
  std::vector<std::byte> header(header_bytes);
  const auto refuse = [&](const std::string& what) {
    fail(Status::bad_content, "{}: {}", file.path(), what);
  };
  if (file.size() < header_bytes) refuse("is too short for a token file of llm.c");
  file.read(0, header);
  const auto magic = number_at<std::int32_t>(header, 0);
  const auto version = number_at<std::int32_t>(header, 4);
  const std::int64_t tokens = number_at<std::int32_t>(header, 8);
  const bool narrow = magic == magic_u16 && version == version_u16;
  if (!narrow && !(magic == magic_u32 && version == version_u32))
    refuse(
        format("is no token file of llm.c: it begins with {} {} instead of {} {} or "
               "{} {}",
               magic, version, magic_u16, version_u16, magic_u32, version_u32));
  const DType dtype = narrow ? DType::u16 : DType::i32;
  const std::int64_t size =
      header_bytes + tokens * static_cast<std::int64_t>(size_of(dtype));
  if (tokens <= 0 || file.size() != size)
    refuse(
        format("has {} bytes, but its header says {} tokens, which are {}: it was cut "
               "off or is another kind of file",
               file.size(), tokens, size));
  return {.tokens = tokens, .begin = header_bytes, .dtype = dtype};
}

PackedFile open_megatron_file(const SourceConfig& config, const std::string& prefix,
                              bool keep_open) {
  const DataFile list(prefix + ".idx", true, config.kind);
  std::vector<std::int64_t> ends;
  FileFacts facts;
  if (config.packing == Packing::best_fit) {
    const MegatronIndex index(list, true);
    ends = index.document_ends();
    facts = list.facts([&] { return index.facts(); });
  } else {
    facts = list.facts([&] { return MegatronIndex(list, false).facts(); });
  }
  DataFile file(prefix + ".bin", keep_open, config.kind);
  file.facts([&] { return facts; });
  const std::int64_t bytes =
      facts.tokens * static_cast<std::int64_t>(size_of(facts.dtype));
  require(file.size() == bytes, Status::bad_content,
          "{}: has {} bytes, but {}.idx says {}: the files do not belong together, or "
          "one was cut off",
          file.path(), file.size(), prefix, bytes);
  return {std::move(file), 0, facts.tokens, facts.dtype, std::move(ends)};
}

}  // namespace

std::unique_ptr<SampleSource> open_megatron(const SourceConfig& config) {
  require_paths(config);
  const std::vector<std::string> prefixes = prefixes_of(config);
  std::vector<PackedFile> files;
  for (const std::string& prefix : prefixes)
    files.push_back(
        open_megatron_file(config, prefix, prefixes.size() <= most_open_files));
  return std::make_unique<PackedSource>(config, std::move(files));
}

std::unique_ptr<SampleSource> open_llmc(const SourceConfig& config) {
  std::vector<PackedFile> files;
  std::vector<DataFile> opened = open_files(config);
  for (DataFile& file : opened) {
    const FileFacts facts = file.facts([&] { return look_into_llmc(file); });
    files.push_back({std::move(file), facts.begin, facts.tokens, facts.dtype, {}});
    if (opened.size() > most_open_files) files.back().file.close();
  }
  return std::make_unique<PackedSource>(config, std::move(files));
}

}  // namespace trireme::io
