// Checkpoints: sharded HDF5 files that show whole tensors, written atomically.
// SPDX-License-Identifier: Apache-2.0
// A checkpoint `step-00000200/` holds shard-00000.h5 ... (one a writing rank), index.bin
// and manifest.json, and soon virtual datasets in checkpoint.h5.
// docs/checkpoint-format.md has the details.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor_view.hpp"
#include "comm/mesh.hpp"
#include "io/tensor_source.hpp"

namespace trireme::io {

// Attributes of a checkpoint.
struct CheckpointInfo {
  std::int64_t format_version = 2;
  std::string program_version;
  std::int64_t step = 0;    // optimizer steps done
  std::int64_t tokens = 0;  // tokens trained on
  comm::MeshShape mesh;     // that wrote it
  std::string deck;         // the effective deck
  // Of the save, for people; empty or none in what older programs wrote.
  std::string commit;   // of the program's sources
  std::string host;     // of rank 0
  std::string written;  // when it began, as "2026-01-31T12:00:00Z"
  // Of the model whose codes lie beside the adapters, and are not in the checkpoint.
  std::string base;
  std::string attempt;         // of a copy in memory: which start of the run made it
  std::optional<double> loss;  // of the last step, if it is finite
  std::int64_t samples = 0;    // of the data that it was trained on; 0: not known
};

// The words about a save, by their names in files.
inline constexpr std::array<std::pair<const char*, std::string CheckpointInfo::*>, 5>
    save_words = {{{"base", &CheckpointInfo::base},
                   {"commit", &CheckpointInfo::commit},
                   {"host", &CheckpointInfo::host},
                   {"written", &CheckpointInfo::written},
                   {"attempt", &CheckpointInfo::attempt}}};

// A box of a whole tensor in this rank's memory.
struct TensorBox {
  std::string path;   // "model/lm_head.weight", "optimizer/moment1/lm_head.weight"
  Shape whole;        // of the tensor
  Shape begin;        // of the box in the tensor
  TensorView data;    // the box, on the host or a GPU; rows may be strided
  bool write = true;  // exactly one rank of the mesh writes each element
  // Changes in the update at the end of a step only: a copy may be taken until then.
  bool until_update = false;
  // Where the data is not in memory yet, `data` lies on the meta device or is the memory
  // of a file, and this fills a dense view on the host when the box is written: on meta
  // of all of it, else of some rows, which begin with that number of its elements. One of
  // them at a time takes memory, of rows a few MiB.
  std::function<void(std::int64_t, const TensorView&)> fill{};
};

// One tensor as `inspect` lists it.
struct TensorEntry {
  std::string path;
  DType dtype{};
  Shape shape;
  std::string
      digest;  // XXH3-128 of the whole tensor's bytes, row-major: mesh independent
};

// Which bytes of a checkpoint's files are compared with their digests: share `part` of
// `parts`, so that ranks can share the work; none with parts = 0.
struct DigestShare {
  int part = 0, parts = 1;
};
inline constexpr DigestShare no_digests{0, 0};

// An open checkpoint, for one thread at a time. Construction checks the manifest and the
// size and digest of the files. Tensors are read from the files and bytes that the
// manifest names; of checkpoints of the first programs, which do not list them, HDF5 says
// where they lie.
class CheckpointReader : public TensorSource {
 public:
  // `path`: a step directory, or a checkpoints directory (its latest is taken), or a run
  // directory. Throws Error(missing_input) when there is none, Error(bad_content) naming
  // the file when one is missing, truncated, altered, swapped, or of a newer format
  // version.
  explicit CheckpointReader(const std::string& path, DigestShare compared = {});
  // Collective over the world: rank 0 alone looks for the checkpoint and reads what says
  // which bytes lie where, and the others are sent the names of the tensors and what
  // damage() of their rank needs. fetch() comes before read(). Compares nothing, and
  // takes no sizes of files but when they are opened. Throws an Agreed error as the other
  // does (AgreedNewerFormat for a newer format).
  CheckpointReader(comm::World& world, const std::string& path);
  // Collective too. Of shards that lie below `directory`, which is one of each node, as
  // far as their boxes are wanted there; the caller has compared them. `index`: of all of
  // them (io/checkpoint_index.hpp), on rank 0, which alone keeps it; fetch() comes before
  // files_of() too. Throws an Agreed Error(bad_content) unless they make whole tensors.
  CheckpointReader(comm::World& world, const std::string& directory,
                   const CheckpointInfo& info, const std::string& index);
  ~CheckpointReader() override;

  const std::string& directory() const;
  const CheckpointInfo& info() const;
  // All tensors, sorted by path; digest is empty.
  const std::vector<TensorEntry>& tensors() const;
  bool has(const std::string& path) const;
  // Throws Error(bad_content) when the tensor is absent.
  DType dtype_of(const std::string& path) const;

  // Reads a box of a whole tensor into `out`, converting between floating dtypes
  // (to nearest, ties to even) and between integers (clamping). Throws Error(bad_content)
  // when the tensor is absent or `whole` differs from what the file has.
  void read(const std::string& path, const Shape& whole, const Shape& begin,
            const TensorView& out) const override;

  // Collective over the world where the constructor was, else nothing: from here on this
  // rank can read() within these boxes.
  void fetch(comm::World& world, const std::vector<TensorBox>& boxes) const;

  // Compares a share of the bytes with their digests: "" or what is wrong. The files that
  // it opens stay open for reading, as many as the system allows. After a collective
  // constructor: the share of the rank among the world, before fetch().
  std::string damage(int part, int parts);
  // The number of the first file that holds a part of a box, to read boxes in this order.
  std::size_t first_file(const TensorBox& box) const;
  // The names of all that do; none of a tensor that is absent or has another shape.
  std::vector<std::string> files_of(const TensorBox& box) const;

  // Throws Error(bad_content) when the tensor is absent, has another shape or holds what
  // does not convert to `wanted`.
  void require_tensor(const std::string& path, const Shape& whole, DType wanted) const;

  // XXH3-128 over the whole tensor.
  std::string digest(const std::string& path) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::io
