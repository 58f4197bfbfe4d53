// Samples that one tensor rank reads for the others, and what the other stages are told.
// SPDX-License-Identifier: Apache-2.0
#include "engine/sample_route.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "io/open_files.hpp"
#include "io/shared_source.hpp"
#include "support/checkpoint_tensors.hpp"
#include "train/batch_loader.hpp"

namespace trireme::train {
namespace {

using test::world;

constexpr std::int64_t S = 7, micro = 2, microbatches = 3, steps = 4;

// Files of bytes; the last token of each is the end of text.
class Bytes {
 public:
  explicit Bytes(int files) {
    for (int i = 0; world().rank() == 0 && i < files; ++i)
      std::ofstream(folder_.path() + "/" + std::to_string(100 + i))
          << "text number " << i << " is of some length";
    world().barrier();
  }
  const std::string& folder() const { return folder_.path(); }
  io::SourceConfig config() const {
    return {.kind = io::SourceKind::bytes,
            .paths = {folder_.path() + "/1*"},
            .sequence = S,
            .vocabulary = 257};
  }

 private:
  test::SharedFolder folder_;
};

std::unique_ptr<io::SampleSource> open(const io::SourceConfig& config) {
  return io::open_source(config);
}

std::vector<std::int32_t> tokens_in(const std::vector<TensorView>& views) {
  std::vector<std::int32_t> all;
  for (const TensorView& view : views)
    for (const std::int32_t token : view.span<std::int32_t>()) all.push_back(token);
  return all;
}

// Every rank that needs tokens has those of a loader that reads, and only ranks of the
// route read.
// cut: sequences are cut after 3 tokens.
void expect_route(comm::MeshShape shape, schedule::ScheduleKind kind, io::Packing packing,
                  bool cut = false) {
  if (shape.size() > world().size()) return;
  shape.data = world().size() / (shape.pipeline * shape.tensor);
  if (shape.size() != world().size()) return;
  SCOPED_TRACE(format("pipeline {}, tensor {}, data {}, schedule {}, packing {}, cut {}",
                      shape.pipeline, shape.tensor, shape.data, static_cast<int>(kind),
                      static_cast<int>(packing), cut));
  comm::Mesh mesh(world(), shape);
  const Bytes bytes(5);
  config::RunConfig config;
  config.parallel.schedule = kind;
  config.data = bytes.config();
  config.data.packing = packing;
  if (cut) config.batch.sequence_ramp = {{3, std::int64_t{1} << 40}};
  const engine::SampleRoute route(mesh, config, config.data);
  const auto source =
      io::open_shared(world(), config.data, open, {.index = "", .reads = route.reads()});
  const auto own = io::open_source(config.data);
  BatchLoaderConfig with{
      .seed = 3,
      .global = micro * (microbatches * shape.data - (shape.data > 1 ? 1 : 0)),
      .micro = micro,
      .microbatches = microbatches,
      .data_rank = mesh.coordinate(comm::Axis::data),
      .data_ranks = shape.data,
      .sequence = S,
      .positions = {}};
  if (packing != io::Packing::none)
    with.documents = engine::DocumentRule{.end_token = io::end_of_text};
  if (cut) {
    with.documents = engine::DocumentRule{};
    with.stages = config::batch_stages(with.global, S, {}, config.batch.sequence_ramp);
  }
  BatchLoader alone(*own, with);
  with.route = &route;
  {
    BatchLoader routed(*source, with);
    const int stage = mesh.coordinate(comm::Axis::pipeline);
    const bool v = schedule::is_v_shaped(kind);
    const bool is_last = v ? stage == 0 : stage == shape.pipeline - 1;
    for (std::int64_t step = 1; step <= steps; ++step) {
      const engine::Batch &batch = routed.next(), &wanted = alone.next();
      EXPECT_EQ(batch.step, wanted.step);
      EXPECT_EQ(batch.valid_tokens, wanted.valid_tokens);
      EXPECT_EQ(batch.stand_ins, wanted.stand_ins);
      EXPECT_EQ(batch.ends_with_stand_in, wanted.ends_with_stand_in);
      ASSERT_EQ(batch.inputs.size(), wanted.inputs.size());
      if (stage == 0) {
        EXPECT_EQ(tokens_in(batch.inputs), tokens_in(wanted.inputs));
      }
      if (is_last) {
        EXPECT_EQ(tokens_in(batch.targets), tokens_in(wanted.targets));
      }
      for (std::size_t m = 0; m < wanted.documents.size(); ++m)
        EXPECT_EQ(
            tokens_in({batch.documents[m].starts_T, batch.documents[m].positions_T}),
            tokens_in({wanted.documents[m].starts_T, wanted.documents[m].positions_T}));
    }
    const bool at_end = packing != io::Packing::none || cut || stage == 0 || is_last;
    EXPECT_EQ(route.reads(), at_end && mesh.coordinate(comm::Axis::tensor) == 0);
  }
  world().barrier();
}

TEST(SampleRoute, TensorRanksAndStagesHaveWhatTheyNeed) {
  using schedule::ScheduleKind;
  const int size = world().size();
  for (const auto packing : {io::Packing::none, io::Packing::concatenate}) {
    expect_route({.tensor = size}, ScheduleKind::one_f_one_b, packing);
    expect_route({.pipeline = size}, ScheduleKind::one_f_one_b, packing);
    expect_route({.pipeline = size}, ScheduleKind::zb_v, packing);
    expect_route({.data = size}, ScheduleKind::one_f_one_b, packing);
    expect_route({.pipeline = 2, .tensor = 2}, ScheduleKind::zb_v, packing);
    expect_route({.pipeline = 2, .tensor = 2}, ScheduleKind::one_f_one_b, packing);
  }
  expect_route({.pipeline = size}, ScheduleKind::one_f_one_b, io::Packing::none, true);
}

// Of many files a rank that does not read opens none, and one that does those it reads;
// the index serves the next start; a folder that takes no index costs a warning.
TEST(SampleRoute, FilesAreLookedIntoOnce) {
  constexpr int files = static_cast<int>(io::most_open_files) + 10;
  const Bytes bytes(files);
  const auto opened = [&](const std::string& index, bool reads) {
    const std::int64_t before = io::open_data_files().opened();
    const auto source =
        io::open_shared(world(), bytes.config(), open, {.index = index, .reads = reads});
    EXPECT_EQ(source->describe(), open(bytes.config())->describe());
    const std::int64_t own = io::open_data_files().opened() - before;
    world().barrier();
    return own;
  };
  const std::string index = bytes.folder() + "/data-index";
  const int rank = world().rank();
  for (const bool reads : {true, false})
    EXPECT_EQ(opened(index, reads), rank > 0 && reads ? 1 : 0);
  EXPECT_TRUE(std::filesystem::exists(index));
  opened(bytes.folder() + "/no such folder/index", true);
  // What rank 0 cannot open nobody can.
  io::SourceConfig none = bytes.config();
  none.paths = {bytes.folder() + "/2*"};
  EXPECT_THROW(io::open_shared(world(), none, open, {}), comm::Agreed);
}

}  // namespace
}  // namespace trireme::train
