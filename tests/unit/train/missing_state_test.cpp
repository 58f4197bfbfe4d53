// What becomes of moments that a checkpoint lacks, for every pair of optimizers.
// SPDX-License-Identifier: Apache-2.0
#include "train/missing_state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "optim/update_rules.hpp"
#include "support/checkpoint_tensors.hpp"
#include "support/written_checkpoint.hpp"
#include "train/base_check.hpp"
#include "unit/config/deck_sample.hpp"

namespace trireme::train {
namespace {

using test::expect_contains;
using test::SharedFolder;
using test::world;

// How many moments an optimizer keeps of a matrix, and of another tensor.
struct Optimizer {
  std::string name, betas;
  int of_matrix = 0, of_norm = 0;

  bool keeps_any() const { return of_matrix + of_norm > 0; }
  // Without what the other lacks it could not go on; momentum may start from zero.
  bool lacks_moments_of(const Optimizer& other) const {
    return (of_matrix < other.of_matrix && other.of_matrix == 2) ||
           (of_norm < other.of_norm && other.of_norm == 2);
  }
};

const std::vector<Optimizer> optimizers = {{"adamw", "[0.9, 0.95]", 2, 2},
                                           {"sgd", "[0.9, 0.95]", 1, 1},
                                           {"sgd", "[0.0, 0.95]", 0, 0},
                                           {"lion", "[0.9, 0.99]", 1, 1},
                                           {"muon", "[0.9, 0.95]", 1, 2}};

// What a checkpoint of a run with this optimizer has.
std::vector<io::TensorBox> boxes_of(test::Memory& memory, const Optimizer& optimizer) {
  std::vector<io::TensorBox> boxes;
  const auto add = [&](const std::string& section, const char* tensor, Shape shape) {
    const test::FakeTensor one{section + "/" + tensor, DType::f32, shape};
    boxes.push_back(test::make_box(memory, one, 1, 1, 0));
  };
  add("model", "q_proj.weight", {6, 4});
  add("model", "norm.weight", {6});
  for (int i = 0; i < optimizer.of_matrix; ++i)
    add(std::string(optim::state_sections.at(static_cast<std::size_t>(i))),
        "q_proj.weight", {6, 4});
  for (int i = 0; i < optimizer.of_norm; ++i)
    add(std::string(optim::state_sections.at(static_cast<std::size_t>(i))), "norm.weight",
        {6});
  return boxes;
}

std::string write(const SharedFolder& folder, const Optimizer& optimizer,
                  const std::vector<io::TensorBox>& boxes,
                  const std::string& besides = "run.seed=0") {
  io::CheckpointInfo info = test::fake_info(1);
  info.deck = test::parse_sample({"optimizer.name=" + optimizer.name,
                                  "optimizer.betas=" + optimizer.betas, besides})
                  .effective();
  test::write_checkpoint(world(), folder.path(), info, boxes, 0);
  return folder.path();
}

std::string error_of(const std::string& path, std::vector<io::TensorBox> boxes,
                     const std::string& name) {
  const auto [text, status] = test::error_of([&] {
    boxes_to_load(world(), io::CheckpointReader(path, io::no_digests), std::move(boxes),
                  name);
  });
  EXPECT_EQ(status, Status::bad_content) << text;
  return text;
}

TEST(MissingState, EveryPairOfOptimizers) {
  for (const Optimizer& before : optimizers) {
    const SharedFolder folder;
    test::Memory memory;
    const std::string path = write(folder, before, boxes_of(memory, before));
    for (const Optimizer& now : optimizers) {
      SCOPED_TRACE(before.name + before.betas + " to " + now.name + now.betas);
      const auto wanted = boxes_of(memory, now);
      if (before.lacks_moments_of(now)) {
        const std::string text = error_of(path, wanted, now.name);
        expect_contains(text, "optimizer.name = \"" + now.name + "\" goes on with them");
        expect_contains(text, "it was written with optimizer.name = \"" + before.name);
        expect_contains(text, "write optimizer.name = \"" + before.name);
        continue;
      }
      const auto loaded = boxes_to_load(
          world(), io::CheckpointReader(path, io::no_digests), wanted, now.name);
      EXPECT_EQ(loaded.size(), before.keeps_any() ? wanted.size() : 2);
    }
  }
}

// One sentence: what is missing, who needs it, who wrote the checkpoint, how to go on.
TEST(MissingState, TheErrorSaysHowToGoOn) {
  const SharedFolder folder;
  test::Memory memory;
  const Optimizer &adamw = optimizers[0], &muon = optimizers[4], &plain = optimizers[2];
  std::string path = write(folder, muon, boxes_of(memory, muon));
  EXPECT_EQ(error_of(path, boxes_of(memory, adamw), "adamw"),
            path + "/step-00000001" +
                ": has no second moments of q_proj.weight, but optimizer.name = "
                "\"adamw\" goes on with them: it was written "
                "with optimizer.name = \"muon\"; write optimizer.name = \"muon\", or "
                "start from the beginning in another run.directory");
  const SharedFolder other;
  path = write(other, plain, boxes_of(memory, plain));
  const std::string text = error_of(path, boxes_of(memory, adamw), "adamw");
  expect_contains(
      text,
      "has no second moments, and no first ones, of 2 tensors, norm.weight among them");
  expect_contains(text, "write optimizer.name = \"sgd\", optimizer.betas = [0.0, 0.95]");
}

// Whatever optimizer the run has: what froze it is the cause, not another optimizer.
TEST(MissingState, ATensorThatWasFrozenHasNoMoments) {
  test::Memory memory;
  const auto without_norm = [&](const Optimizer& optimizer) {
    auto some = boxes_of(memory, optimizer);
    std::erase_if(some, [](const auto& box) {
      return box.path.starts_with("optimizer/") && box.path.ends_with("/norm.weight");
    });
    return some;
  };
  const Optimizer &adamw = optimizers[0], &lion = optimizers[3];
  const struct {
    std::string besides, cause, fix;
  } cases[] = {{R"(optimizer.groups=["*norm* frozen"])",
                R"(they were frozen by optimizer.groups = ["*norm* frozen"];)",
                R"(write optimizer.groups = ["*norm* frozen"], or start)"},
               {"adapter.rank=2", "they were frozen by adapter.modules_to_save = [];",
                "write adapter.modules_to_save = [], or start"},
               {"run.seed=0", "they were frozen by optimizer.groups or [adapter];",
                "write optimizer.groups and [adapter] as when it was written, or start"}};
  for (const auto& [besides, cause, fix] : cases)
    for (const Optimizer* before : {&adamw, &lion}) {
      SCOPED_TRACE(before->name + " " + besides);
      const SharedFolder folder;
      const std::string path = write(folder, *before, without_norm(*before), besides);
      const std::string text = error_of(path, boxes_of(memory, lion), "lion");
      expect_contains(text, "has no first moments of norm.weight, but");
      expect_contains(text, cause);
      expect_contains(text, fix);
    }
  // Where others lack what this optimizer keeps, it is the cause as well.
  const SharedFolder folder;
  const std::string path = write(folder, lion, without_norm(lion), cases[0].besides);
  expect_contains(error_of(path, boxes_of(memory, adamw), "adamw"),
                  R"(write optimizer.name = "lion", and )"
                  R"(optimizer.groups = ["*norm* frozen"], which froze some, or start)");
}

// Whether the checkpoint or the run has the codes, the message names the key.
TEST(MissingState, MomentsOfAnotherFormat) {
  test::Memory memory;
  const Optimizer& lion = optimizers[3];
  const auto numbers = boxes_of(memory, lion);
  auto codes = numbers;
  for (auto& box : codes) {
    if (!box.path.starts_with("optimizer/moment1/")) continue;
    const test::FakeTensor one{box.path, DType::u8, box.whole};
    box = test::make_box(memory, one, 1, 1, 0);
  }
  const SharedFolder folder;
  const std::string path = write(folder, lion, codes);
  const std::string text = error_of(path, numbers, "lion");
  expect_contains(text, "which does not convert to fp32");
  expect_contains(text, "write precision.moments (or precision.recipe) as in the deck");
}

// A deck that this program cannot read says nothing of the optimizer.
TEST(MissingState, AnOlderProgramsDeck) {
  const SharedFolder folder;
  test::Memory memory;
  io::CheckpointInfo info = test::fake_info(1);
  info.deck = "[run]\nno_such_key = 1\n";
  test::write_checkpoint(world(), folder.path(), info, boxes_of(memory, optimizers[3]),
                         0);
  expect_contains(error_of(folder.path(), boxes_of(memory, optimizers[0]), "adamw"),
                  "another optimizer wrote it; write its optimizer.name");
}

// A checkpoint beside a model of codes: it may lack that model's digest, and no more.
TEST(MissingState, TheDigestOfABase) {
  const char* const root = std::getenv("TRIREME_SOURCE");
  ASSERT_NE(root, nullptr) << "run this test by ctest";
  const std::string folders = std::string(root) + "/tests/reference/folders/";
  config::RunConfig config;
  config.start_from = folders + "llama";
  config.adapter.quantize = model::BaseCodes::nf4;
  const auto identify = [&](const std::string& digest) {
    const SharedFolder folder;
    test::Memory memory;
    io::CheckpointInfo info = test::fake_info(1);
    info.base = digest;
    test::write_checkpoint(world(), folder.path(), info, boxes_of(memory, optimizers[0]),
                           0);
    const io::CheckpointReader reader(folder.path(), io::no_digests);
    EXPECT_EQ(reader.info().base, digest);
    return identify_base(world(), config, &reader);
  };
  const std::string digest = identify_base(world(), config, nullptr);
  EXPECT_TRUE(digest.starts_with("nf4:")) << digest;
  EXPECT_EQ(identify(digest), digest);
  EXPECT_EQ(identify(""), digest) << "of a checkpoint that an older program wrote";
  const auto refused = [&](const std::string& says) {
    const auto [text, status] = test::error_of([&] { identify(digest); });
    EXPECT_EQ(status, Status::bad_content);
    expect_contains(text, says);
  };
  config.adapter.quantize = model::BaseCodes::int8;
  refused("\"int8\" stands for other weights");
  config.adapter.quantize = model::BaseCodes::none;
  refused("this run has adapter.quantize = \"none\"");
  config.adapter.quantize = model::BaseCodes::nf4;
  config.start_from = folders + "qwen2";
  refused("was trained beside another model than");
}

}  // namespace
}  // namespace trireme::train
