// Writers of token files: each file gets its name when it is whole.
// SPDX-License-Identifier: Apache-2.0
#include "io/token_writer.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/system_reason.hpp"
#include "base/temporary_files.hpp"
#include "io/files.hpp"
#include "io/hdf5_file.hpp"
#include "io/token_formats.hpp"

namespace trireme::io {
namespace {

std::string temporary_name(const std::string& path) {
  return format("{}.tmp-{}", path, ::getpid());
}

void give_name(TemporaryFile& file, const std::string& path) {
  file.place([&] {
    if (::rename(file.path().c_str(), path.c_str()) != 0)
      fail(Status::cannot_create, "{}: cannot be replaced: {}", path,
           system_reason(errno));
  });
}

// A file that grows at its end.
class GrowingFile {
 public:
  explicit GrowingFile(const std::string& path)
      : path_(path), folder_(parent_of(path)), unfinished_(temporary_name(path)) {
    folder_.require_file(last_name_of(path));
    file_ = folder_.create(last_name_of(unfinished_.path()));
  }
  void write(const void* data, std::size_t bytes) {
    const bool written = write_all(file_.get(), {static_cast<const char*>(data), bytes});
    require(written, Status::io, "{}: write failed: {}", path_, system_reason(errno));
  }
  template <class Number>
  void put(Number value) {
    write(&value, sizeof value);
  }
  void sync() {
    const auto flush = [this] { return ::fsync(file_.get()); };
    const bool closed = uninterrupted(flush) == 0 && file_.close();
    require(closed, Status::io, "{}: write failed: {}", path_, system_reason(errno));
  }
  // The file is synced.
  void name() {
    give_name(unfinished_, path_);
    folder_.sync();
  }

 private:
  std::string path_;
  Directory folder_;
  TemporaryFile unfinished_;
  Descriptor file_;
};

class Hdf5Tokens final : public TokenWriter {
 public:
  Hdf5Tokens(const std::string& path, const TokenFileInfo& info, std::int64_t tokens)
      : path_(path),
        folder_(parent_of(path)),
        info_(info),
        unfinished_(temporary_name(path)) {
    folder_.require_file(last_name_of(path));
    out_ = std::make_unique<Hdf5File>(unfinished_.path(), Hdf5File::Mode::create);
    out_->create("tokens", token_dtype(TokenFormat::hdf5, info.vocabulary), {tokens});
  }
  void add(const TensorView& tokens) override {
    out_->write_rows("tokens", done_, tokens);
    done_ += tokens.elements();
  }
  void close(const std::vector<std::int64_t>& ends) override {
    out_->write("documents", TensorView(const_cast<std::int64_t*>(ends.data()),
                                        DType::i64, {std::ssize(ends)}));
    out_->write_attribute("tokens", "tokenizer_digest", info_.tokenizer_digest);
    out_->write_attribute("tokens", "vocabulary", info_.vocabulary);
    out_->write_attribute("tokens", "end_token", std::int64_t{info_.end_token});
    out_->write_attribute("tokens", "documents", std::ssize(ends) - 1);
    out_->close();
    give_name(unfinished_, path_);
    folder_.sync();
  }

 private:
  std::string path_;
  Directory folder_;
  TokenFileInfo info_;
  TemporaryFile unfinished_;
  std::unique_ptr<Hdf5File> out_;
  std::int64_t done_ = 0;
};

class MegatronTokens final : public TokenWriter {
 public:
  MegatronTokens(const std::string& path, const TokenFileInfo& info)
      : dtype_(token_dtype(TokenFormat::megatron, info.vocabulary)),
        tokens_(path + ".bin"),
        index_(path + ".idx") {}
  void add(const TensorView& tokens) override {
    tokens_.write(tokens.raw(), tokens.bytes());
  }
  // The index gets its name last: readers need both.
  void close(const std::vector<std::int64_t>& ends) override {
    const auto width = static_cast<std::int64_t>(size_of(dtype_));
    const auto count = static_cast<std::uint64_t>(ends.size() - 1);
    index_.write(megatron::magic.data(), megatron::magic.size());
    index_.put(megatron::version);
    index_.put(dtype_ == DType::u16 ? megatron::code_u16 : megatron::code_i32);
    index_.put(count);
    index_.put(count + 1);
    std::vector<std::int32_t> lengths(count);
    std::vector<std::int64_t> begins(count), documents(count + 1);
    for (std::size_t i = 0; i < count; ++i) {
      require(ends[i + 1] - ends[i] <= INT32_MAX, "a document of {} tokens",
              ends[i + 1] - ends[i]);
      lengths[i] = static_cast<std::int32_t>(ends[i + 1] - ends[i]);
      begins[i] = ends[i] * width;
      documents[i + 1] = static_cast<std::int64_t>(i) + 1;
    }
    index_.write(lengths.data(), lengths.size() * sizeof lengths[0]);
    index_.write(begins.data(), begins.size() * sizeof begins[0]);
    index_.write(documents.data(), documents.size() * sizeof documents[0]);
    tokens_.sync();
    index_.sync();
    tokens_.name();
    index_.name();
  }

 private:
  DType dtype_;
  GrowingFile tokens_, index_;
};

class LlmcTokens final : public TokenWriter {
 public:
  LlmcTokens(const std::string& path, const TokenFileInfo& info, std::int64_t tokens)
      : file_(path) {
    require(tokens <= INT32_MAX, Status::bad_content,
            "{}: llm.c's format takes less than 2^31 tokens, not {}: write several files "
            "from parts of the text",
            path, tokens);
    std::int32_t header[llmc::header_bytes / 4] = {};
    const bool narrow = token_dtype(TokenFormat::llmc, info.vocabulary) == DType::u16;
    header[0] = narrow ? llmc::magic_u16 : llmc::magic_u32;
    header[1] = narrow ? llmc::version_u16 : llmc::version_u32;
    header[2] = static_cast<std::int32_t>(tokens);
    file_.write(header, sizeof header);
  }
  void add(const TensorView& tokens) override {
    file_.write(tokens.raw(), tokens.bytes());
  }
  void close(const std::vector<std::int64_t>&) override {
    file_.sync();
    file_.name();
  }

 private:
  GrowingFile file_;
};

}  // namespace

DType token_dtype(TokenFormat format, std::int64_t vocabulary) {
  const bool narrow = format == TokenFormat::megatron
                          ? vocabulary < megatron::u16_vocabulary
                          : vocabulary <= 65536;
  return narrow ? DType::u16 : DType::i32;
}

std::unique_ptr<TokenWriter> make_token_writer(TokenFormat format,
                                               const std::string& path,
                                               const TokenFileInfo& info,
                                               std::int64_t tokens) {
  switch (format) {
    case TokenFormat::hdf5: return std::make_unique<Hdf5Tokens>(path, info, tokens);
    case TokenFormat::megatron: return std::make_unique<MegatronTokens>(path, info);
    case TokenFormat::llmc: return std::make_unique<LlmcTokens>(path, info, tokens);
  }
  fail(Status::internal, "no such format of tokens");
}

}  // namespace trireme::io
