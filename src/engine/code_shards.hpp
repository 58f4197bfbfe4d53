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
// they are decoded. Experts', which other ranks share out, are a run of their own: a
// module has at most two of them. The modules of a run are read by the ranks in turns:
// one rank reads all of a module's codes and deals them out.
class CodeShards {
 public:
  // Codes of one module that one group shares out.
  struct Run {
    int module = 0;
    bool expert = false;
  };
  // Whether what codes hold is copied when they get their place.
  enum class Contents : std::uint8_t { copied, left };
  CodeShards(comm::Mesh& mesh, Device device);

  // Of a module in the order of calls: room for codes of so many bytes.
  void add(int module, bool expert, std::size_t bytes);
  // Memory, once all are added.
  void allocate();

  // Of experts, or of the others: the runs, in the order of modules.
  std::vector<Run> runs(bool expert) const;
  // The group that shares out a run.
  comm::Group& group_of(const Run& run) const;
  // Gives codes of a run, in the order of add(), their place in the gathered bytes: what
  // it returns lies there while the module is the last that was gathered.
  OwnedCodes place(const Run& run, OwnedCodes codes, Contents contents);
  // The gathered bytes of a run, which `reader` has, to where the ranks keep them.
  // Collective over the run's group.
  void scatter(const Run& run, int reader);

  // What this rank keeps of a run.
  TensorView shard_of(const Run& run) const;

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
  Part& part_of(const Run& run) {
    Module& module = modules_.at(run.module);
    return run.expert ? module.expert : module.dense;
  }
  const Part& part_of(const Run& run) const {
    const Module& module = modules_.at(run.module);
    return run.expert ? module.expert : module.dense;
  }
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
