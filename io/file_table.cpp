// FileTable: what is known of files, as bytes for other ranks and for the disk.
// SPDX-License-Identifier: Apache-2.0
#include "io/file_table.hpp"

#include <utility>

#include "base/error.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"
#include "io/table_bytes.hpp"

namespace trireme::io {
namespace {

constexpr std::string_view title = "trireme data index 1 ";
constexpr std::size_t digest_letters = 32;
constexpr std::int64_t longest_index = std::int64_t{1} << 30;

thread_local FileTable* in_use = nullptr;

FileState read_state(TableReader& reader) {
  FileState state;
  state.size = reader.number<std::int64_t>();
  state.modified_ns = reader.number<std::int64_t>();
  state.inode = reader.number<std::uint64_t>();
  return state;
}

FileFacts read_facts(TableReader& reader) {
  FileFacts facts;
  facts.tokens = reader.number<std::int64_t>();
  facts.begin = reader.number<std::int64_t>();
  facts.end_token = reader.number<std::int64_t>();
  const auto dtype = reader.number<std::uint8_t>();
  facts.masked = reader.number<std::uint8_t>() != 0;
  facts.tokenizer_digest = reader.word();
  facts.dtype = static_cast<DType>(dtype);
  // What sources compute with has to be possible.
  require(facts.tokens >= 0 && facts.begin >= 0 &&
              (facts.dtype == DType::u8 || facts.dtype == DType::u16 ||
               facts.dtype == DType::i32 || facts.dtype == DType::i64),
          Status::bad_content, "a table of files has an entry that no file makes");
  return facts;
}

}  // namespace

FileTable FileTable::read(std::string_view text) {
  FileTable table;
  TableReader reader(text);
  for (std::uint64_t patterns = reader.count(); patterns > 0; --patterns) {
    auto& names = table.names_[reader.word()];
    for (std::uint64_t left = reader.count(); left > 0; --left)
      names.push_back(reader.word());
  }
  for (std::uint64_t files = reader.count(); files > 0; --files) {
    const auto kind = reader.number<std::uint8_t>();
    require(kind <= static_cast<std::uint8_t>(SourceKind::synthetic), Status::bad_content,
            "a table of files has an entry of no kind");
    std::string path = reader.word();
    const FileState state = read_state(reader);
    table.files_[{static_cast<SourceKind>(kind), std::move(path)}] = {
        state, read_facts(reader), false};
  }
  require(reader.at_end(), Status::bad_content,
          "a table of files goes on behind its end");
  return table;
}

FileTable FileTable::told(std::string_view text) {
  FileTable table = read(text);
  table.told_ = true;
  return table;
}

// Which files a pattern has may have changed.
FileTable FileTable::kept(std::string_view text) {
  FileTable table = read(text);
  table.names_.clear();
  return table;
}

std::vector<std::string> FileTable::names(const std::string& pattern) {
  const auto known = names_.find(pattern);
  if (known != names_.end()) return known->second;
  require(!told_, "nobody told which files {} has", pattern);
  return names_[pattern] = expand(pattern);
}

const FileState* FileTable::find(SourceKind kind, const std::string& path) {
  const auto known = files_.find({kind, path});
  if (known == files_.end()) {
    require(!told_, "nobody told of the file {}", path);
    return nullptr;
  }
  known->second.used = true;
  return &known->second.state;
}

std::optional<FileFacts> FileTable::facts(SourceKind kind, const std::string& path,
                                          const FileState& now) const {
  const auto known = files_.find({kind, path});
  if (known == files_.end() || known->second.state != now) return {};
  return known->second.facts;
}

void FileTable::set(SourceKind kind, const std::string& path, const FileState& state,
                    const FileFacts& facts) {
  files_[{kind, path}] = {state, facts, true};
  new_ = true;
  if (on_file_read_) on_file_read_();
}

std::size_t FileTable::used() const {
  std::size_t files = 0;
  for (const auto& [key, entry] : files_) files += entry.used ? 1 : 0;
  return files;
}

std::string FileTable::text() const {
  TableWriter out;
  out.number(std::uint64_t{names_.size()});
  for (const auto& [pattern, names] : names_) {
    out.word(pattern);
    out.number(std::uint64_t{names.size()});
    for (const std::string& name : names) out.word(name);
  }
  out.number(std::uint64_t{used()});
  for (const auto& [key, entry] : files_) {
    if (!entry.used) continue;
    out.number(static_cast<std::uint8_t>(key.first));
    out.word(key.second);
    out.number(entry.state.size);
    out.number(entry.state.modified_ns);
    out.number(entry.state.inode);
    out.number(entry.facts.tokens);
    out.number(entry.facts.begin);
    out.number(entry.facts.end_token);
    out.number(static_cast<std::uint8_t>(entry.facts.dtype));
    out.number(static_cast<std::uint8_t>(entry.facts.masked ? 1 : 0));
    out.word(entry.facts.tokenizer_digest);
  }
  return std::move(out.text);
}

FileTableInUse::FileTableInUse(FileTable& table)
    : before_(std::exchange(in_use, &table)) {}

FileTableInUse::~FileTableInUse() { in_use = before_; }

FileTable* file_table() { return in_use; }

void keep_files(const std::string& path, const FileTable& table) {
  const std::string text = table.text();
  write_text_atomically(path, std::string(title) + digest_of(text) + "\n" + text);
}

FileTable kept_files(const std::string& path, std::string& problem) try {
  const Directory folder(parent_of(path));
  if (!folder.has(last_name_of(path))) return {};
  const std::string whole = read_text(folder, last_name_of(path), longest_index);
  const std::size_t head = title.size() + digest_letters + 1;
  require(whole.size() >= head && whole.starts_with(title), Status::bad_content,
          "{}: is no index of data of this version", path);
  const std::string_view text = std::string_view(whole).substr(head);
  require(whole.compare(title.size(), digest_letters, digest_of(text)) == 0,
          Status::bad_content, "{}: is damaged", path);
  return FileTable::kept(text);
} catch (const Error& error) {
  problem = error.what();
  return {};
}

}  // namespace trireme::io
