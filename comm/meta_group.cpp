// A group that sends nothing.
// SPDX-License-Identifier: Apache-2.0
#include "comm/meta_group.hpp"

#include <utility>
#include <vector>

#include "comm/staging.hpp"
#include "comm/trace.hpp"

namespace trireme::comm {
namespace {

class MetaGroup final : public Group {
 public:
  MetaGroup(std::string name, int rank, int size)
      : Group(std::move(name), rank, size),
        staging_(Device::meta(), std::string(this->name())) {}

  void progress() override {}
  std::size_t staging_bytes() const override { return staging_.bytes(); }

 private:
  // Holds its staging block until it is waited on, as on a real transport.
  class Operation final : public Handle::Operation {
   public:
    explicit Operation(MetaGroup& group) : group_(group) {}
    void start(int block) { block_ = block; }
    bool progress() override { return true; }
    void wait() override {
      group_.staging_.release(block_);
      group_.free_.push_back(this);
    }
    void abandon() noexcept override { wait(); }

   private:
    MetaGroup& group_;
    int block_ = StagingPool::none;
  };

  Handle start(const Call& call, Stream&, const TensorView&, const TensorView&) override {
    if (free_.empty()) {
      operations_.push_back(std::make_unique<Operation>(*this));
      free_.reserve(operations_.size());
      free_.push_back(operations_.back().get());
    }
    Operation* operation = free_.back();
    free_.pop_back();
    trace().end(call.trace);
    operation->start(staging_.acquire(call.plan.staging_bytes()));
    return Handle(operation);
  }

  StagingPool staging_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<Operation*> free_;
};

}  // namespace

std::unique_ptr<Group> make_meta_group(std::string name, int rank, int size) {
  return std::make_unique<MetaGroup>(std::move(name), rank, size);
}

}  // namespace trireme::comm
