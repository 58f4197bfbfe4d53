// TokenStream: samples cut from the tokens of several files, one after another.
// SPDX-License-Identifier: Apache-2.0
// DataFile is a file whose changes are noticed. Other modules may derive from
// TokenStream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/split.hpp"
#include "io/best_fit_packing.hpp"
#include "io/file_table.hpp"
#include "io/open_files.hpp"
#include "io/sample_source.hpp"

namespace trireme::io {

// A regular file as it was when a source was opened. Reading goes through pread(), not a
// mapping: a file truncated under a mapping kills the process with SIGBUS.
//
// It stays open as long as it is among those of the process that were read last
// (OpenFiles): sources may have any number of files, and few reads open one.
//
// Of a file that file_table() was told of, nothing is asked before it is read. It may
// then be a copy of the file that was looked into, on another host's own disk: of the
// same length, with a state of its own from the first read on.
class DataFile {
 public:
  // keep_open: it counts as read now; otherwise the first read opens it, for sources of
  // more files than stay open. Where file_table() knows it, nothing opens it here.
  // Throws Error(missing_input) when it cannot be opened, Error(bad_content) when it is
  // empty or not a regular file.
  DataFile(const std::string& path, bool keep_open, SourceKind kind);
  ~DataFile();
  DataFile(DataFile&& other) noexcept;
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t size() const { return state_.size; }
  // Fills `out` from byte `begin`. Throws Error(io) when reading fails or the file is no
  // longer what it was.
  void read(std::int64_t begin, std::span<std::byte> out) const;
  // Until the next read.
  void close() const { open_data_files().forget(key_); }
  // What `look` finds out of the file, or file_table() knows already.
  FileFacts facts(const std::function<FileFacts()>& look) const;
  // The same file as HDF5 reads it, open while the result lives. Throws Error(io) when it
  // is no longer what it was.
  std::shared_ptr<const Hdf5File> h5() const;

 private:
  static FileState state_of(int descriptor, const std::string& path);
  std::shared_ptr<OpenFile> opened() const;
  void require_state(const FileState& now) const;
  void adopt_local_file(const FileState& now) const;

  std::string path_;
  SourceKind kind_;
  // Those that were told become this host's own when the file is first opened, which
  // happens under OpenFiles' lock and before any thread compares.
  mutable FileState state_;
  mutable bool state_is_from_rank_0_ = false;
  std::uint64_t key_ = 0;  // in open_data_files(); 0: moved from
};

// The common part of sources of files: where a window, or a row of documents, lies in
// which file.
class TokenStream : public SampleSource {
 public:
  std::int64_t samples() const override {
    return rows_ ? rows_->rows() : (tokens() - 1) / sequence_;
  }
  std::int64_t tokens() const override { return starts_.back(); }
  std::int64_t windows() const override {
    return rows_ ? rows_->rows() : divide_up(tokens() - 1, sequence_);
  }
  SampleMarks marks(std::int64_t index) const override;
  void sample(std::int64_t index, std::span<std::int32_t> tokens) const override;
  std::vector<SamplePart> parts(std::int64_t index) const override;
  std::int64_t kept_bytes() const override { return rows_ ? rows_->bytes() : 0; }
  std::string describe() const override;

 protected:
  TokenStream(std::string kind, std::int64_t sequence);
  // Appends a part. Parts are numbered from 0.
  void add_part(std::int64_t tokens) { starts_.push_back(starts_.back() + tokens); }
  // With all parts there: fits documents into rows where config.packing asks for it.
  // Throws Error(bad_content) when there are too few tokens for one sample, or nothing
  // says where documents end.
  void cut_samples(const SourceConfig& config);
  // Where each document of a part ends, counted from its beginning, where the files say
  // it; nothing: `end_token` does, for which the whole part is read.
  virtual std::optional<std::vector<std::int64_t>> document_ends(
      std::size_t /*part*/) const {
    return {};
  }
  // Where it has_masks(): sets `out`, which is 0, to 1 where a token is no target.
  virtual void read_mask(std::size_t /*part*/, std::int64_t /*begin*/,
                         std::span<std::uint8_t> /*out*/) const {}
  // Fills `out` with the tokens of `part` from `begin`; the range lies in the part.
  virtual void read(std::size_t part, std::int64_t begin,
                    std::span<std::int32_t> out) const = 0;
  virtual std::int64_t bytes() const = 0;
  virtual const std::string& path_of(std::size_t part) const = 0;

 private:
  // Calls body(part, first token in the part, count) for each part of tokens [at, end) of
  // the stream.
  template <class Body>
  void for_each_part(std::int64_t at, std::int64_t end, const Body& body) const;
  // The same of all that a window or row holds.
  template <class Body>
  void for_each_part_of(std::int64_t index, const Body& body) const;
  std::vector<std::int64_t> ends_by_reading(std::size_t part,
                                            std::optional<std::int32_t> end) const;
  void fit_documents(const SourceConfig& config);

  std::string kind_;
  std::int64_t sequence_;
  std::vector<std::int64_t> starts_{0};  // of each part, and the end of the last
  std::optional<BestFitPacking> rows_;   // of packing = best_fit
};

// The files of a path or glob: those of file_table(), if there is one, else expand().
std::vector<std::string> names_of(const std::string& pattern);
// Files of config.paths in order, each of which could be opened, or is in file_table().
std::vector<DataFile> open_files(const SourceConfig& config);

// Throws Error(bad_content), naming the file, unless all of these, of which the first is
// its token `begin`, are of the vocabulary.
void check_tokens(std::span<const std::int32_t> tokens, std::int64_t vocabulary,
                  const std::string& path, std::int64_t begin);

std::unique_ptr<SampleSource> open_bytes(const SourceConfig& config);
std::unique_ptr<SampleSource> open_tokens(const SourceConfig& config);
std::unique_ptr<SampleSource> open_megatron(const SourceConfig& config);
std::unique_ptr<SampleSource> open_llmc(const SourceConfig& config);
std::unique_ptr<SampleSource> open_blend(const SourceConfig& config,
                                         const OpenSource& open);
std::unique_ptr<SampleSource> open_synthetic(const SourceConfig& config);

}  // namespace trireme::io
