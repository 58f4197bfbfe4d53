// Operation: what one call, or one group of calls, has a device do for a communicator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda_emulation/nccl/segment.hpp"

namespace trireme::cuda_emulation::nccl {

enum class Kind : std::uint32_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  reduce,
  broadcast,
  point_to_point
};
const char* name_of(Kind kind);

// What precedes the bytes of a message, so that ranks that do not agree are found.
struct Header {
  Kind kind = Kind::point_to_point;
  std::uint32_t type = 0, reduction = 0;
  std::uint64_t bytes = 0;
  bool captured = false;  // launched by a graph: all ranks of a communicator or none
  bool operator==(const Header&) const = default;
};

// A call, as it was made.
struct Call {
  Kind kind = Kind::point_to_point;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;  // of elements, as NCCL counts them for this call
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t reduction = ncclSum;
  int peer = 0;  // root, or the other rank
  bool captured = false;
};

// Bytes of one element; 0 for a type that is not known.
std::size_t size_of(ncclDataType_t type);

// The messages of some calls, and what follows them. A message has left when the other
// rank has taken all of it: a send waits for its receive, whatever its size, which is the
// strictest of what NCCL may do.
class Operation {
 public:
  Operation(Segment& segment, int rank, int size)
      : segment_(segment), rank_(rank), size_(size) {}

  void add(const Call& call);
  // Moves what can be moved; true when all has ended and the results are written.
  bool move();
  // "all_reduce; receive from 3", of what has not ended.
  std::string describe() const;

 private:
  struct Message {
    Header header;
    int peer = 0;
    bool sends = false;
    char* data = nullptr;
    std::size_t moved = 0;  // of header and data
    std::uint64_t end = 0;  // in the ring, of a message that has been written
    Header come{};          // read so far
    bool ended = false;
  };
  // What a rank's part of a sum comes in.
  struct Sum {
    Call call;
    std::size_t bytes = 0;
    std::vector<std::vector<char>> parts;  // by rank; its own is empty
    const char* own = nullptr;
  };

  void send(const Call& call, const void* data, std::size_t bytes, int peer);
  void receive(const Call& call, void* data, std::size_t bytes, int peer);
  void add_sum(const Call& call);
  bool move(Message& message);
  void check(const Message& message) const;
  void write(const Sum& sum) const;

  Segment& segment_;
  int rank_, size_;
  std::vector<Message> messages_;
  std::vector<std::unique_ptr<Sum>> sums_;
  std::vector<std::function<void()>> copies_;  // within this rank
};

}  // namespace trireme::cuda_emulation::nccl
