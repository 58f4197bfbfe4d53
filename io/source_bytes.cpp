// The "bytes" source: every byte of a file is a token, and each file ends with one more.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base/error.hpp"
#include "io/source_stream.hpp"

namespace trireme::io {
namespace {

class BytesSource final : public TokenStream {
 public:
  explicit BytesSource(const SourceConfig& config)
      : TokenStream(std::string(name_of(config.kind)), config.sequence),
        files_(open_files(config)) {
    for (const auto& file : files_)
      add_part(file.facts([&] { return FileFacts{.tokens = file.size() + 1}; }).tokens);
    cut_samples(config);
  }

  std::optional<std::int32_t> end_token() const override { return end_of_text; }

 private:
  void read(std::size_t part, std::int64_t begin,
            std::span<std::int32_t> out) const override {
    const auto& file = files_[part];
    if (begin + std::ssize(out) > file.size()) {
      out.back() = end_of_text;
      out = out.first(out.size() - 1);
    }
    // The bytes are read into the last quarter of `out` and widened in place: token j is
    // written over bytes [4 j, 4 j + 4), all before byte j + 1 at 3 n + j + 1.
    const auto memory = std::as_writable_bytes(out);
    const auto bytes = memory.last(out.size());
    file.read(begin, bytes);
    for (std::size_t j = 0; j < out.size(); ++j) {
      const auto byte = std::to_integer<std::int32_t>(bytes[j]);
      out[j] = byte;
    }
  }

  // A file is a document.
  std::optional<std::vector<std::int64_t>> document_ends(
      std::size_t part) const override {
    return std::vector<std::int64_t>{files_[part].size() + 1};
  }

  std::int64_t bytes() const override {
    return tokens() - static_cast<std::int64_t>(files_.size());
  }

  const std::string& path_of(std::size_t part) const override {
    return files_[part].path();
  }

  std::vector<DataFile> files_;
};

}  // namespace

std::unique_ptr<SampleSource> open_bytes(const SourceConfig& config) {
  require(config.vocabulary > end_of_text, Status::bad_content,
          "data.source = \"bytes\" has {} tokens (256 bytes and the end of text), but "
          "model.vocabulary = {}: set it to {} or more",
          end_of_text + 1, config.vocabulary, end_of_text + 1);
  return std::make_unique<BytesSource>(config);
}

}  // namespace trireme::io
