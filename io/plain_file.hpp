// Regular files of one folder, opened without waiting; links are followed on request.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "base/directory.hpp"

namespace trireme::io {

class Digest;

// Whether a name may be a link to the file. Download caches make folders of links.
enum class Links : bool { refused, followed };

// Is it the name of an entry of a folder: no '/', no zero byte, neither "." nor ".."?
bool is_plain_name(const std::string& name);

// A regular file in a folder, open for reading by one thread at a time. What is read is
// what was opened, whatever happens to the name meanwhile.
class PlainFile {
 public:
  // Throws Error(bad_content), naming the file, when `name` is no plain name or there is
  // no such file, when it is a named pipe or a device, or a link (unless those are
  // followed, to a regular file); Error(missing_input) without the right to read it;
  // Error(io) when opening fails otherwise. `bytes`: the size that it must have, -1: any.
  // A file that has it is not asked for anything else, for file systems with many ranks.
  PlainFile(const Directory& folder, const std::string& name,
            Links links = Links::refused, std::int64_t bytes = -1);

  const std::string& path() const { return path_; }
  int descriptor() const { return file_.get(); }
  // The size is that of the file when it was opened.
  std::int64_t size() const { return size_; }

  // Fills `out` from byte `begin` on. Throws Error(io), and Error(bad_content) when the
  // file ends before.
  void read(std::int64_t begin, std::span<std::byte> out) const;
  // Adds `bytes` bytes from `begin` on to each digest. Throws as read() does.
  void digest(std::int64_t begin, std::int64_t bytes,
              std::initializer_list<Digest*> digests) const;
  // The text of the digest of all that it holds. Throws as read() does.
  std::string digest() const;
  // The whole file. Throws Error(bad_content) above `limit` bytes.
  std::string text(std::int64_t limit) const;

 private:
  std::string path_;
  Descriptor file_;
  std::int64_t size_ = 0;
  mutable std::unique_ptr<std::byte[]> block_;
};

}  // namespace trireme::io
