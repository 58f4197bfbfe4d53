// FileTable: what sources have found out of their files, so that others need not look.
// SPDX-License-Identifier: Apache-2.0
// Many ranks open the same files: one of them looks, and tells the others, which then
// open only what they read. What was found may also be kept for the next start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.hpp"
#include "io/sample_source.hpp"

namespace trireme::io {

// By which a file is known to be the one that was looked into.
struct FileState {
  std::int64_t size = 0, modified_ns = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileState&) const = default;
};

// What a kind of source reads of a file before it reads tokens; it sets what it has.
struct FileFacts {
  std::int64_t tokens = 0;
  std::int64_t begin = 0;          // byte of the first token
  std::int64_t end_token = -1;     // -1: the file does not say
  DType dtype = DType::u16;        // of tokens
  bool masked = false;             // it says which of its tokens are targets
  std::string tokenizer_digest{};  // of what made it; empty: the file does not say
  bool operator==(const FileFacts&) const = default;
};

// For one thread.
class FileTable {
 public:
  FileTable() = default;
  // Of text() of another rank: files are as it says, and none is looked at.
  static FileTable told(std::string_view text);
  // Of text() of an earlier start: what it says of a file holds while the file is as it
  // was. Both throw Error(bad_content) for any other text.
  static FileTable kept(std::string_view text);

  // Nobody is to look at files.
  bool is_told() const { return told_; }
  // The files of a pattern: as told, or by expand().
  std::vector<std::string> names(const std::string& pattern);
  // The state of a file of which there are facts. Throws Error(internal) where it was to
  // be told and was not.
  const FileState* find(SourceKind kind, const std::string& path);
  // Nothing if there are none, or the file was another then.
  std::optional<FileFacts> facts(SourceKind kind, const std::string& path,
                                 const FileState& now) const;
  void set(SourceKind kind, const std::string& path, const FileState& state,
           const FileFacts& facts);

  // Calls `on_file_read` for each file that is set from now on.
  void set_file_callback(std::function<void()> on_file_read) {
    on_file_read_ = std::move(on_file_read);
  }

  std::size_t files() const { return files_.size(); }
  // Those that were asked for or set.
  std::size_t used() const;
  // Whether it has something that it was not made of.
  bool is_new() const { return new_; }
  // Of what was asked for or set. Any bytes.
  std::string text() const;

 private:
  struct Entry {
    FileState state;
    FileFacts facts;
    bool used = false;
  };
  using Key = std::pair<SourceKind, std::string>;

  static FileTable read(std::string_view text);

  bool told_ = false, new_ = false;
  std::function<void()> on_file_read_;
  std::map<std::string, std::vector<std::string>> names_;  // by pattern
  std::map<Key, Entry> files_;
};

// While it lives, sources that this thread opens ask the table and add to it. (What is
// known of files is no setting of a source, so it is no part of SourceConfig.)
class FileTableInUse {
 public:
  explicit FileTableInUse(FileTable& table);
  ~FileTableInUse();
  FileTableInUse(const FileTableInUse&) = delete;
  FileTableInUse& operator=(const FileTableInUse&) = delete;

 private:
  FileTable* before_;
};
// Null: sources look for themselves.
FileTable* file_table();

// A table on the disk: text() behind a line with its digest. keep_files() throws as
// write_text_atomically(); kept_files() gives an empty table, and says why in `problem`,
// where the file is there and cannot be used.
void keep_files(const std::string& path, const FileTable& table);
FileTable kept_files(const std::string& path, std::string& problem);

}  // namespace trireme::io
