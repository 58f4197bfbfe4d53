// CodeShards: the codes of frozen weights, shared out over the ranks that shard weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/coded_matrix.hpp"
#include "base/memory.hpp"
#include "comm/mesh.hpp"

namespace trireme::engine {

// Codes and scales of a module are one run of bytes, of which each rank of the shard
// group keeps as many: where they are cut means nothing, since they are gathered before
// they are decoded. Experts', which other ranks share out, are a run of their own.
class CodeShards {
 public:
  CodeShards(comm::Mesh& mesh, Device device);

  // Of a module in the order of calls: room for codes of so many bytes.
  void add(int module, bool expert, std::size_t bytes);
  // Memory, once all are added.
  void allocate();

  // Takes codes of a module in the order of add(), into the gathered bytes: what it
  // returns lies there, whole while the module is the last that was gathered. Each module
  // is taken as a whole, and then kept.
  OwnedCodes take(int module, bool expert, OwnedCodes codes);
  // This rank's part of the module's bytes.
  void keep(int module);

  // Brings the bytes of a module together, unless they are. Collective over the shard
  // groups.
  void gather(int module);

  std::size_t bytes() const { return shards_.bytes() + gathered_.bytes(); }

 private:
  // The bytes of one module that one group shares out.
  struct Part {
    comm::Group* group = nullptr;
    std::int64_t bytes = 0;        // with padding
    std::int64_t shard_begin = 0;  // in shards_
    std::int64_t begin = 0;        // in gathered_
    std::int64_t taken = 0;
    std::int64_t shard_bytes() const { return bytes / group->size(); }
  };
  struct Module {
    Part dense, expert;
  };
  template <class Body>
  void each_part(Module& module, const Body& body) {
    for (Part* part : {&module.dense, &module.expert})
      if (part->bytes > 0) body(*part);
  }

  comm::Mesh& mesh_;
  Device device_;
  std::map<int, Module> modules_;
  Buffer shards_, gathered_;
  int here_ = -1;  // whose bytes are gathered
};

}  // namespace trireme::engine
