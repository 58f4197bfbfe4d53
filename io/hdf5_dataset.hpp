// Datasets of HDF5 files of any origin, checked before HDF5 reads them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// They are found by hard links, stored in the file itself and of a plausible size; what
// is anything else is refused. All functions are called under the lock; `path` and `name`
// are for messages.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/hdf5_file.hpp"
#include "io/hdf5_types.hpp"

namespace trireme::io {

// "name" of "/name".
std::string relative_name(const std::string& name);

// The dataset `name`. With `checked`, the names that have passed, it must be found by
// hard links alone, and either be a mapping that mapped_pieces() takes, or lie in this
// file: no external storage, no filter but HDF5's own, no more elements than the file can
// hold, none that were never written. Throws Error(bad_content) saying what else it is,
// and what to do.
Hdf5Id open_dataset(hid_t file, const std::string& path, const std::string& name,
                    std::set<std::string>* checked);

// "" if the elements lie one after the other in this file, unpacked, in the byte order
// and type that this program writes, or why not.
std::string why_not_dense(hid_t dataset, DType dtype);

bool is_virtual(hid_t dataset);
// Which datasets of which files in the same folder a virtual dataset shows, each whole
// and in one box. Throws Error(bad_content) for any other mapping.
std::vector<Hdf5File::Piece> mapped_pieces(hid_t dataset, const std::string& path,
                                           const std::string& name);

// Throws Error(bad_content) when this program has no such type or shape.
std::pair<DType, Shape> description(hid_t dataset, const std::string& path,
                                    const std::string& name);
// Throws Error(bad_content) unless the box lies in the dataset.
void check_box(const std::string& path, const std::string& name, const Shape& whole,
               const Shape& begin, const Shape& extent);

}  // namespace trireme::io
