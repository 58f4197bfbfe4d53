// Boxes of tensors as they lie in files: proof that they are whole, and reading.
// SPDX-License-Identifier: Apache-2.0
#include "io/stored_boxes.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>

#include "base/boxes.hpp"
#include "base/row_windows.hpp"
#include "io/element_convert.hpp"

namespace trireme::io {
namespace {

static_assert(std::endian::native == std::endian::little,
              "elements are stored with the least significant byte first");

// How many stay open: an eighth of what the system allows, which leaves MPI its own.
std::size_t most_open_files() {
  constexpr std::size_t least = 8, most = 64;
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return least;
  return std::clamp(static_cast<std::size_t>(limit.rlim_cur / 8), least, most);
}

std::int64_t end_of(const BoxEntry& box, int dim) {
  return box.begin[dim] + box.extent[dim];
}

bool overlap(const BoxEntry& a, const BoxEntry& b) {
  for (int i = 0; i < a.begin.rank(); ++i)
    if (end_of(a, i) <= b.begin[i] || end_of(b, i) <= a.begin[i]) return false;
  return true;
}

// The dim along which the boxes are cut into the most parts.
int most_cut_dim(const Shape& whole, const std::vector<BoxEntry>& boxes) {
  int best = 0;
  std::size_t most = 0;
  for (int i = 0; i < whole.rank(); ++i) {
    std::vector<std::int64_t> begins;
    for (const auto& box : boxes) begins.push_back(box.begin[i]);
    std::sort(begins.begin(), begins.end());
    const auto different = static_cast<std::size_t>(
        std::unique(begins.begin(), begins.end()) - begins.begin());
    if (different > most) {
      most = different;
      best = i;
    }
  }
  return best;
}

// Compared are the boxes that meet along one dim, in sorted order.
std::string why_not_disjoint(const std::string& tensor, const Shape& whole,
                             const std::vector<BoxEntry>& boxes) {
  const int dim = most_cut_dim(whole, boxes);
  std::vector<const BoxEntry*> sorted;
  for (const auto& box : boxes) sorted.push_back(&box);
  std::sort(sorted.begin(), sorted.end(), [&](const BoxEntry* a, const BoxEntry* b) {
    return a->begin[dim] < b->begin[dim];
  });
  for (std::size_t i = 0; i < sorted.size(); ++i)
    for (std::size_t j = i + 1;
         j < sorted.size() && sorted[j]->begin[dim] < end_of(*sorted[i], dim); ++j)
      if (overlap(*sorted[i], *sorted[j]))
        return format(
            "{} and {} both write a part of '{}' (boxes of {} at {} and of {} at {})",
            sorted[i]->file, sorted[j]->file, tensor, sorted[i]->extent, sorted[i]->begin,
            sorted[j]->extent, sorted[j]->begin);
  return "";
}

// A part of one box on its way to memory.
struct Part {
  const PlainFile& file;
  std::int64_t offset;  // of the box
  DType dtype;
  const Shape& box;       // extents of the box
  const Shape& at;        // of the part in the box
  const Shape& extent;    // of the part
  const TensorView& out;  // in which the part lies
};

// Elements of the box, or of memory, from one index of `dim` to the next.
std::int64_t box_step(const Part& part, int dim) {
  std::int64_t step = 1;
  for (int i = dim + 1; i < part.box.rank(); ++i) step *= part.box[i];
  return step;
}

// Do the dims after `dim` lie one after the other in the file, and also in memory?
bool dense_in_file(const Part& part, int dim) {
  for (int i = dim + 1; i < part.box.rank(); ++i)
    if (part.extent[i] != part.box[i]) return false;
  return true;
}
bool dense_in_memory(const Part& part, int dim) {
  std::int64_t step = 1;
  for (int i = part.extent.rank() - 1; i >= dim; --i) {
    if (part.extent[i] > 1 && part.out.stride(i) != step) return false;
    step *= part.extent[i];
  }
  return true;
}

// Memory of the part from `dim` on = the dense elements at `from`, which is moved on.
void scatter(const Part& part, int dim, std::int64_t count, const std::byte*& from,
             std::byte* to) {
  const DType type = part.out.dtype();
  if (dim == part.extent.rank() - 1) {
    convert_elements(from, part.dtype, to, type, count);
    from += count * static_cast<std::int64_t>(size_of(part.dtype));
    return;
  }
  const auto step = part.out.stride(dim) * static_cast<std::int64_t>(size_of(type));
  for (std::int64_t i = 0; i < count; ++i)
    scatter(part, dim + 1, part.extent[dim + 1], from, to + i * step);
}

// Reads dims `dim` and after: `first` is the element of the box with which they begin,
// and `to` where that one goes.
void read_part(const Part& part, int dim, std::int64_t first, std::byte* to,
               std::vector<std::byte>& staging) {
  const auto element = static_cast<std::int64_t>(size_of(part.dtype));
  const std::int64_t box = box_step(part, dim), count = part.extent[dim];
  const auto step =
      part.out.stride(dim) * static_cast<std::int64_t>(size_of(part.out.dtype()));
  first += part.at[dim] * box;
  if (!dense_in_file(part, dim)) {
    for (std::int64_t i = 0; i < count; ++i)
      read_part(part, dim + 1, first + i * box, to + i * step, staging);
    return;
  }
  if (part.dtype == part.out.dtype() && dense_in_memory(part, dim)) {
    part.file.read(part.offset + first * element,
                   {to, static_cast<std::size_t>(count * box * element)});
    return;
  }
  if (dim + 1 < part.extent.rank() && box * element > window_bytes) {
    for (std::int64_t i = 0; i < count; ++i)
      read_part(part, dim + 1, first + i * box, to + i * step, staging);
    return;
  }
  // What is converted, or is strided in memory, passes through a block.
  for (const auto [row, now] : RowWindows(count, box * element, window_bytes)) {
    const auto bytes = static_cast<std::size_t>(now * box * element);
    staging.resize(std::max(staging.size(), bytes));
    part.file.read(part.offset + (first + row * box) * element, {staging.data(), bytes});
    const std::byte* from = staging.data();
    scatter(part, dim, now, from, to + row * step);
  }
}

// A folder that is there but cannot be opened is no damage.
Directory open_beneath(const Directory& folder, const std::string& name) {
  try {
    return folder.open(name);
  } catch (const Error& error) {
    struct stat there {};
    const bool is_there =
        ::fstatat(folder.descriptor(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(there.st_mode);
    throw Error(is_there ? Status::io : Status::bad_content, error.what(), error.where());
  }
}

}  // namespace

std::string why_not_whole(const std::string& tensor, const Shape& whole,
                          const std::vector<BoxEntry>& boxes) {
  if (!bytes_of(whole, DType::f64))
    return format("'{}' cannot have the shape {}", tensor, whole);
  for (const auto& box : boxes)
    if (!is_inside(whole, box.begin, box.extent) || box.extent.elements() == 0)
      return format("the box of {} at {} of '{}' lies outside '{}' of {}", box.extent,
                    box.begin, box.file, tensor, whole);
  std::string wrong = why_not_disjoint(tensor, whole, boxes);
  if (!wrong.empty()) return wrong;
  // Disjoint boxes inside the tensor cover it when they have as many elements.
  std::int64_t written = 0;
  for (const auto& box : boxes) written += box.extent.elements();
  if (written == whole.elements()) return "";
  return format("{} of the {} elements of '{}' are written by no rank",
                whole.elements() - written, whole.elements(), tensor);
}

PlainFile PlainFiles::opened(const std::string& name) const {
  const auto size = sizes_.find(name);
  const std::int64_t bytes = size == sizes_.end() ? -1 : size->second;
  const auto slash = name.find('/');
  if (slash == std::string::npos) return {folder_, name, links_, bytes};
  return {open_beneath(folder_, name.substr(0, slash)), name.substr(slash + 1), links_,
          bytes};
}

const PlainFile& PlainFiles::open(const std::string& name) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.name == name; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
  } else {
    if (entries_.size() >= most_open_files()) entries_.pop_back();
    entries_.emplace_front(name, opened(name));
  }
  return entries_.front().file;
}

void read_boxes(PlainFiles& files, const std::vector<BoxEntry>& boxes, DType dtype,
                const Shape& begin, const TensorView& out) {
  require(converts(dtype, out.dtype()), "{} does not convert to {}", name_of(dtype),
          name_of(out.dtype()));
  std::vector<std::byte> staging;
  std::int64_t missing = out.elements();
  for (const BoxEntry& box : boxes) {
    Shape at = box.begin, extent = box.extent, to = begin;
    bool meets = missing > 0;
    for (int i = 0; i < begin.rank(); ++i) {
      const std::int64_t first = std::max(begin[i], box.begin[i]);
      extent[i] = std::min(begin[i] + out.dim(i), end_of(box, i)) - first;
      at[i] = first - box.begin[i];
      to[i] = first - begin[i];
      meets = meets && extent[i] > 0;
    }
    if (!meets) continue;
    auto* target = static_cast<std::byte*>(out.raw());
    for (int i = 0; i < to.rank(); ++i)
      target += to[i] * out.stride(i) * static_cast<std::int64_t>(size_of(out.dtype()));
    read_part({files.open(box.file), box.offset, dtype, box.extent, at, extent, out}, 0,
              0, target, staging);
    missing -= extent.elements();
  }
  require(missing == 0, "{}: {} elements of a tensor lie in no box", files.path(),
          missing);
}

}  // namespace trireme::io
