// Parts of a token file: what some of the input files become, kept beside the result.
// SPDX-License-Identifier: Apache-2.0
// A job that was stopped finds the parts that were whole, and makes the others only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/directory.hpp"
#include "base/temporary_files.hpp"
#include "base/tensor_view.hpp"
#include "io/digest.hpp"

namespace trireme::text {

// What a part holds. `key`: 32 hexadecimal digits of all that it was made from.
struct PartInfo {
  std::string key;
  std::int64_t tokens = 0, documents = 0;
  std::int64_t text_bytes = 0;  // of the documents
};

class PartWriter {
 public:
  // Tokens of `end` behind each document. Throws Error(cannot_create).
  PartWriter(const Directory& folder, const std::string& name, std::string key,
             DType dtype, std::int32_t end);
  void add(std::span<const std::int32_t> ids, std::int64_t text_bytes);
  const PartInfo& info() const { return info_; }
  // Syncs and gives the part its name. Throws Error(io).
  void close();

 private:
  void put(const void* data, std::size_t bytes);
  void put_ids(std::span<const std::int32_t> ids);
  void flush();

  const Directory& folder_;
  std::string name_;
  TemporaryFile unfinished_;
  Descriptor file_;
  DType dtype_;
  std::int32_t end_;
  PartInfo info_;
  io::Digest digest_;
  std::string block_;
  std::vector<std::int64_t> ends_;
};

// The part of this name if it is whole and has the key: the digest of all its bytes is
// compared. Nothing where it is not there or is anything else.
std::optional<PartInfo> find_part(const Directory& folder, const std::string& name,
                                  const std::string& key, DType dtype);

// The same by its footer alone, for what read_part() reads through afterwards.
std::optional<PartInfo> part_info(const Directory& folder, const std::string& name,
                                  const std::string& key, DType dtype);

// Gives the tokens of a part to `take` block by block, and the documents' ends, counted
// from the part's first token. Throws Error(io) where it is not that part.
std::vector<std::int64_t> read_part(const Directory& folder, const std::string& name,
                                    const PartInfo& part, DType dtype,
                                    const std::function<void(const TensorView&)>& take);

}  // namespace trireme::text
