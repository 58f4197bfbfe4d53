// Copies in the memory of two nodes: which start of a run made them, and who reads what.
// SPDX-License-Identifier: Apache-2.0
// Two folders stand for the memory of two nodes, each of which has half of the ranks.
#include "train/partner_copies.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <thread>

#include "io/checkpoint_folder.hpp"
#include "io/run_status.hpp"
#include "support/checkpoint_tensors.hpp"
#include "train/node_places.hpp"
#include "unit/config/deck_sample.hpp"

namespace {
const std::thread::id main_thread = std::this_thread::get_id();
std::atomic<int> rooms_beside{0}, rooms_in_main{0};  // that were taken for a file
}  // namespace

// In place of the C library's.
extern "C" int posix_fallocate(int file, off_t begin, off_t bytes) {
  ++(std::this_thread::get_id() == main_thread ? rooms_in_main : rooms_beside);
  if (::fallocate(file, 0, begin, bytes) == 0) return 0;
  if (errno != EOPNOTSUPP) return errno;
  return ::ftruncate(file, begin + bytes) == 0 ? 0 : errno;
}

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using test::world;

constexpr auto variable = "TRIREME_TEST_MEMORY";

class Nodes {
 public:
  Nodes() : mesh_(world(), {1, world().size(), 1, 1}) {
    for (int node = 0; node < 2; ++node) fs::create_directories(memory(node));
    ::setenv(variable, memory(own()).c_str(), 1);
    config_.run.directory = folder_.path();
    config_.checkpoint.partner = 2;
    config_.checkpoint.partner_directory = std::string("$") + variable;
    note("");
  }
  ~Nodes() { ::unsetenv(variable); }

  std::string memory(int node) const {
    return folder_.path() + "/memory-" + std::to_string(node);
  }
  PartnerCopies start() { return {world(), mesh_, config_}; }
  // As a run does of each of its starts; "": of one that failed before it began.
  void note(const std::string& name) {
    io::RunStart one{0, world().size(), io::this_process()};
    one.name = name;
    status_.starts.push_back(one);
    if (world().rank() == 0) io::write_run_status(folder_.path(), status_);
    world().barrier();
  }
  // Somebody removes the run's directory, and another run begins in it.
  void forget_starts() {
    status_.starts.clear();
    note("");
  }
  // Copies of step 4, which are then under way.
  void begin(PartnerCopies& copies, const std::vector<io::TensorBox>& boxes) {
    note(copies.attempt());
    copies.start(-1, boxes);
    io::CheckpointInfo info = test::fake_info(4);
    info.mesh = {1, world().size(), 1, 1};
    copies.begin(info, boxes);
  }
  // Copies of a start that writes `value` into every element, at step 4.
  void copy(double value) {
    Box box(value);
    PartnerCopies copies = start();
    begin(copies, {box.box});
    copies.finish();
    world().barrier();
  }
  // The same, looking again and again as training does; gives up after a while.
  void copy_beside_training(double value, const std::function<bool()>& done) {
    Box box(value);
    PartnerCopies copies = start();
    begin(copies, {box.box});
    copies.before_update();
    for (int looks = 0; looks < 10000 && !done(); ++looks) {
      copies.poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    copies.finish();
    world().barrier();
  }
  // What this rank reads of the copies that are found; -1: none, or not all elements are
  // alike.
  double found() {
    Box box(0);
    PartnerCopies copies = start();
    const ChosenCheckpoint chosen = copies.find(0, 100, {box.box});
    if (!chosen.reader) return -1;
    chosen.reader->fetch(world(), {box.box});
    chosen.reader->read(box.box.path, box.box.whole, box.box.begin, box.box.data);
    world().barrier();
    return box.value();
  }
  // Whether this rank knows where the rows of another lie that it has not asked for.
  bool knows_of_others() {
    Box box(0), other(0, world().size() - 1 - world().rank());
    PartnerCopies copies = start();
    const ChosenCheckpoint chosen = copies.find(0, 100, {box.box});
    EXPECT_EQ(chosen.reader->files_of(box.box).size(), 1U);
    return !chosen.reader->files_of(other.box).empty();
  }
  // Gives all that a node holds another name, and takes it back.
  void set_aside(int node) { move(memory(node), memory(node) + "-aside"); }
  void take_back(int node) { move(memory(node) + "-aside", memory(node)); }
  // Of the folder that a node keeps copies in.
  std::string name() const {
    return fs::directory_iterator(memory(own()))->path().filename();
  }
  // Takes the word for a shard away on a node.
  void forget(int node, int shard) {
    const std::string end = "shard-0000" + std::to_string(shard) + ".json";
    if (world().rank() == 0)
      for (const auto& entry : fs::recursive_directory_iterator(memory(node)))
        if (entry.path().filename() == end) fs::remove(entry.path());
    world().barrier();
  }
  int own() const { return world().rank() < world().size() / 2 ? 0 : 1; }

  // This rank's rows of a tensor.
  struct Box {
    explicit Box(double value, int rank = world().rank()) {
      const test::FakeTensor tensor{"model/w", DType::f64, {16, 3}};
      box = test::make_box(memory, tensor, world().size(), 1, rank);
      std::fill(data(), data() + box.data.elements(), value);
    }
    double* data() const { return static_cast<double*>(box.data.raw()); }
    double value() const {
      const double first = *data();
      return std::all_of(data(), data() + box.data.elements(),
                         [&](double value) { return value == first; })
                 ? first
                 : -1;
    }
    test::Memory memory;
    io::TensorBox box;
  };

 private:
  void move(const std::string& from, const std::string& to) {
    world().barrier();
    if (world().rank() == 0) {
      fs::remove_all(to);
      fs::rename(from, to);
      fs::create_directories(from);
    }
    world().barrier();
  }

  test::SharedFolder folder_;
  comm::Mesh mesh_;
  config::RunConfig config_;
  io::RunStatus status_;
};

// A node that was away when the run reached a step again has copies of its first time.
TEST(PartnerCopiesOfRanks, OneStartHasMadeAllThatIsTaken) {
  Nodes nodes;
  nodes.copy(1);
  nodes.set_aside(1);
  nodes.copy(2);
  nodes.take_back(1);
  EXPECT_EQ(nodes.found(), 2) << "the newer one, which the second node lacks";
  // That node has got from the other what its ranks read, in the place of its own.
  nodes.forget(0, 0);
  EXPECT_EQ(nodes.found(), -1) << "all shards are there, but none of the two is whole";
}

// The system clears the pages of a whole shard: training does not wait for that.
TEST(PartnerCopiesOfRanks, RoomIsTakenBesideTraining) {
  Nodes nodes;
  rooms_beside = rooms_in_main = 0;
  nodes.copy_beside_training(3, [] { return rooms_beside + rooms_in_main > 0; });
  EXPECT_EQ(rooms_beside, 1);
  EXPECT_EQ(rooms_in_main, 0);
  EXPECT_EQ(nodes.found(), 3);
}

TEST(PartnerCopiesOfRanks, AnOlderStartThatIsWholeIsTaken) {
  Nodes nodes;
  nodes.copy(1);
  nodes.set_aside(1);
  nodes.copy(2);
  nodes.take_back(1);
  nodes.forget(0, world().size() - 1);
  EXPECT_EQ(nodes.found(), 1);
}

// Also outside a batch system, where all jobs have one name, and after a start that
// failed.
TEST(PartnerCopiesOfRanks, CopiesOfARunThatWasRemovedDoNotCount) {
  Nodes nodes;
  nodes.copy(1);
  nodes.forget_starts();
  EXPECT_EQ(nodes.found(), -1);
  nodes.note("another");
  EXPECT_EQ(nodes.found(), -1);
  nodes.copy(2);
  EXPECT_EQ(nodes.found(), 2);
}

// Two hosts see one folder, as on a network's file system.
TEST(PartnerCopiesOfRanks, AFolderThatHostsShareIsOneNode) {
  Nodes nodes;
  const std::string host = "host-" + std::to_string(nodes.own());
  const auto files = [](const std::string& folder) {
    return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  };
  const int ranks = world().size();
  const std::string shared = nodes.memory(0);
  const NodePlaces one(world(), shared, host, "claim");
  EXPECT_EQ(one.shared(), "host-0 and host-1");
  EXPECT_EQ(one.shift(), 0);
  EXPECT_EQ(one.on_node(), ranks);
  EXPECT_EQ(one.place(), world().rank());
  EXPECT_EQ(one.node_of(0), one.node_of(ranks - 1));
  const NodePlaces two(world(), nodes.memory(nodes.own()), host, "claim");
  EXPECT_EQ(two.shared(), "");
  EXPECT_EQ(two.shift(), ranks / 2);
  EXPECT_EQ(two.on_node(), ranks / 2);
  EXPECT_NE(two.node_of(0), two.node_of(ranks - 1));
  world().barrier();
  EXPECT_EQ(files(nodes.memory(nodes.own())), 0) << "what was made for it is gone";
  const auto [text, status] =
      test::error_of([&] { NodePlaces(world(), nodes.memory(2), host, "claim"); });
  EXPECT_EQ(status, Status::cannot_create);
  test::expect_contains(text, "there is no such folder on host host-0");
}

TEST(PartnerCopiesOfRanks, TheFirstRankAloneKnowsWhereAllOfItLies) {
  Nodes nodes;
  nodes.copy(1);
  EXPECT_EQ(nodes.knows_of_others(), world().rank() == 0);
}

// Of another user or run they are not ours to remove.
TEST(PartnerCopiesOfRanks, AStartRemovesWhatEarlierJobsOfTheRunHaveLeft) {
  Nodes nodes;
  nodes.copy(1);
  const std::string own = nodes.name(), user = own.substr(0, own.find('-', 8));
  const std::string run = own.substr(own.rfind('-'));
  const std::string earlier = user + "-17" + run;
  const std::string others[] = {user + "-17-0123456789abcdef", user + "1-17" + run,
                                user + "-17" + run + "x"};
  world().barrier();
  for (int node = 0; node < 2 && world().rank() == 0; ++node) {
    fs::create_directories(nodes.memory(node) + "/" + earlier + "/step-00000008");
    for (const std::string& other : others)
      fs::create_directories(nodes.memory(node) + "/" + other);
  }
  world().barrier();
  nodes.copy(2);
  for (int node = 0; node < 2; ++node) {
    EXPECT_FALSE(fs::exists(nodes.memory(node) + "/" + earlier));
    EXPECT_TRUE(fs::exists(nodes.memory(node) + "/" + own + "/step-00000004"));
    for (const std::string& other : others)
      EXPECT_TRUE(fs::exists(nodes.memory(node) + "/" + other)) << other;
  }
}

}  // namespace
}  // namespace trireme::train
