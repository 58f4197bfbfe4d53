// The copy of a shard on its way from one rank to another.
// SPDX-License-Identifier: Apache-2.0
#include "train/copy_message.hpp"

#include <utility>

#include "base/error.hpp"
#include "train/byte_messages.hpp"

namespace trireme::train {
namespace {

comm::Handle send(comm::Group& group, Stream& stream, void* data, std::int64_t bytes,
                  int to) {
  if (bytes == 0) return {};
  return group.send(stream, bytes_of(data, bytes), to);
}

comm::Handle receive(comm::Group& group, Stream& stream, void* data, std::int64_t bytes,
                     int from) {
  if (bytes == 0) return {};
  return group.receive(stream, bytes_of(data, bytes), from);
}

// A handle that is done is given back, so that its staging memory is.
bool is_done(comm::Handle& handle, bool wait) {
  if (!wait && !handle.done()) return false;
  handle.wait();
  return true;
}

}  // namespace

SentCopy::SentCopy(comm::Group& group, int to, std::int64_t step, int shard, int shards,
                   io::ShardCopies::Content content)
    : group_(group),
      to_(to),
      head_{step,
            shard,
            shards,
            static_cast<std::int64_t>(content.texts.manifest.size()),
            static_cast<std::int64_t>(content.texts.index.size()),
            content.file.bytes()},
      texts_(content.texts.manifest + content.texts.index),
      file_(std::move(content.file)) {
  head_sent_ = send(group_, stream_, &head_, sizeof head_, to_);
  answer_ = receive(group_, stream_, &accepted_, 1, to_);
}

SentCopy::SentCopy(comm::Group& group, int to) : group_(group), to_(to), answered_(true) {
  head_sent_ = send(group_, stream_, &head_, sizeof head_, to_);
}

bool SentCopy::begin(bool wait) {
  if (answered_) return true;
  if (!is_done(answer_, wait)) return false;
  answered_ = true;
  if (accepted_ == 0) return true;
  texts_sent_ =
      send(group_, stream_, texts_.data(), static_cast<std::int64_t>(texts_.size()), to_);
  file_sent_ = send(group_, stream_, file_.data(), file_.bytes(), to_);
  return true;
}

bool SentCopy::advance(bool wait) {
  return begin(wait) && is_done(head_sent_, wait) && is_done(texts_sent_, wait) &&
         is_done(file_sent_, wait);
}

ReceivedCopy::ReceivedCopy(comm::Group& group, int from, const io::ShardCopies& copies)
    : group_(group), from_(from), copies_(copies) {
  head_came_ = receive(group_, stream_, &head_, sizeof head_, from_);
}

// The system clears the pages: a quarter of a second a GB.
void ReceivedCopy::take_room() {
  texts_.resize(static_cast<std::size_t>(head_.manifest_bytes + head_.index_bytes));
  if (head_.file_bytes > 0)
    file_ = copies_.create_file(head_.step, static_cast<int>(head_.shard),
                                static_cast<int>(head_.shards), head_.file_bytes);
}

// What is sent then has a place.
void ReceivedCopy::answer() {
  prepared_ = true;
  if (head_.step < 0) return;
  try {
    room_.finish();
    accepted_ = 1;
  } catch (const std::exception&) {  // no room in memory, too
    failure_ = std::current_exception();
  }
  answered_ = send(group_, stream_, &accepted_, 1, from_);
  if (accepted_ == 0) return;
  texts_came_ = receive(group_, stream_, texts_.data(),
                        static_cast<std::int64_t>(texts_.size()), from_);
  file_came_ = receive(group_, stream_, file_.data(), file_.bytes(), from_);
}

bool ReceivedCopy::begin(bool wait) {
  if (prepared_) return true;
  if (!has_head_) {
    if (!is_done(head_came_, wait)) return false;
    has_head_ = true;
    if (head_.step >= 0)
      room_.start([this] { take_room(); },
                  wait ? io::RunIn::caller : io::RunIn::own_thread);
  }
  if (!wait && room_.busy()) return false;
  answer();
  return true;
}

bool ReceivedCopy::advance(bool wait) {
  return begin(wait) && is_done(answered_, wait) && is_done(texts_came_, wait) &&
         is_done(file_came_, wait);
}

void ReceivedCopy::finish() {
  if (failure_) std::rethrow_exception(failure_);
  if (head_.step < 0) return;
  file_ = io::MappedFile();
  const auto cut = static_cast<std::size_t>(head_.manifest_bytes);
  copies_.finish(head_.step, static_cast<int>(head_.shard),
                 {texts_.substr(0, cut), texts_.substr(cut)});
}

}  // namespace trireme::train
