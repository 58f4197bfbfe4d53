// FrozenBase: the weights beside adapters that lie in memory as codes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/run_config.hpp"
#include "engine/code_shards.hpp"
#include "io/checkpoint.hpp"
#include "model/coded_weights.hpp"

namespace trireme::engine {

// A Param that is kept as codes, and the number of its module.
struct CodedParam {
  int module = 0;
  Param* param = nullptr;
};

// Takes those that adapter.quantize makes codes of out of the modules: frozen matrices of
// which all boxes have codes. The same ones on every mesh. None without the key.
std::vector<CodedParam> take_coded(const config::AdapterSettings& adapter,
                                   std::vector<ParamModule>& modules);

// They have no place in the parameter store: no gradient, no moment, no box of a
// checkpoint. What the store does is passed on to it.
class FrozenBase final : public WeightAccess {
 public:
  // `others` owns the other weights, and outlives this, as does the mesh. The codes are
  // empty until load().
  FrozenBase(std::vector<CodedParam> params, const config::RunConfig& config,
             comm::Mesh& mesh, WeightAccess& others, DType type, Device device);

  // Reads the codes, once; with the threads that the process has, where the source
  // allows it. Collective over the shard groups, whose ranks share the reading. Throws as
  // the source does, on the rank that read it alone: the ranks agree on that.
  void load();

  void fetch(int module, Direction direction) override;
  void release(int module) override { codes_.release(module); }
  void open_gradients(int module) override { codes_.open_gradients(module); }
  void close_gradients(int module) override { codes_.close_gradients(module); }
  void ready(Param& param) override { codes_.ready(param); }

  const std::vector<CodedParam>& params() const { return params_; }
  // Of codes and scales, on this rank; of the numbers of a module; what all would be as
  // numbers.
  std::size_t code_bytes() const;
  std::size_t working_bytes() const { return codes_.working_bytes(); }
  std::size_t number_bytes() const { return codes_.number_bytes(); }
  std::int64_t elements() const;

  // What this rank holds as codes, for the comparison of replicas: codes, scales and zero
  // points of each box; of those that are sharded, this rank's bytes.
  std::vector<io::TensorBox> boxes() const;

 private:
  // A box of a Param that has elements.
  struct Piece {
    std::size_t param = 0;
    const NamedBox* named = nullptr;
  };
  using Pieces = std::vector<Piece>;
  // Of each Param, by its number.
  using AllCodes = std::vector<std::vector<PlacedCodes>>;

  // Those of all Params that the predicate holds for.
  template <class Predicate>
  Pieces pieces(const Predicate& is_wanted) const;
  std::vector<OwnedCodes> read(const Pieces& pieces) const;
  void read_all(AllCodes& all);
  void read_in_turns(bool expert, AllCodes& all);
  // What one rank of the group has read of a run goes to all.
  void scatter(const CodeShards::Run& run, int reader, std::vector<OwnedCodes> own,
               AllCodes& all);

  const config::AdapterSettings& adapter_;
  std::vector<CodedParam> params_;
  Device device_;
  std::optional<CodeShards> shards_;  // where weights are sharded
  model::CodedWeights codes_;
  bool loaded_ = false;
};

}  // namespace trireme::engine
