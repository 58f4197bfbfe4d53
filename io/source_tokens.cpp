// The "tokens" source: token numbers in HDF5 files.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.hpp"
#include "io/hdf5_file.hpp"
#include "io/source_stream.hpp"

namespace trireme::io {
namespace {

constexpr const char* dataset = "tokens";

bool is_integer(DType type) {
  return type == DType::i64 || type == DType::i32 || type == DType::u16 ||
         type == DType::u8;
}

class TokensSource final : public TokenStream {
 public:
  explicit TokensSource(const SourceConfig& config)
      : TokenStream(std::string(name_of(config.kind)), config.sequence),
        vocabulary_(config.vocabulary),
        files_(open_files(config)) {
    for (const auto& file : files_) add_part(open(file));
    require_one_sample();
    // A tokenizer larger than the model's vocabulary is usually noticed here, not in the
    // middle of a run.
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(config.sequence) + 1);
    sample(0, tokens);
    sample(samples() - 1, tokens);
  }

 private:
  // Opens the dataset of `file`; its number of tokens.
  std::int64_t open(const DataFile& file) {
    const auto& path = file.path();
    auto h5 = std::make_unique<Hdf5File>(path, Hdf5File::Mode::read);
    require(h5->has(dataset), Status::bad_content, "{}: has no dataset \"{}\"", path,
            dataset);
    const auto [type, shape] = h5->describe(dataset);
    require(is_integer(type) && shape.rank() == 1, Status::bad_content,
            "{}: the dataset \"{}\" must have one dim of integers, not {} of {}", path,
            dataset, shape, name_of(type));
    require(shape[0] > 0, Status::bad_content, "{}: the dataset \"{}\" is empty", path,
            dataset);
    data_.push_back(std::move(h5));
    return shape[0];
  }

  // Values that do not fit 32 bits are clamped by HDF5 and so refused here too.
  void read(std::size_t part, std::int64_t begin,
            std::span<std::int32_t> out) const override {
    files_[part].require_unchanged();
    data_[part]->read(dataset, {begin},
                      TensorView(out.data(), DType::i32, {std::ssize(out)}));
    const auto wrong = std::find_if(out.begin(), out.end(), [&](std::int32_t token) {
      return token < 0 || token >= vocabulary_;
    });
    require(wrong == out.end(), Status::bad_content,
            "{}: token {} is {}, outside model.vocabulary = {}", files_[part].path(),
            begin + (wrong - out.begin()), wrong == out.end() ? 0 : *wrong, vocabulary_);
  }

  std::int64_t bytes() const override {
    std::int64_t sum = 0;
    for (const auto& file : files_) sum += file.size();
    return sum;
  }

  const std::string& path_of(std::size_t part) const override {
    return files_[part].path();
  }

  std::int64_t vocabulary_;
  std::vector<DataFile> files_;
  std::vector<std::unique_ptr<Hdf5File>> data_;
};

}  // namespace

std::unique_ptr<SampleSource> open_tokens(const SourceConfig& config) {
  return std::make_unique<TokensSource>(config);
}

}  // namespace trireme::io
