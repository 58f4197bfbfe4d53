// Operation: messages between the ranks, and sums in the order of ranks.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/nccl/operation.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/cuda_emulation/fail.hpp"

namespace trireme::cuda_emulation::nccl {
namespace {

// The sum, or the largest, of the ranks' elements: added in the accumulator's type in the
// order of ranks and rounded once, as the host's collectives do, so that results can be
// compared to the bit. NCCL itself has an order of its own.
template <class T, class Accumulator>
void reduce(char* to, const std::vector<const char*>& parts, std::size_t count,
            bool largest) {
  for (std::size_t i = 0; i < count; ++i) {
    Accumulator sum{};
    for (std::size_t p = 0; p < parts.size(); ++p) {
      T element;
      std::memcpy(&element, parts[p] + i * sizeof(T), sizeof(T));
      const auto x = static_cast<Accumulator>(static_cast<Accumulator>(element));
      if (p == 0)
        sum = x;
      else
        sum = largest ? (x > sum ? x : sum) : sum + x;
    }
    const T rounded = static_cast<T>(sum);
    std::memcpy(to + i * sizeof(T), &rounded, sizeof(T));
  }
}

void reduce(ncclDataType_t type, char* to, const std::vector<const char*>& parts,
            std::size_t count, bool largest) {
  switch (type) {
    case ncclFloat64: return reduce<double, double>(to, parts, count, largest);
    case ncclFloat32: return reduce<float, float>(to, parts, count, largest);
    case ncclFloat16: return reduce<__half, float>(to, parts, count, largest);
    case ncclBfloat16: return reduce<__nv_bfloat16, float>(to, parts, count, largest);
    default: fail("NCCL: a sum of a type that the emulation does not add");
  }
}

std::string in_words(const Header& header) {
  return std::string(header.captured ? "recorded " : "") + name_of(header.kind) + " of " +
         std::to_string(header.bytes) + " bytes of type " + std::to_string(header.type);
}

char* at(const void* data, std::size_t offset) {
  return const_cast<char*>(static_cast<const char*>(data)) + offset;
}

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::all_reduce: return "all-reduce";
    case Kind::reduce_scatter: return "reduce-scatter";
    case Kind::all_gather: return "all-gather";
    case Kind::reduce: return "reduce";
    case Kind::broadcast: return "broadcast";
    case Kind::point_to_point: return "message";
  }
  return "call";
}

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 0;
  }
}

void Operation::send(const Call& call, const void* data, std::size_t bytes, int peer) {
  messages_.push_back(
      {.header = {call.kind, static_cast<std::uint32_t>(call.type),
                  static_cast<std::uint32_t>(call.reduction), bytes, call.captured},
       .peer = peer,
       .sends = true,
       .data = at(data, 0)});
}

void Operation::receive(const Call& call, void* data, std::size_t bytes, int peer) {
  send(call, data, bytes, peer);
  messages_.back().sends = false;
}

void Operation::add_sum(const Call& call) {
  const std::size_t bytes = call.count * size_of(call.type);
  const bool scatters = call.kind == Kind::reduce_scatter;
  const auto part = [&](int rank) {
    return at(call.from, scatters ? bytes * static_cast<std::size_t>(rank) : 0);
  };
  auto sum = std::make_unique<Sum>();
  sum->call = call;
  sum->bytes = bytes;
  sum->own = part(rank_);
  sum->parts.resize(static_cast<std::size_t>(size_));
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    std::vector<char>& come = sum->parts[static_cast<std::size_t>(peer)];
    come.resize(bytes);
    if (call.kind != Kind::reduce) send(call, part(peer), bytes, peer);
    receive(call, come.data(), bytes, peer);
  }
  sums_.push_back(std::move(sum));
}

void Operation::add(const Call& call) {
  const std::size_t bytes = call.count * size_of(call.type);
  switch (call.kind) {
    case Kind::all_reduce:
    case Kind::reduce_scatter: return add_sum(call);
    case Kind::reduce:
      if (rank_ != call.peer) return send(call, call.from, bytes, call.peer);
      return add_sum(call);
    case Kind::all_gather:
      for (int peer = 0; peer < size_; ++peer) {
        char* const place = at(call.to, bytes * static_cast<std::size_t>(peer));
        if (peer == rank_) {
          copies_.push_back([=] { std::memmove(place, call.from, bytes); });
        } else {
          send(call, call.from, bytes, peer);
          receive(call, place, bytes, peer);
        }
      }
      return;
    case Kind::broadcast:
      if (rank_ != call.peer) return receive(call, call.to, bytes, call.peer);
      copies_.push_back([=] { std::memmove(call.to, call.from, bytes); });
      for (int peer = 0; peer < size_; ++peer) {
        if (peer != rank_) send(call, call.from, bytes, peer);
      }
      return;
    case Kind::point_to_point:
      if (call.from != nullptr) return send(call, call.from, bytes, call.peer);
      return receive(call, call.to, bytes, call.peer);
  }
}

void Operation::check(const Message& message) const {
  if (message.come == message.header) return;
  fail("NCCL: ranks of a communicator do not agree: rank " + std::to_string(rank_) +
       " has a " + in_words(message.header) + ", rank " + std::to_string(message.peer) +
       " a " + in_words(message.come));
}

bool Operation::move(Message& message) {
  auto& ring = message.sends ? segment_.rings[static_cast<std::size_t>(rank_)]
                                             [static_cast<std::size_t>(message.peer)]
                             : segment_.rings[static_cast<std::size_t>(message.peer)]
                                             [static_cast<std::size_t>(rank_)];
  const std::size_t whole = sizeof(Header) + message.header.bytes;
  const std::size_t before = message.moved;
  while (message.moved < whole) {
    const bool head = message.moved < sizeof(Header);
    const std::size_t offset = head ? message.moved : message.moved - sizeof(Header);
    const std::size_t left = (head ? sizeof(Header) : message.header.bytes) - offset;
    char* const data =
        head ? reinterpret_cast<char*>(message.sends ? &message.header : &message.come)
             : message.data;
    const std::size_t moved =
        message.sends ? ring.write(data + offset, left) : ring.take(data + offset, left);
    message.moved += moved;
    if (head && message.moved == sizeof(Header) && !message.sends) check(message);
    if (moved < left) break;
  }
  if (message.moved != before) note_progress();
  if (message.moved < whole) return false;
  if (message.sends && message.end == 0) message.end = ring.written.load();
  return !message.sends || ring.read.load() >= message.end;
}

// Messages to one peer, and those from it, move one after another.
bool Operation::move() {
  bool all = true;
  std::vector<std::pair<int, bool>> held;
  for (Message& message : messages_) {
    if (message.ended) continue;
    const std::pair<int, bool> way{message.peer, message.sends};
    const bool is_held = std::find(held.begin(), held.end(), way) != held.end();
    if (!is_held) message.ended = move(message);
    if (message.ended) continue;
    held.push_back(way);
    all = false;
  }
  if (!all) return false;
  for (const auto& copy : copies_) copy();
  for (const auto& sum : sums_) write(*sum);
  return true;
}

void Operation::write(const Sum& sum) const {
  std::vector<const char*> parts;
  for (int p = 0; p < size_; ++p)
    parts.push_back(p == rank_ ? sum.own : sum.parts[static_cast<std::size_t>(p)].data());
  std::vector<char> result(sum.bytes);  // the source may be where the result goes
  reduce(sum.call.type, result.data(), parts, sum.call.count,
         sum.call.reduction == ncclMax);
  std::memcpy(sum.call.to, result.data(), sum.bytes);
}

std::string Operation::describe() const {
  std::string text;
  for (const Message& message : messages_) {
    if (message.ended) continue;
    if (!text.empty()) text += ", ";
    text += std::string(name_of(message.header.kind)) +
            (message.sends ? " to " : " from ") + std::to_string(message.peer);
  }
  return text;
}

}  // namespace trireme::cuda_emulation::nccl
