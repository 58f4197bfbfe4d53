// Placement: which weights lie on the device, in host memory and on disk, as plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/split.hpp"
#include "io/tensor_source.hpp"
#include "model/stage.hpp"

namespace trireme::infer {

// Where weights wait until they are used. device: where they are used (on hosts: in host
// memory). host: in host memory, to be copied to a GPU. disk: in the model's own files.
enum class Tier : std::uint8_t { device, host, disk };

// Weights that lie together: a block, or one tensor of the embedding or of the head. Tied
// weights are one piece.
struct Piece {
  std::string name;          // "block 3", or the tensor's
  std::int64_t layer = 0;    // of a block; -1: the embedding's, layers: the head's
  bool in_head_too = false;  // tied
  std::vector<std::string> tensors;  // whole tensors of the model
  std::int64_t bytes = 0;            // on this rank
  std::int64_t buffer_bytes = 0;     // the same in a stream buffer, padding included
  std::int64_t code_bytes = 0;       // of `bytes`, those of weights that are codes
};

// What a Param of so many bytes takes of a stream buffer: each begins at a multiple of
// 64 bytes.
constexpr std::int64_t buffer_bytes(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

// The pieces of a whole model, in the order of forward. Nothing is allocated. codes: from
// which weights are codes, where it has some; null: all are numbers.
std::vector<Piece> pieces_of(const model::ModelConfig& config, DType compute,
                             const parallel::TensorRegion& region,
                             const io::TensorSource* codes = nullptr);

// Bytes that the weights of one rank may take: those that stay, and the buffers that
// others are streamed through. Below 0: none (there is no such memory).
struct TierLimits {
  std::int64_t device = -1, host = -1;
};

// The weights of one stage.
struct StagePlacement {
  Range blocks;
  std::vector<Tier> of_pieces;  // of all pieces of the model, as far as they are here
  // The buffers that weights of the host and of the disk are streamed through, in bytes.
  std::int64_t device_buffer_bytes = 0, host_buffer_bytes = 0;

  bool streams() const { return device_buffer_bytes > 0; }
};

struct Placement {
  std::vector<Piece> pieces;
  std::vector<StagePlacement> stages;
};

// Whether a stage with these blocks has the piece; tied weights two stages may have.
bool has_piece(const Placement& placement, std::size_t stage, std::size_t piece);
// Bytes of a stage's weights in a tier.
std::int64_t bytes_in(const Placement& placement, std::size_t stage, Tier tier);

// Bytes that each pass of the model brings to this stage from a tier: those of both uses
// of tied weights, and none where each streamed module keeps its buffer.
std::int64_t bytes_of_pass(const Placement& placement, std::size_t stage, Tier tier);

// How blocks are shared out over stages. balanced: so that the largest stage is as small
// as it can be. balanced_low_0: the same of all stages but the first, which has as few
// blocks as the others leave it. sequential: each stage is filled before the next.
enum class Strategy : std::uint8_t { balanced, balanced_low_0, sequential };

std::vector<Range> cut_stages(const std::vector<Piece>& pieces,
                              std::span<const TierLimits> limits, Strategy strategy);

// Places the pieces of each stage: on the device as long as they fit beside the buffers
// that the others are streamed through, then in host memory (`host`: there is one beside
// the device), then on disk. A piece lies no higher than those before it, in the order of
// forward (sequential) or in that order of embedding, blocks and head with which the
// fewest bytes come from the disk, and then from the host. There are two buffers of the
// size of the largest streamed module, even where a limit is smaller than that.
Placement place_by_limits(std::vector<Piece> pieces, const std::vector<Range>& blocks,
                          std::span<const TierLimits> limits, bool host,
                          Strategy strategy);

// Writes the bytes of the stage's stream buffers (device_buffer_bytes,
// host_buffer_bytes), from the tiers of its pieces.
void plan_stream_buffers(const std::vector<Piece>& pieces, StagePlacement& stage,
                         bool first, bool last, bool host);

}  // namespace trireme::infer
