// The "tokens" source: token numbers in HDF5 files.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "base/format.hpp"
#include "io/element_convert.hpp"
#include "io/hdf5_file.hpp"
#include "io/source_stream.hpp"

namespace trireme::io {
namespace {

constexpr const char *dataset = "tokens", *borders = "documents", *mask = "loss_mask";
constexpr const char *end_key = "end_token", *tokenizer_key = "tokenizer_digest";

class TokensSource final : public TokenStream {
 public:
  explicit TokensSource(const SourceConfig& config)
      : TokenStream(std::string(name_of(config.kind)), config.sequence),
        vocabulary_(config.vocabulary),
        tokenizer_end_(config.tokenizer_end),
        files_(open_files(config)) {
    const bool few = files_.size() <= most_open_files;
    for (const auto& file : files_) {
      const FileFacts facts = file.facts([&] { return look_into(file, few); });
      add_part(facts.tokens);
      masked_.push_back(facts.masked);
      note_end(facts.end_token);
      if (!config.tokenizer_digest.empty()) check_tokenizer(facts, file.path(), config);
    }
    cut_samples(config);
    if (file_table() != nullptr && file_table()->is_told()) return;
    // A tokenizer larger than the model's vocabulary is usually noticed here, not in the
    // middle of a run.
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(config.sequence) + 1);
    sample(0, tokens);
    sample(samples() - 1, tokens);
  }

  std::optional<std::int32_t> end_token() const override {
    const std::int64_t end = end_ < 0 ? tokenizer_end_ : end_;
    if (!ends_agree_ || end < 0) return {};
    return static_cast<std::int32_t>(end);
  }

  bool has_masks() const override {
    return std::find(masked_.begin(), masked_.end(), true) != masked_.end();
  }

 private:
  // few: it may stay open.
  static std::shared_ptr<const Hdf5File> open(const DataFile& file, bool few) {
    try {
      if (few) return file.h5();
      return std::make_shared<const Hdf5File>(file.path(), Hdf5File::Mode::read);
    } catch (const Error& error) {
      if (error.status() != Status::bad_content) throw;
      throw Error(
          error.status(),
          format("{}; data.source = \"tokens\" reads what trireme tokenize makes, "
                 "\"text\" reads texts",
                 error.what()),
          error.where());
    }
  }

  static FileFacts look_into(const DataFile& file, bool few) {
    const auto h5 = open(file, few);
    FileFacts facts;
    facts.tokens = tokens_of(*h5, file.path());
    facts.masked = is_masked(*h5, file.path());
    if (h5->has_attribute(dataset, end_key))
      facts.end_token = h5->integer_attribute(dataset, end_key);
    // Files of other programs need not say by which tokenizer they were made.
    if (h5->has_attribute(dataset, tokenizer_key))
      facts.tokenizer_digest = h5->text_attribute(dataset, tokenizer_key);
    return facts;
  }

  // The number of tokens of a file whose dataset is as it must be.
  static std::int64_t tokens_of(const Hdf5File& h5, const std::string& path) {
    require(h5.has(dataset), Status::bad_content, "{}: has no dataset \"{}\"", path,
            dataset);
    const auto [type, shape] = h5.describe(dataset);
    require(is_integer(type) && shape.rank() == 1, Status::bad_content,
            "{}: the dataset \"{}\" must have one dim of integers, not {} of {}", path,
            dataset, shape, name_of(type));
    require(shape[0] > 0, Status::bad_content, "{}: the dataset \"{}\" is empty", path,
            dataset);
    return shape[0];
  }

  static bool is_masked(const Hdf5File& h5, const std::string& path) {
    if (!h5.has(mask)) return false;
    const auto [type, shape] = h5.describe(mask);
    const Shape tokens = h5.describe(dataset).second;
    require(
        is_integer(type) && shape == tokens, Status::bad_content,
        "{}: the dataset \"{}\" must have an integer for each token, {}, not {} of {}",
        path, mask, tokens, shape, name_of(type));
    return true;
  }

  void read_mask(std::size_t part, std::int64_t begin,
                 std::span<std::uint8_t> out) const override {
    if (!masked_[part]) return;
    std::vector<std::int32_t> learned(out.size());
    read_integers(part, mask, begin, learned);
    std::transform(learned.begin(), learned.end(), out.begin(),
                   [](std::int32_t value) { return value == 0 ? 1 : 0; });
  }

  void note_end(std::int64_t end) {
    ends_agree_ = ends_agree_ && (end_ == -2 || end == end_);
    end_ = end;
  }

  static void check_tokenizer(const FileFacts& facts, const std::string& path,
                              const SourceConfig& config) {
    const std::string& made_by = facts.tokenizer_digest;
    require(made_by.empty() || made_by == config.tokenizer_digest, Status::bad_content,
            "{}: was made by the tokenizer with the digest {}, but data.tokenizer = "
            "\"{}\" has {}: name the one it was made by, or make it again",
            path, made_by, config.tokenizer, config.tokenizer_digest);
  }

  void read_integers(std::size_t part, const char* name, std::int64_t begin,
                     std::span<std::int32_t> out) const {
    const TensorView view(out.data(), DType::i32, {std::ssize(out)});
    files_[part].h5()->read(name, {begin}, view);
  }

  // Values that do not fit 32 bits are clamped by HDF5 and so refused here too.
  void read(std::size_t part, std::int64_t begin,
            std::span<std::int32_t> out) const override {
    read_integers(part, dataset, begin, out);
    check_tokens(out, vocabulary_, files_[part].path(), begin);
  }

  // Those that trireme tokenize wrote; files of other programs have none.
  std::optional<std::vector<std::int64_t>> document_ends(
      std::size_t part) const override {
    const std::string& path = files_[part].path();
    const std::shared_ptr<const Hdf5File> opened = files_[part].h5();
    const Hdf5File& h5 = *opened;
    if (!h5.has(borders)) return {};
    const auto [type, shape] = h5.describe(borders);
    require(
        type == DType::i64 && shape.rank() == 1 && shape[0] >= 2, Status::bad_content,
        "{}: the dataset \"{}\" must have one dim of i64 and two entries or more, not "
        "{} of {}",
        path, borders, shape, name_of(type));
    std::vector<std::int64_t> ends(static_cast<std::size_t>(shape[0]));
    h5.read_all(borders, TensorView(ends.data(), DType::i64, shape));
    const std::int64_t all = h5.describe(dataset).second[0];
    require(ends.front() == 0 && ends.back() == all &&
                std::is_sorted(ends.begin(), ends.end()),
            Status::bad_content,
            "{}: the dataset \"{}\" must ascend from 0 to the number of tokens, {}: make "
            "the file again",
            path, borders, all);
    ends.erase(ends.begin());
    return ends;
  }

  std::int64_t bytes() const override {
    std::int64_t sum = 0;
    for (const auto& file : files_) sum += file.size();
    return sum;
  }

  const std::string& path_of(std::size_t part) const override {
    return files_[part].path();
  }

  std::int64_t vocabulary_, tokenizer_end_;
  std::int64_t end_ = -2;  // the end token of the file read last; -1: it does not say
  bool ends_agree_ = true;
  std::vector<bool> masked_;  // files that say which tokens are targets
  std::vector<DataFile> files_;
};

}  // namespace

std::unique_ptr<SampleSource> open_tokens(const SourceConfig& config) {
  return std::make_unique<TokensSource>(config);
}

}  // namespace trireme::io
