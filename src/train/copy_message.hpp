// The copy of a shard on its way from one rank to another.
// SPDX-License-Identifier: Apache-2.0
// A head says what comes; the receiver takes the room for it, in a thread beside
// training, and answers; then come the texts and the file, out of one node's memory into
// the other's.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "base/device.hpp"
#include "comm/group.hpp"
#include "io/background.hpp"
#include "io/shard_copies.hpp"

namespace trireme::train {

// What comes; step -1: nothing.
struct CopyHead {
  std::int64_t step = -1, shard = 0, shards = 0;
  std::int64_t manifest_bytes = 0, index_bytes = 0, file_bytes = 0;
};

// One at a time from a rank to another. begin() moves it on until the file is under way,
// advance() until its end; both are true when that is so, and block only with `wait`. A
// rank that sends to one and receives from another begins both before it waits for
// either.
class SentCopy {
 public:
  // `to`: a rank of the group.
  SentCopy(comm::Group& group, int to, std::int64_t step, int shard, int shards,
           io::ShardCopies::Content content);
  // Tells that nothing comes.
  SentCopy(comm::Group& group, int to);
  bool begin(bool wait);
  bool advance(bool wait);

 private:
  comm::Group& group_;
  int to_ = 0;
  Stream stream_;
  CopyHead head_;
  std::string texts_;
  io::MappedFile file_;
  std::uint8_t accepted_ = 0;
  bool answered_ = false;
  comm::Handle head_sent_, answer_, texts_sent_, file_sent_;  // last: they use the others
};

class ReceivedCopy {
 public:
  ReceivedCopy(comm::Group& group, int from, const io::ShardCopies& copies);
  ReceivedCopy(const ReceivedCopy&) = delete;
  ReceivedCopy& operator=(const ReceivedCopy&) = delete;
  bool begin(bool wait);
  bool advance(bool wait);
  // After the end: the copy counts from here on, if one came. Throws Error, also where it
  // had no room.
  void finish();

 private:
  void take_room();
  void answer();

  comm::Group& group_;
  int from_ = 0;
  const io::ShardCopies& copies_;
  Stream stream_;
  CopyHead head_;
  std::string texts_;
  io::MappedFile file_;
  std::uint8_t accepted_ = 0;
  bool has_head_ = false, prepared_ = false;
  std::exception_ptr failure_;
  comm::Handle head_came_, answered_, texts_came_, file_came_;
  io::Background room_;  // last: its thread uses the others
};

}  // namespace trireme::train
