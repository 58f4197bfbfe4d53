// DynamicMoments: moments of 8 bits with the largest magnitude of each 256 elements.
// SPDX-License-Identifier: Apache-2.0
// As bitsandbytes' 8-bit optimizers keep them: first moments in the signed dynamic type,
// second ones in the unsigned; tensors of few elements in fp32.
// docs/decisions/low-precision-state.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory.hpp"
#include "kernels/dynamic_blocks.hpp"
#include "optim/store_context.hpp"

namespace trireme::optim {

// Blocks are those of the whole tensor, wherever ranks cut it. A flat parameter is
// updated in turns: start(), note() all of its new moments, agree(), then store() them. A
// rank keeps the magnitudes of the blocks that its shard has a part of; those of all
// blocks of one flat parameter are there between start() and the next one.
class DynamicMoments {
 public:
  // Tensors of fewer elements stay in fp32. Source: bitsandbytes, min_8bit_size.
  static constexpr std::int64_t least_coded = 4096;

  // No memory: not in use.
  DynamicMoments() = default;
  // states: how many moments are kept, one or two.
  DynamicMoments(StoreContext& context, Device device, std::size_t states);

  bool in_use() const { return !parts_.empty(); }
  // Whether a tensor's moments are codes.
  static bool codes(const TensorRange& tensor) {
    return tensor.named->whole.elements() >= least_coded;
  }

  void start(const FlatParameter& flat);
  // values: f32, moment `state` of elements [part) of a tensor in this rank's shard.
  void note(std::size_t state, const FlatParameter& flat, const TensorRange& tensor,
            Range part, const TensorView& values);
  // Collective over the ranks that have parts of the flat parameter's tensors.
  void agree(const FlatParameter& flat);
  // codes: u8, written, but for tensors that stay in fp32.
  void store(std::size_t state, const FlatParameter& flat, const TensorRange& tensor,
             Range part, const TensorView& values, const TensorView& codes);
  // Those of all blocks are kept: after the last store() of a flat parameter.
  void keep(const FlatParameter& flat);
  // values = what store() left, at the magnitudes that are kept.
  void load(std::size_t state, const FlatParameter& flat, const TensorRange& tensor,
            Range part, const TensorView& codes, const TensorView& values);

  // Boxes of a moment in the shard of codes of each flat parameter, and of magnitudes,
  // which are vectors of a number for each block.
  void append_boxes(std::size_t state, const FlatParameter& flat, const TensorView& codes,
                    std::int64_t& owned, std::vector<StateBox>& boxes) const;
  void append_scales(std::size_t state, std::vector<StateBox>& boxes) const;

  // Of magnitudes and of moments in fp32, all on the device.
  std::size_t bytes() const;
  std::size_t workspace_bytes() const { return all_.bytes(); }

 private:
  // What is this rank's of a TensorRange.
  struct Part {
    Range shard;             // elements of the flat parameter
    Range blocks;            // of the tensor
    std::int64_t begin = 0;  // in absmax_, or of an fp32 moment in plain_
    std::int64_t all = 0;    // where all blocks of the tensor begin in all_
  };
  struct FlatParts {
    std::vector<Part> parts;  // as FlatParameter::tensors
    std::int64_t blocks = 0;  // of all its tensors, once each
  };

  FlatParts parts_of(const FlatParameter& flat);
  const Part& part_of(const FlatParameter& flat, const TensorRange& tensor) const;
  TensorView all_of(std::size_t state, const FlatParameter& flat,
                    const TensorRange& tensor) const;
  TensorView kept_of(std::size_t state, const Part& part) const {
    return absmax_[state].view().rows(part.begin, part.blocks.count());
  }
  TensorView plain_of(std::size_t state, const Part& part, Range elements) const {
    return plain_[state].view().rows(part.begin + elements.begin - part.shard.begin,
                                     elements.count());
  }

  StoreContext* context_ = nullptr;
  std::size_t states_ = 0;
  std::int64_t kept_ = 0, plain_elements_ = 0;  // of each state
  std::vector<FlatParts> parts_;                // as FlatLayout::flats
  std::vector<NamedBox> names_;                 // of each tensor's magnitudes
  std::array<Buffer, most_states> absmax_;      // of blocks that this rank has parts of
  std::array<Buffer, most_states> plain_;       // moments in fp32
  Buffer all_;  // all blocks of one flat parameter, for each state
};

}  // namespace trireme::optim
