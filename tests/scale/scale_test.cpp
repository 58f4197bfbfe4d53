// What starting, stepping, saving, resuming and ending costs one of 64 to 4,096 ranks.
// SPDX-License-Identifier: Apache-2.0
// The program's own control plane runs on simulated ranks (fake_mpi.hpp). Nothing may
// grow faster than log P per rank, nor on rank 0, and on ranks that hand on a large part
// of a tree, by more than 100 bytes for each rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "comm/heartbeat_board.hpp"
#include "comm/mesh.hpp"
#include "comm/mpi/mpi.hpp"
#include "comm/watchdog.hpp"
#include "comm/world.hpp"
#include "engine/step_totals.hpp"
#include "scale/checkpoint_phases.hpp"
#include "scale/copies_phases.hpp"
#include "scale/fake_mpi.hpp"
#include "scale/growth.hpp"
#include "scale/hang_phases.hpp"
#include "scale/start_phases.hpp"
#include "train/replica_check.hpp"

namespace trireme::scale {
namespace {

// What a rank holds between the phases of a run.
struct Rank {
  std::unique_ptr<comm::World> world;
  std::unique_ptr<comm::Mesh> mesh;
  std::unique_ptr<Share> share;
  std::unique_ptr<io::SampleSource> source;
  std::unique_ptr<train::PartnerCopies> copies;
};

class Simulation {
 public:
  explicit Simulation(int ranks) : job_(ranks, ranks_on_node), ranks_(job_.ranks()) {}

  template <class F>
  void phase(Table& table, const std::string& name, const F& work) {
    job_.reset();
    job_.run([&](int rank) { work(ranks_[static_cast<std::size_t>(rank)], rank); });
    add(table[name], job_);
  }
  // What is not measured.
  template <class F>
  void between(const F& work) {
    job_.run([&](int rank) { work(ranks_[static_cast<std::size_t>(rank)], rank); });
  }

 private:
  FakeJob job_;
  std::vector<Rank> ranks_;
};

comm::MeshShape shape_of(int ranks) {
  return {.pipeline = 4, .data = ranks / 32, .context = 1, .tensor = 8};
}

void start(Rank& rank, int ranks) {
  rank.world = std::make_unique<comm::World>(0, nullptr);
  EXPECT_EQ(rank.world->sum(1.0), ranks);
  const comm::Folding folding{.shard = ranks / 32, .expert = 1};
  rank.mesh = std::make_unique<comm::Mesh>(*rank.world, shape_of(ranks), folding);
}

// The small reductions of a step, as the engine makes them: tokens; then loss, squares of
// the gradient, times and wanted of all ranks in one.
void step(Rank& rank, int number) {
  const comm::Mesh& mesh = *rank.mesh;
  Stream stream;
  double tokens = 1;
  mesh.replicas().all_reduce(stream, TensorView(&tokens, DType::f64, {1})).wait();
  EXPECT_EQ(tokens, mesh.replicas().size());
  engine::StepTotals totals(*rank.mesh, Device::host());
  totals.tell_apart(number / ranks_on_node, mesh.everyone().size() / ranks_on_node);
  const auto all =
      totals.finish({.loss = 1, .stop_request = number == 5 ? 2 : 0, .squares = 0.25},
                    {.run = 2, .busy = 1, .own = number == 9 ? 3.0 : 2.0});
  EXPECT_EQ(all.loss, mesh.everyone().size() / mesh.shape().tensor);
  EXPECT_EQ(all.stop_request, 2);
  EXPECT_EQ(all.squares, 0.25 * mesh.everyone().size());
  if (number > 0) return;
  ASSERT_TRUE(totals.slowest());
  EXPECT_EQ(totals.slowest()->rank, 9);
  EXPECT_EQ(totals.idle_shares(), std::vector<double>(4, 0.5));
}

void end(Rank& rank) {
  rank.world->barrier();
  rank = {};
}

// A record of 64 bytes for each box, and an entry for each file.
bool is_small_index(double bytes, int ranks) {
  return bytes < 1024 + ranks * (80.0 + Share::boxes_of_rank * 64.0);
}

// A checkpoint of which each rank writes two boxes, and its resume.
void measure_checkpoint(Simulation& run, Table& table, int ranks) {
  const MemoryFolder memory;
  const std::string folder = memory.path() + "/run/checkpoints";
  run.between([&](Rank& rank, int number) {
    rank.share = std::make_unique<Share>(number, ranks);
  });
  run.phase(table, "save",
            [&](Rank& rank, int) { save(*rank.world, folder, *rank.share); });
  run.phase(table, "views", [&](Rank& rank, int) { make_views(*rank.world, folder); });
  run.between([&](Rank& rank, int) { rank.share->forget(); });
  run.phase(table, "resume", [&](Rank& rank, int) {
    resume(*rank.world, *rank.mesh, folder, *rank.share);
  });
  run.between([&](Rank& rank, int number) {
    EXPECT_TRUE(rank.share->is_whole()) << "rank " << number << " of " << ranks;
  });
  // Rank 0 looks at each file of a checkpoint before it gets its name.
  table["save"].linear = {{stats, 1}};
  const double index = index_bytes_in(folder);
  for (const char* phase : {"save", "views", "resume"}) table[phase].index[ranks] = index;
  // The next one, for which the first goes: each rank removes a shard of it, after rank 0
  // has looked whether its files are whole, as a run does once.
  run.phase(table, "replace", [&](Rank& rank, int) {
    save(*rank.world, folder, *rank.share, first_step + 1);
  });
  table["replace"].linear = {{stats, 2}};
  table["replace"].index[ranks] = index;
  EXPECT_EQ(io::steps_in(folder), (std::vector<std::int64_t>{first_step + 1}));
  // In each group by the ends of hashes, as in those of more than 16 ranks.
  run.phase(table, "replicas", [&](Rank& rank, int) {
    train::check_replicas(*rank.world, *rank.mesh, rank.share->boxes(), 1, 1);
  });
  EXPECT_TRUE(is_small_index(index, ranks)) << index << " bytes";
}

// What a start compares and reports, opening data of `token_files` files, the first time
// (looked) and with an index of them, and reading samples of a step. Tensor rank 0 reads.
void measure_start(Simulation& run, Table& table) {
  const MemoryFolder place;
  const std::string folder = place.path();
  make_start_files(folder);
  run.phase(table, "devices", [](Rank& rank, int) { choose_devices(*rank.world); });
  run.phase(table, "compare", [&](Rank& rank, int) { compare(*rank.world, folder); });
  run.phase(table, "report", [&](Rank& rank, int) { report(*rank.world); });
  for (const char* const phase : {"data", "data again"}) {
    run.phase(table, phase, [&](Rank& rank, int number) {
      rank.source = open_data(*rank.world, folder, number % 8 == 0);
    });
  }
  run.phase(table, "reading", [&](Rank& rank, int number) {
    if (number % 8 == 0) read_data(*rank.source, number);
  });
  run.between([&](Rank& rank, int) { rank.source.reset(); });
}

// A restart from copies of shards in the memory of nodes, none of which was lost, of
// tensors that are cut up over all ranks: a shard with what others hold too would go to
// each node that has not one.
void measure_copies(Simulation& run, Table& table, int ranks) {
  const MemoryFolder place;
  const std::string& folder = place.path();
  make_nodes(folder, ranks / ranks_on_node);
  run.phase(table, "partners", [&](Rank& rank, int) {
    rank.copies = find_partners(*rank.world, *rank.mesh, folder);
  });
  run.between([&](Rank& rank, int number) {
    rank.share = std::make_unique<Share>(number, ranks);
    copy_shard(folder, number, ranks, *rank.share);
    rank.share->forget();
  });
  run.phase(table, "restart", [&](Rank& rank, int) {
    restart(*rank.world, *rank.mesh, *rank.copies, *rank.share);
  });
  run.between([&](Rank& rank, int number) {
    EXPECT_TRUE(rank.share->has_own()) << "rank " << number << " of " << ranks;
    rank.copies.reset();
  });
  // It has the boxes of the checkpoint but one, and its index is told in the same way.
  table["restart"].index[ranks] = table["save"].index.at(ranks);
}

// Where a rank is that waits for rank 1.
comm::RankStatus waiting_status(int rank, int ranks) {
  const comm::RankList everyone = comm::RankList::line(0, ranks);
  comm::RankStatus p{.rank = rank,
                     .host = "",
                     .phase = "training step",
                     .step = 3,
                     .beat = 5,
                     .silent = 60,
                     .allowed = 30,
                     .waiting = rank != 1,
                     .groups = {{"everyone", everyone, rank != 1 ? 9 : 8},
                                {"tensor", comm::RankList::line(rank / 8 * 8, 8), 70}},
                     .calls = {{"everyone", everyone, 9, "all_reduce", "fp64[4]", 32}}};
  if (rank == 1) p.calls.clear();
  return p;
}

// The files of the watchdog: while ranks get on (watch), and in a hang (alarm), of which
// rank 0 reads all and the others the first node's.
void measure_alarm(Simulation& run, Table& table, int ranks) {
  const MemoryFolder folder;
  comm::HostTable hosts;
  for (int rank = 0; rank < ranks; ++rank)
    hosts.add(format("node{}", 10000 + rank / ranks_on_node));
  const int node_words = ranks_on_node * comm::heartbeat_words;
  std::vector<std::uint64_t> shared(static_cast<std::size_t>(ranks) *
                                    comm::heartbeat_words);  // of all nodes
  std::vector<comm::HeartbeatBoard> boards;
  for (int rank = 0; rank < ranks; ++rank) {
    const int slot = rank % ranks_on_node;
    const std::span all(shared);
    boards.emplace_back(folder.path(), "run",
                        comm::HeartbeatPlace{rank - slot, slot, ranks_on_node},
                        all.subspan(static_cast<std::size_t>(rank / ranks_on_node) *
                                        static_cast<std::size_t>(node_words),
                                    static_cast<std::size_t>(node_words)));
  }
  const auto board = [&](int rank) -> comm::HeartbeatBoard& {
    return boards[static_cast<std::size_t>(rank)];
  };
  const auto look = [&](int rank, bool stands_still) {
    board(rank).publish(waiting_status(rank, ranks), stands_still);
    int beats = 0;
    board(rank).first_node([&](const comm::Heartbeat&) { ++beats; });
    EXPECT_TRUE(beats > 0);
  };
  // One of each node writes for all of it.
  run.between([&](Rank&, int rank) { look(rank, false); });
  run.phase(table, "watch", [&](Rank&, int rank) {
    board(rank).publish(waiting_status(rank, ranks), false);
  });
  run.between([&](Rank&, int rank) { look(rank, true); });
  run.phase(table, "alarm", [&](Rank&, int rank) {
    look(rank, true);
    if (rank > 0) return;
    const auto reports = board(rank).reports(hosts, ranks);
    const std::string text = comm::describe_hang(*reports, 4);
    EXPECT_TRUE(text.starts_with("rank 1 (host node10000) has not entered all_reduce #9"))
        << text;
  });
  // Who reports waits until all have written their recorders.
  run.between([&](Rank&, int rank) {
    const std::string name = format("/recorder-{}.jsonl", 10000 + rank);
    const std::ofstream file(folder.path() + name);
  });
  run.phase(table, "recorders", [&](Rank&, int rank) {
    if (rank > 0) return;
    EXPECT_EQ(comm::count_recorders(folder.path()), ranks);
  });
  table["recorders"].linear = {{memory, 400}};  // of the listing
  table["alarm"].linear = {{opens, 1.0 / ranks_on_node},
                           {stats, 1.0 / ranks_on_node},
                           {read, sizeof(comm::Heartbeat)}};
}

// Eight ranks, the first and the last among them, hear of all that wait.
constexpr int judges = 8;

void measure_time_out(Simulation& run, Table& table, int judges) {
  run.phase(table, "time-out", [&](Rank& rank, int) { time_out(*rank.world, judges); });
  table["time-out"].linear = {{messages, 1}, {peers, 1}};
  table["time-out"].also_last = true;
}

void measure_failure(Simulation& run, Table& table) {
  int reports = 0;
  run.phase(table, "failure",
            [&](Rank& rank, int) { reports += fails(*rank.world) ? 1 : 0; });
  EXPECT_EQ(reports, 1);
}

void measure(Table& table, int ranks, bool files = true) {
  Simulation run(ranks);
  run.phase(table, "start", [&](Rank& rank, int) { start(rank, ranks); });
  if (files) measure_start(run, table);
  run.phase(table, "step", [&](Rank& rank, int number) { step(rank, number); });
  if (files) measure_checkpoint(run, table, ranks);
  if (files) measure_alarm(run, table, ranks);
  if (files) measure_copies(run, table, ranks);
  measure_time_out(run, table, judges);
  measure_failure(run, table);
  run.phase(table, "end", [&](Rank& rank, int) { end(rank); });
}

TEST(Scale, NothingGrowsFasterThanTheLogarithm) {
  Table table;
  for (const int ranks : {64, 256, 1024, 4096}) measure(table, ranks);
  print(table);
  for (const std::string& text : complaints(table)) ADD_FAILURE() << text;
}

// Everyone to everyone, as small reductions are on few ranks.
TEST(Scale, FlatReductionsAreSeen) {
  comm::RouteLimits& limits = comm::route_limits();
  const comm::RouteLimits before = limits;
  limits.direct_ranks = limits.pairwise_ranks = 1 << 20;
  Table table;
  for (const int ranks : {64, 256}) measure(table, ranks, false);
  limits = before;
  EXPECT_FALSE(complaints({{"step", table["step"]}}).empty());
}

// All ranks to rank 0, one by one.
TEST(Scale, AFlatGatherIsSeen) {
  Table table;
  for (const int ranks : {64, 256, 1024}) {
    Simulation run(ranks);
    run.phase(table, "gather", [&](Rank&, int rank) {
      double value = rank;
      MPI_Request request;
      for (int peer = 1; rank == 0 && peer < ranks; ++peer) {
        MPI_Irecv(&value, 8, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request);
        for (int done = 0; done == 0;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      }
      if (rank > 0) {
        MPI_Isend(&value, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
      }
    });
  }
  const auto found = complaints(table);
  ASSERT_FALSE(found.empty());
  EXPECT_NE(found[0].find("of rank 0 grow"), std::string::npos) << found[0];
}

// Two ranks of far nodes fail, and one of them reports: those that wait pass it on, but
// for one of each node in between, which is busy.
TEST(Scale, ThoseThatWaitPassAFailureOn) {
  constexpr int ranks = 256, one = 130, other = 250;
  Simulation run(ranks);
  run.between([&](Rank& rank, int) { start(rank, ranks); });
  int ended = 0, reports = 0;
  run.between([&](Rank& rank, int number) {
    if (number == one || number == other) {
      reports += fails(*rank.world) ? 1 : 0;
      ++ended;
    } else if (number % ranks_on_node != number / ranks_on_node % ranks_on_node) {
      while (ended < 2) hears(*rank.world);
    }
  });
  EXPECT_EQ(reports, 1);
  run.between([](Rank& rank, int) { rank = {}; });
}

// Every rank that waits too long, or fails, tells all others.
TEST(Scale, WhatAllTellAllIsSeen) {
  Table table;
  for (const int ranks : {64, 256}) {
    Simulation run(ranks);
    run.between([&](Rank& rank, int) { start(rank, ranks); });
    measure_time_out(run, table, ranks);
    run.phase(table, "failure", [&](Rank& rank, int) { tell_all(*rank.world); });
    run.between([](Rank& rank, int) { rank = {}; });
  }
  for (const char* const phase : {"time-out", "failure"}) {
    const auto found = complaints({{phase, table[phase]}});
    EXPECT_TRUE(std::ranges::any_of(found, [](const std::string& text) {
      return text.find("messages of leader grow") != std::string::npos;
    })) << phase;
  }
}

// A resume in which each rank looks into the file of each.
TEST(Scale, AnOpenForEachRankIsSeen) {
  Table table;
  for (const int ranks : {64, 256}) {
    Simulation run(ranks);
    run.phase(table, "resume", [&](Rank&, int) {
      for (int file = 0; file < ranks; ++file)
        const Descriptor own(open_to_read("/dev/null"));
    });
  }
  const auto found = complaints(table);
  ASSERT_EQ(found.size(), names.size());
  EXPECT_NE(found[0].find("opens of rank 0 grow"), std::string::npos) << found[0];
}

// Whatever way a file is opened or asked for its attributes, as strace would see it.
TEST(Scale, EveryWayToAFileIsCounted) {
  namespace fs = std::filesystem;
  Table table;
  Simulation run(64);
  const auto counted = [&](const auto& work) {
    run.phase(table, "look", [&](Rank&, int rank) {
      if (rank == 0) work();
    });
    const auto& of = table["look"].at.at(64)[first];
    return std::pair(of[opens], of[stats]);
  };
  using Pair = std::pair<double, double>;
  const Directory folder("/dev");
  EXPECT_EQ(counted([] { const std::ifstream file("/dev/null"); }), Pair(1, 0));
  EXPECT_EQ(counted([] { const Descriptor own(open_to_read("/dev/null")); }), Pair(1, 0));
  EXPECT_EQ(counted([] { EXPECT_TRUE(fs::exists("/dev/null")); }), Pair(0, 1));
  EXPECT_EQ(counted([] { EXPECT_FALSE(fs::is_symlink("/dev/null")); }), Pair(0, 1));
  EXPECT_EQ(counted([] { const fs::directory_iterator all("/dev/fd"); }), Pair(1, 1));
  EXPECT_EQ(counted([&] { folder.names(); }), Pair(0, 1));
  EXPECT_EQ(counted([&] { folder.has("null"); }), Pair(0, 1));
}

// Opens and stats of a resume: at most ten beside the files that hold a rank's data, here
// at most four; those of rank 0 are looked for and read once.
TEST(Scale, AResumeLooksAtFewFiles) {
  Table table;
  for (const int ranks : {64, 256}) {
    Simulation run(ranks);
    run.phase(table, "start", [&](Rank& rank, int) { start(rank, ranks); });
    measure_checkpoint(run, table, ranks);
    run.between([](Rank& rank, int) { end(rank); });
    for (const Who who : {first, half, leader, last}) {
      const auto& of = table["resume"].at.at(ranks)[who];
      EXPECT_LE(of[opens] + of[stats], 10 + 4) << ranks << " ranks, " << names[who];
    }
  }
}

// Opening data by each rank for itself: as many opens as files on every rank, whatever
// the number of ranks is, are no growth, but many.
TEST(Scale, OpensOfDataAreThoseOfOneRank) {
  Table table;
  Simulation run(64);
  run.phase(table, "start", [&](Rank& rank, int) { start(rank, 64); });
  measure_start(run, table);
  run.between([](Rank& rank, int) { end(rank); });
  const auto opened = [&](const char* phase, Who who) {
    return table[phase].at.at(64)[who][opens];
  };
  EXPECT_GE(opened("data", first), token_files);
  EXPECT_LT(opened("data again", first), 16);
  for (const char* const phase : {"data", "data again"}) {
    EXPECT_EQ(opened(phase, leader), 1) << phase;
    EXPECT_EQ(opened(phase, last), 0) << phase;
  }
  EXPECT_LE(opened("reading", leader), files_of_step);
  EXPECT_EQ(opened("reading", last), 0);
}

// Files that are opened for each sample: more opens than files.
TEST(Scale, AnOpenForEachSampleIsSeen) {
  const MemoryFolder place;
  make_start_files(place.path());
  Table table;
  Simulation run(64);
  run.phase(table, "reading",
            [&](Rank&, int number) { read_data_anew(place.path(), number); });
  EXPECT_GT(table["reading"].at.at(64)[leader][opens], files_of_step);
}

// A manifest with a line of text for each box, which all ranks get: it is no small index,
// and grows in everybody's memory.
TEST(Scale, AManifestOfBoxesIsSeen) {
  Table table;
  for (const int ranks : {64, 256}) {
    Simulation run(ranks);
    run.between([&](Rank& rank, int) { start(rank, ranks); });
    double bytes = 0;
    run.phase(table, "resume", [&](Rank& rank, int number) {
      Share share(number, ranks);
      std::string lines, all;
      for (const io::TensorBox& box : share.boxes())
        lines += format("tensor {}, shape {}, begin {}, digest {}\n", box.path,
                        testing::PrintToString(box.whole),
                        testing::PrintToString(box.begin), std::string(32, 'f'));
      for (const std::string& text : rank.world->gather_text(lines)) all += text;
      all = rank.world->broadcast(all);
      if (number == 0) bytes = static_cast<double>(all.size());
    });
    EXPECT_FALSE(is_small_index(bytes, ranks)) << bytes;
    run.between([](Rank& rank, int) { end(rank); });
  }
  const auto found = complaints(table);
  EXPECT_TRUE(std::ranges::any_of(found, [](const std::string& text) {
    return text.find("memory of leader grow") != std::string::npos;
  }));
}

}  // namespace
}  // namespace trireme::scale

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
