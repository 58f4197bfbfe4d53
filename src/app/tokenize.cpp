// `trireme tokenize FILES... --tokenizer F -o OUT.h5`: text to a token file.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <limits>
#include <optional>
#include <thread>

#include "app/app.hpp"
#include "base/log.hpp"
#include "base/system_reason.hpp"
#include "base/temporary_files.hpp"
#include "io/hdf5_file.hpp"
#include "text/corpus.hpp"
#include "text/parallel_encoder.hpp"
#include "text/tokenizer.hpp"

namespace trireme::app {
namespace {

constexpr std::string_view usage =
    "trireme tokenize FILES... --tokenizer F -o OUT.h5 [--field NAME] [--end-token TEXT] "
    "[--threads N]";
constexpr Option options[] = {{"--tokenizer", true},
                              {"-o", true},
                              {"--field", true},
                              {"--end-token", true},
                              {"--threads", true}};

// Tokens that wait in a file beside the result until their number is known, as HDF5 wants
// it of a dataset that is not cut into chunks.
class TokenFile {
 public:
  TokenFile(const std::string& path, const text::Tokenizer& tokenizer, std::int32_t end)
      : path_(path),
        folder_(parent_of(path)),
        spill_name_(format("{}.spill-{}", last_name_of(path), ::getpid())),
        spill_(folder_.path_of(spill_name_)),
        end_(end),
        dtype_(tokenizer.vocabulary() <= 65536 ? DType::u16 : DType::i32) {
    folder_.require_file(last_name_of(path));
    file_ = folder_.create(spill_name_);
  }

  // A document's tokens, and the end token behind them.
  void add(const std::vector<std::int32_t>& ids) {
    for (const std::int32_t id : ids) put(id);
    put(end_);
    ends_.push_back(ends_.back() + std::ssize(ids) + 1);
    if (block_.size() > block_bytes) flush();
  }
  std::int64_t tokens() const { return ends_.back(); }
  std::int64_t documents() const { return std::ssize(ends_) - 1; }

  void close(const text::Tokenizer& tokenizer) {
    flush();
    TemporaryFile unfinished(format("{}.tmp-{}", path_, ::getpid()));
    io::Hdf5File out(unfinished.path(), io::Hdf5File::Mode::create);
    out.create("tokens", dtype_, {tokens()});
    copy_tokens(out);
    out.write("documents", TensorView(ends_.data(), DType::i64, {std::ssize(ends_)}));
    out.write_attribute("tokens", "tokenizer_digest", tokenizer.digest());
    out.write_attribute("tokens", "vocabulary", tokenizer.vocabulary());
    out.write_attribute("tokens", "end_token", static_cast<std::int64_t>(end_));
    out.write_attribute("tokens", "documents", documents());
    out.close();
    unfinished.place([&] {
      if (::rename(unfinished.path().c_str(), path_.c_str()) != 0)
        fail(Status::cannot_create, "{}: cannot be replaced: {}", path_,
             system_reason(errno));
    });
    folder_.sync();
  }

 private:
  static constexpr std::size_t block_bytes = std::size_t{4} << 20;

  void put(std::int32_t id) {
    block_.append(reinterpret_cast<const char*>(&id), size_of(dtype_));  // little-endian
  }
  void flush() {
    require(write_all(file_.get(), block_), Status::io, "{}: write failed: {}",
            spill_.path(), system_reason(errno));
    block_.clear();
  }
  void copy_tokens(io::Hdf5File& out) {
    require(file_.close(), Status::io, "{}: write failed: {}", spill_.path(),
            system_reason(errno));
    const Descriptor in = folder_.read_file(spill_name_);
    require(in.is_open(), Status::io, "{}: cannot be read again: {}", spill_.path(),
            system_reason(errno));
    const auto width = static_cast<std::int64_t>(size_of(dtype_));
    const auto most = static_cast<std::int64_t>(block_bytes) / width;
    std::vector<std::byte> block(block_bytes);
    for (std::int64_t at = 0; at < tokens();) {
      const std::int64_t count = std::min(most, tokens() - at);
      for (std::int64_t done = 0; done < count * width;) {
        const ssize_t got = uninterrupted([&] {
          return ::read(in.get(), block.data() + done,
                        static_cast<std::size_t>(count * width - done));
        });
        require(got > 0, Status::io, "{}: cannot be read again: {}", spill_.path(),
                system_reason(errno));
        done += got;
      }
      out.write_rows("tokens", at, TensorView(block.data(), dtype_, {count}));
      at += count;
    }
  }

  std::string path_;
  Directory folder_;
  std::string spill_name_;
  TemporaryFile spill_;
  std::int32_t end_;
  DType dtype_;
  Descriptor file_;
  std::string block_;
  std::vector<std::int64_t> ends_ = {0};
};

std::int32_t end_token_of(const text::Tokenizer& tokenizer, const Arguments& arguments) {
  if (arguments.has("--end-token")) {
    const std::string token = arguments.text("--end-token", "");
    const auto id = tokenizer.id_of(token);
    require(id.has_value(), Status::command_line,
            "--end-token '{}': the tokenizer has no such token", token);
    return *id;
  }
  const auto id = tokenizer.end_token();
  require(id.has_value(), Status::command_line,
          "the tokenizer does not say which token ends a document: give --end-token");
  return *id;
}

void tokenize_files(const Arguments& arguments) {
  const text::Tokenizer tokenizer(arguments.text("--tokenizer", ""));
  const auto files = text::corpus_files(arguments.words());
  TokenFile out(arguments.text("-o", ""), tokenizer, end_token_of(tokenizer, arguments));
  std::optional<std::string> field;
  if (arguments.has("--field")) field = arguments.text("--field", "");
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  text::ParallelEncoder encoder(
      tokenizer,
      static_cast<int>(
          arguments.integer("--threads", std::max<std::int64_t>(cores, 1), 1, 1024)),
      [&](const std::vector<std::int32_t>& ids) { out.add(ids); });
  const auto start = std::chrono::steady_clock::now();
  auto told = start;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    text::read_documents(files[i], field, [&](std::string document) {
      bytes += std::ssize(document);
      encoder.add(std::move(document));
      const auto now = std::chrono::steady_clock::now();
      if (now - told < std::chrono::seconds(5)) return;
      told = now;
      log::info("{} of {} files, {} of text, {} tokens", i, files.size(),
                human_bytes(static_cast<double>(bytes)),
                human_count(static_cast<double>(out.tokens())));
    });
  }
  encoder.finish();
  require(out.documents() > 0, Status::bad_content, "the files hold no text");
  out.close(tokenizer);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  log::info("{}: {} tokens of {} documents, {} of text in {} files, {}",
            arguments.text("-o", ""), out.tokens(), out.documents(),
            human_bytes(static_cast<double>(bytes)), files.size(),
            human_seconds(time.count()));
}

}  // namespace

int tokenize(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  world.agree([&] {
    arguments.parse(usage, options, 1, std::numeric_limits<std::size_t>::max());
    for (const char* needed : {"--tokenizer", "-o"})
      require(arguments.has(needed), Status::command_line, "{} is missing\nusage: {}",
              needed, usage);
    require(world.size() == 1, Status::command_line,
            "tokenize works on one rank with --threads, not on {} ranks: start one for "
            "each part of the files, and name all token files in data.paths",
            world.size());
    tokenize_files(arguments);
  });
  return 0;
}

}  // namespace trireme::app
