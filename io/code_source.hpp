// CodeSource: where a model's tensors are read from as codes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/coded_matrix.hpp"

namespace trireme::io {

// What a TensorSource also is, if it may have tensors as codes.
class CodeSource {
 public:
  CodeSource() = default;
  CodeSource(const CodeSource&) = delete;
  CodeSource& operator=(const CodeSource&) = delete;
  virtual ~CodeSource() = default;

  // Bytes that codes of a box take in memory, where the tensor "model/<name>" of shape
  // `whole` is stored as codes that are fewer bytes than its numbers in 16 bits; else 0.
  // Throws as TensorSource::read().
  virtual std::size_t code_bytes(const std::string& path, const Shape& whole,
                                 const Shape& begin, const Shape& extent) const = 0;
  // The codes of a box that has some, on the host: what they stand for is what
  // TensorSource::read() gives in f32. Throws as that does.
  virtual OwnedCodes read_codes(const std::string& path, const Shape& whole,
                                const Shape& begin, const Shape& extent) const = 0;
  // Whether several threads may call read_codes() at a time.
  virtual bool reads_at_once() const { return false; }
};

}  // namespace trireme::io
