// BlockCache: keys, values and states of many texts, in blocks that texts take and give.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "infer/loaded_model.hpp"
#include "kernels/paged_attention.hpp"

namespace trireme::infer {

// Which layers share the numbers of blocks: those that see all positions (window 0), and
// those of each window, whose texts give blocks back that no position sees any more.
struct CacheGroup {
  std::int64_t window = 0;
  std::int64_t blocks = 0;
};

// The windows of a model's layers with a cache, without duplicates, 0 first.
std::vector<std::int64_t> cache_windows(const model::ModelConfig& model);

// Elements as codes (u8 for int8), or in a floating type.
struct CacheType {
  DType type = DType::f32;
  bool codes() const { return type == DType::e4m3 || type == DType::u8; }
};

// Of this rank: width of a row of keys, heads in it (for scales), and whether values are
// the keys (latent attention).
struct CacheRows {
  std::int64_t width = 0, heads = 1;
  bool values_are_keys = false;
};
CacheRows cache_rows(const LoadedModel& model);

// What a layer of this rank keeps of one text in a model with linear attention: the last
// inputs of the convolution [taps - 1, channels], in the model's type, and the state of
// the delta rule [value heads, key width x value width], in accumulator_of() that type.
struct StateShapes {
  Shape tail, state;
};
StateShapes state_shapes(const LoadedModel& model);

// Bytes of one block of each group on this rank, over the layers of this stage.
std::vector<std::int64_t> block_bytes(const LoadedModel& model, CacheType type,
                                      std::int64_t positions);

class BlockCache {
 public:
  // positions: of a block. texts: most at a time, for layers that keep a state.
  BlockCache(const LoadedModel& model, CacheType type, std::int64_t positions,
             const std::vector<CacheGroup>& groups, std::int64_t texts);

  struct Layer {
    std::size_t group = 0;
    kernels::PagedCache cache{};
    // Of a layer that keeps a state: rows of one text, those of all texts.
    std::int64_t tail_rows = 0, state_rows = 0;
    TensorView tails{}, states{};
    bool recurrent() const { return state_rows > 0; }
    parallel::RecurrentState state_of(std::int64_t text) const {
      return {{},
              tail_rows > 0 ? tails.rows(text * tail_rows, tail_rows) : TensorView{},
              states.rows(text * state_rows, state_rows)};
    }
  };
  const std::vector<Layer>& layers() const { return layers_; }  // of this stage
  std::int64_t positions() const { return positions_; }
  // Sets what a text's recurrent layers keep to 0.
  void clear(Stream& stream, std::int64_t text) const;
  std::size_t bytes() const;

 private:
  TensorView take(DType dtype, const Shape& shape, const char* label);
  void add_recurrent(const LoadedModel& model, std::int64_t texts);

  std::int64_t positions_;
  Device device_;
  std::vector<Layer> layers_;
  std::vector<Buffer> buffers_;
};

// Numbers of free blocks; the lowest is taken first, so that every rank takes the same.
class BlockPool {
 public:
  explicit BlockPool(Range blocks) {
    for (std::int64_t i = blocks.end; i-- > blocks.begin;)
      free_.push_back(static_cast<std::int32_t>(i));
  }
  std::optional<std::int32_t> take() {
    if (free_.empty()) return {};
    const std::int32_t block = free_.back();
    free_.pop_back();
    return block;
  }
  void give(std::int32_t block) { free_.push_back(block); }
  std::int64_t left() const { return static_cast<std::int64_t>(free_.size()); }

 private:
  std::vector<std::int32_t> free_;
};

}  // namespace trireme::infer
