// The file of a rank of a checkpoint, or of several.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_shard.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>

#include "base/boxes.hpp"
#include "io/checkpoint_index.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"
#include "io/filled_rows.hpp"
#include "io/hdf5_file.hpp"
#include "io/host_copy.hpp"

namespace trireme::io {
namespace {

// The digest is made of the elements in row-major order.
std::string digest_of_view(const TensorView& view) {
  Digest digest;
  const auto element = size_of(view.dtype());
  if (view.is_dense()) {
    digest.add(view.raw(), view.bytes());
    return digest.text();
  }
  for (std::int64_t row = 0; row < view.dim(0); ++row) {  // a matrix with longer rows
    const TensorView values = view.rows(row, 1);
    digest.add(values.raw(), static_cast<std::size_t>(values.elements()) * element);
  }
  return digest.text();
}

// A box that this rank writes.
struct WrittenBox {
  const TensorBox* source = nullptr;
  std::uint32_t dataset = 0;  // of the tensor in this file
  bool goes_on = false;       // in the dataset of the box before
  std::int64_t run = 0;       // elements of the dataset, where it begins with this box
  std::int64_t offset = 0;
  std::string digest;

  std::int64_t bytes() const { return static_cast<std::int64_t>(source->data.bytes()); }
};

std::int64_t place_in_rows(const TensorBox& box) {
  return trireme::place_in_rows(box.whole, box.begin, box.data.shape());
}

// Do the elements of a box follow those of the box before, in the tensor and in memory?
bool follows(const TensorBox& before, const TensorBox& box) {
  const std::int64_t place = place_in_rows(box), other = place_in_rows(before);
  return before.path == box.path && before.whole == box.whole &&
         before.data.dtype() == box.data.dtype() && before.data.is_dense() &&
         box.data.is_dense() && place >= 0 && other >= 0 &&
         place == other + before.data.elements();
}

void check_box(const TensorBox& box) {
  const Shape& extent = box.data.shape();
  require(is_word(box.path), Status::bad_content,
          "checkpoint: the name '{}' of a tensor has spaces or control characters, which "
          "no checkpoint can hold: give it another name",
          box.path);
  require(box.whole.rank() > 0 && box.whole.rank() == extent.rank() &&
              box.begin.rank() == extent.rank(),
          "checkpoint: '{}' of {} has a box of {} at {}", box.path, box.whole, extent,
          box.begin);
}

// Pieces of a shard that follow each other in the tensor become one dataset: tools that
// show tensors whole then map one part instead of three. `uses`: how many datasets of
// each tensor the file has already.
std::vector<WrittenBox> boxes_to_write(const std::vector<TensorBox>& boxes,
                                       std::map<std::string, std::uint32_t> uses) {
  std::vector<WrittenBox> all;
  std::size_t first = 0;  // of the run
  for (const TensorBox& box : boxes) {
    check_box(box);
    if (!box.write || box.data.elements() == 0) continue;
    WrittenBox next;
    next.source = &box;
    next.goes_on = !all.empty() && follows(*all.back().source, box);
    if (!next.goes_on) first = all.size();
    next.dataset = next.goes_on ? all.back().dataset : uses[box.path]++;
    all.push_back(next);
    all[first].run += box.data.elements();
  }
  return all;
}

// The index of one file with these boxes, and of the tensors `named`.
std::string index_of(const FileEntry& file, const std::vector<WrittenBox>& boxes,
                     const std::vector<const TensorBox*>& named) {
  std::map<std::string, std::vector<const WrittenBox*>> tensors;
  std::map<std::string, const TensorBox*> kinds;
  const auto add = [&](const TensorBox& box) {
    const TensorBox* first = kinds.try_emplace(box.path, &box).first->second;
    require(first->whole == box.whole && first->data.dtype() == box.data.dtype(),
            "checkpoint: '{}' is {} of {} in {}, but {} of {} elsewhere", box.path,
            name_of(box.data.dtype()), box.whole, file.name, name_of(first->data.dtype()),
            first->whole);
  };
  for (const TensorBox* box : named) add(*box);
  for (const WrittenBox& box : boxes) {
    add(*box.source);
    tensors[box.source->path].push_back(&box);
  }
  Manifest shard;
  if (!file.name.empty()) shard.files.push_back(file);
  for (const auto& [path, kind] : kinds) {
    const auto& own = tensors[path];
    shard.boxes.add_tensor(kind->whole.rank(), own.size());
    for (std::size_t i = 0; i < own.size(); ++i)
      shard.boxes.set(shard.tensors.size(), i,
                      {0, own[i]->dataset, own[i]->offset, digest_bytes(own[i]->digest),
                       own[i]->source->begin, own[i]->source->data.shape()});
    shard.tensors.push_back({path, kind->data.dtype(), kind->whole, ""});
  }
  return index_bytes(shard);
}

// What was written just now is no input: if it cannot be read, or is gone, that is a
// failure of the disk.
template <class Work>
FileEntry reading_back(const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(Status::io, format("{} (reading back what was written)", error.what()),
                error.where());
  }
}

// Reads the file back, once: its digests, and whether every box is there as it was in
// memory. `all`: its boxes, of every rank.
FileEntry read_back(const Directory& folder, const std::string& name,
                    const Manifest& all) {
  std::vector<std::pair<std::size_t, BoxRecord>> boxes;  // and their tensors
  for (std::size_t i = 0; i < all.tensors.size(); ++i)
    for (std::size_t b = 0; b < all.boxes.count(i); ++b)
      boxes.emplace_back(i, all.boxes.get(i, b));
  std::sort(boxes.begin(), boxes.end(), [](const auto& a, const auto& b) {
    return a.second.offset < b.second.offset;
  });
  const PlainFile file(Directory::to_read(folder.path()), name);
  const std::int64_t bytes = file.size();
  Digest whole, frame;
  std::int64_t at = 0;
  for (const auto& [tensor, box] : boxes) {
    const std::int64_t length =
        box.extent.elements() *
        static_cast<std::int64_t>(size_of(all.tensors[tensor].dtype));
    file.digest(at, box.offset - at, {&whole, &frame});
    Digest content;
    file.digest(box.offset, length, {&whole, &content});
    require(content.text() == digest_text(box.digest), Status::io,
            "{}: reads back other than it was written, at '{}'", file.path(),
            all.tensors[tensor].path);
    at = box.offset + length;
  }
  file.digest(at, bytes - at, {&whole, &frame});
  return {name, bytes, whole.text(), frame.text()};
}

// Writes one box into its dataset. `begin`: its first element there.
void write_box(Hdf5File& file, const TensorView& data, std::int64_t begin,
               WrittenBox& box, std::int64_t start) {
  const std::string name = dataset_name(box.source->path, box.dataset);
  const std::int64_t elements = data.elements();
  if (!box.goes_on && box.run == elements) {
    file.write(name, data);
  } else {
    if (!box.goes_on) file.create(name, data.dtype(), {box.run});
    file.write_rows(name, begin, TensorView(data.raw(), data.dtype(), {elements}));
  }
  const auto element = static_cast<std::int64_t>(size_of(data.dtype()));
  box.offset = box.goes_on ? start + begin * element : file.offset(name);
  box.digest = digest_of_view(data);
}

// The same of a box that is not in memory yet.
void write_box(Hdf5File& file, FilledRows& filled, std::int64_t begin, WrittenBox& box,
               std::int64_t start) {
  const TensorView& like = box.source->data;
  const std::string name = dataset_name(box.source->path, box.dataset);
  const bool alone = !box.goes_on && box.run == like.elements();
  if (!box.goes_on)
    file.create(name, like.dtype(), alone ? like.shape() : Shape{box.run});
  box.digest = filled.write(file, name, begin, *box.source, alone);
  const auto element = static_cast<std::int64_t>(size_of(like.dtype()));
  box.offset = box.goes_on ? start + begin * element : file.offset(name);
}

// The footer: an index of what this rank has written before it, in which the file's own
// size and digests are not known yet. Returns it.
std::string write_footer(Hdf5File& file, const std::string& name,
                         const std::vector<WrittenBox>& boxes, int place) {
  std::string footer = index_of({name, INT64_MAX, "", ""}, boxes, {});
  file.write(
      index_dataset_of(place),
      TensorView(footer.data(), DType::u8, {static_cast<std::int64_t>(footer.size())}));
  return footer;
}

// Footers of the ranks before this one.
std::vector<std::string> footers_in(const Hdf5File& file, int place) {
  std::vector<std::string> footers;
  for (int other = 0; other < place; ++other) {
    const std::string name = index_dataset_of(other);
    if (!file.has(name)) continue;
    std::string text(static_cast<std::size_t>(file.describe(name).second.elements()),
                     '\0');
    file.read_all(name, TensorView(text.data(), DType::u8,
                                   {static_cast<std::int64_t>(text.size())}));
    footers.push_back(std::move(text));
  }
  return footers;
}

// How many datasets of each tensor a file with these boxes has.
std::map<std::string, std::uint32_t> datasets_of(const Manifest& all) {
  std::map<std::string, std::uint32_t> uses;
  for (std::size_t i = 0; i < all.tensors.size(); ++i)
    for (std::size_t b = 0; b < all.boxes.count(i); ++b) {
      std::uint32_t& count = uses[all.tensors[i].path];
      count = std::max(count, all.boxes.get(i, b).dataset + 1);
    }
  return uses;
}

// Writes what this rank has into its file, behind that of the ranks before it. Gives the
// footers of all so far.
std::vector<std::string> write_boxes(const Directory& folder, const std::string& name,
                                     const std::vector<TensorBox>& boxes, int place) {
  const bool goes_on = place > 0 && folder.has(name);
  std::vector<std::string> footers;
  std::optional<Hdf5File> file;
  if (goes_on) {
    file.emplace(folder, name, Hdf5File::Mode::append);
    footers = footers_in(*file, place);
  }
  std::vector<WrittenBox> written =
      boxes_to_write(boxes, datasets_of(merge_indices(footers)));
  if (written.empty()) return footers;
  if (!goes_on) file.emplace(folder, name);
  HostCopy host;
  FilledRows filled;
  std::int64_t begin = 0, start = 0;  // of the box in its dataset, of that in the file
  for (WrittenBox& box : written) {
    if (!box.goes_on) begin = 0;
    if (box.source->fill)
      write_box(*file, filled, begin, box, start);
    else
      write_box(*file, host.read(box.source->data), begin, box, start);
    if (!box.goes_on) start = box.offset;
    begin += box.source->data.elements();
  }
  footers.push_back(write_footer(*file, name, written, place));
  // The disk has begun to write; what it wrote is read from memory meanwhile.
  file->close(false);
  return footers;
}

}  // namespace

std::string index_dataset_of(int place) {
  return place == 0 ? index_dataset : format("{}@{}", index_dataset, place);
}

std::string dataset_name(const std::string& tensor, std::uint32_t number) {
  return "/" + tensor + (number == 0 ? "" : format("@{}", number));
}

std::string shard_name(int number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "shard-%05d.h5", number);
  return text.data();
}

// Few enough for every tool and file system.
constexpr int most_in_folder = 1000;

std::string shard_folder(int number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "shards-%05d", number / most_in_folder);
  return text.data();
}

std::string shard_path(int number, int shards) {
  if (shards <= most_in_folder) return shard_name(number);
  return shard_folder(number) + "/" + shard_name(number);
}

std::vector<std::string> shard_folders(int shards) {
  std::vector<std::string> names;
  if (shards <= most_in_folder) return names;
  for (int first = 0; first < shards; first += most_in_folder)
    names.push_back(shard_folder(first));
  return names;
}

int shards_among(const std::vector<std::string>& names) {
  constexpr int digits = 5;  // those of a shard beside the manifest, or of a folder
  int shards = 0;
  for (const std::string& name : names) {
    const std::size_t dash = name.find('-');
    if (!name.starts_with("shard") || dash == std::string::npos) continue;
    const std::string text = name.substr(dash + 1, digits);
    int number = 0;
    const auto end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end || number < 0) continue;
    const bool is_folder = name.starts_with("shards-");
    shards = std::max(shards, (number + 1) * (is_folder ? most_in_folder : 1));
  }
  return shards;
}

ShardReport write_shard(const Directory& folder, const std::string& path,
                        const std::vector<TensorBox>& boxes, bool names_all,
                        const FileTurn& turn) {
  std::vector<const TensorBox*> named;
  for (const TensorBox& box : boxes)
    if (names_all || box.whole.elements() == 0) named.push_back(&box);
  const auto slash = path.find('/');
  std::optional<Directory> beneath;
  if (slash != std::string::npos) beneath.emplace(folder.open(path.substr(0, slash)));
  const Directory& own = beneath ? *beneath : folder;
  const std::string name = last_name_of(path);
  std::vector<std::string> footers = write_boxes(own, name, boxes, turn.place);
  ShardReport report;
  const bool last = turn.place + 1 == turn.places;
  std::vector<std::string> texts;
  if (last) texts = std::move(footers);
  const bool reports_file = !texts.empty();
  texts.push_back(index_of({}, {}, named));
  Manifest all = merge_indices(std::move(texts));
  if (reports_file) report.file = reading_back([&] { return read_back(own, name, all); });
  if (own.has(name)) sync_file(own.path_of(name));
  if (reports_file) {
    report.file.name = path;
    all.files = {report.file};
    for (std::size_t i = 0; i < all.tensors.size(); ++i)
      for (std::size_t b = 0; b < all.boxes.count(i); ++b) {
        BoxRecord box = all.boxes.get(i, b);
        box.file = 0;
        all.boxes.set(i, b, box);
      }
  }
  report.index = index_bytes(all);
  return report;
}

FileEntry file_entry(const std::string& directory, const std::string& name) {
  return reading_back([&]() -> FileEntry {
    const PlainFile file(Directory::to_read(directory), name);
    return {name, file.size(), file.digest(), ""};
  });
}

std::int64_t shard_bytes(const std::vector<TensorBox>& boxes) {
  constexpr std::int64_t of_file = 8192, of_box = 768;
  std::int64_t bytes = of_file;
  for (const auto& box : boxes)
    if (box.write)
      bytes += static_cast<std::int64_t>(box.data.elements()) *
                   static_cast<std::int64_t>(size_of(box.data.dtype())) +
               of_box;
  return bytes;
}

}  // namespace trireme::io
