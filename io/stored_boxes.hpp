// Boxes of tensors as they lie in files: dense, their elements one after the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor_view.hpp"
#include "io/plain_file.hpp"

namespace trireme::io {

struct BoxEntry {
  std::string file;
  std::int64_t offset = 0;  // of its first byte in the file
  Shape begin, extent;      // in the tensor
  std::string digest;       // of its bytes as they were in memory
};

// "" if the boxes are parts of a tensor of the shape `whole` that together are every
// element of it once, or what is wrong, naming the tensor and the files of boxes. Extents
// of any size and sign are safe.
std::string why_not_whole(const std::string& tensor, const Shape& whole,
                          const std::vector<BoxEntry>& boxes);

// Files of a folder, and of folders in it, that are opened when they are first read and
// stay open, a few of them at a time, for one thread.
class PlainFiles {
 public:
  explicit PlainFiles(const std::string& folder, Links links = Links::refused)
      : PlainFiles(Directory::to_read(folder), links) {}
  explicit PlainFiles(Directory folder, Links links = Links::refused)
      : folder_(std::move(folder)), links_(links) {}

  // Files have these sizes, by name: what else opens is an error (bad_content).
  void expect(std::map<std::string, std::int64_t> sizes) { sizes_ = std::move(sizes); }

  const std::string& path() const { return folder_.path(); }
  const Directory& folder() const { return folder_; }
  // Throws as PlainFile does.
  const PlainFile& open(const std::string& name);

 private:
  struct Entry {
    Entry(std::string n, PlainFile f) : name(std::move(n)), file(std::move(f)) {}
    std::string name;
    PlainFile file;
  };
  PlainFile opened(const std::string& name) const;

  Directory folder_;
  Links links_;
  std::map<std::string, std::int64_t> sizes_;
  std::list<Entry> entries_;  // the one used last first
};

// Fills `out` (on the host) with the box at `begin` of a tensor of `dtype` elements that
// lies in `boxes`, which why_not_whole() has found to be whole. Reads the bytes of the
// box and no others. Throws as PlainFile does, and Error(internal) unless the elements
// convert.
void read_boxes(PlainFiles& files, const std::vector<BoxEntry>& boxes, DType dtype,
                const Shape& begin, const TensorView& out);

}  // namespace trireme::io
