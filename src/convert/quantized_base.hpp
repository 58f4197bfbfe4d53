// QuantizedBase: the model of adapters, whose weights are codes that are made of numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "io/checkpoint.hpp"
#include "io/code_source.hpp"
#include "io/tensor_source.hpp"
#include "model/base_codes.hpp"

namespace trireme::convert {

// Codes of a box are those that the whole matrix would have there, whatever box is asked
// for; numbers are what the codes stand for. Other tensors are those of the source.
class QuantizedBase : public io::TensorSource, public io::CodeSource {
 public:
  // type_of: of a tensor "model/<name>", to which decoded numbers are rounded.
  QuantizedBase(std::shared_ptr<const io::TensorSource> numbers, model::BaseCodes kind,
                std::function<DType(const std::string& path)> type_of);

  void read(const std::string& path, const Shape& whole, const Shape& begin,
            const TensorView& out) const override;
  std::size_t code_bytes(const std::string& path, const Shape& whole, const Shape& begin,
                         const Shape& extent) const override;
  OwnedCodes read_codes(const std::string& path, const Shape& whole, const Shape& begin,
                        const Shape& extent) const override;
  // Its source is read by one at a time, codes are made by all.
  bool reads_at_once() const override { return true; }

 private:
  struct Box;
  // Rows of the whole matrix.
  Buffer read_rows(const Box& box, std::int64_t first, std::int64_t height) const;
  void make_blocks(const Box& box, OwnedCodes& out) const;
  void make_rows(const Box& box, OwnedCodes& out) const;

  std::shared_ptr<const io::TensorSource> numbers_;
  mutable std::mutex reading_;  // of numbers_
  model::BaseCodes kind_;
  std::function<DType(const std::string&)> type_of_;
};

// What a run with adapters and adapter.quantize holds beside them. Both are one object.
struct CodedBase {
  std::shared_ptr<const io::TensorSource> tensors;
  std::shared_ptr<const io::CodeSource> codes;
};

// Opens what model.from names, with codes of a kind that is not none. Throws as the
// readers do, and Error(bad_content) where the folder stores none, or has its own
// already.
CodedBase open_coded_base(const std::string& path, model::BaseCodes kind);

// A checkpoint of a run that had such a base: what it lacks is the base's.
class CheckpointOnBase : public io::TensorSource, public io::CodeSource {
 public:
  CheckpointOnBase(std::shared_ptr<const io::CheckpointReader> checkpoint, CodedBase base)
      : checkpoint_(std::move(checkpoint)), base_(std::move(base)) {}

  void read(const std::string& path, const Shape& whole, const Shape& begin,
            const TensorView& out) const override;
  std::size_t code_bytes(const std::string& path, const Shape& whole, const Shape& begin,
                         const Shape& extent) const override;
  OwnedCodes read_codes(const std::string& path, const Shape& whole, const Shape& begin,
                        const Shape& extent) const override;

 private:
  std::shared_ptr<const io::CheckpointReader> checkpoint_;
  CodedBase base_;
};

}  // namespace trireme::convert
