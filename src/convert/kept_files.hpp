// Files of a Hugging Face folder that go with a model through its checkpoints.
// SPDX-License-Identifier: Apache-2.0
// A checkpoint holds each as a tensor of bytes, "folder/<name>", with a digest as all
// tensors have; export writes them again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"

namespace trireme::convert {

struct KeptFile {
  std::string name;
  std::string bytes;
};

// Of a folder: config.json, tokenizer and settings of generation. Of a checkpoint: what
// it holds. Throws as the readers do, and Error(bad_content) above 256 MiB a file.
std::vector<KeptFile> kept_files(const std::string& folder);
std::vector<KeptFile> kept_files(const io::CheckpointReader& checkpoint);

// Adds the tokenizer `path` of a run's data, a folder or a file (empty: none), where the
// files hold none: then the model is a folder that texts can be given to. Warns where it
// is there no more.
void add_tokenizer(const std::string& path, std::vector<KeptFile>& files);
// A line each.
std::string names_of(const std::vector<KeptFile>& files);

// Leaves out the files of a folder whose names have spaces or control characters, which
// no checkpoint can hold, with a warning that names each.
void leave_out_odd_names(const std::string& folder, std::vector<KeptFile>& files);
// The same warnings, of a folder whose files are not read.
void warn_of_odd_names(const std::string& folder);

// As boxes of a checkpoint, which one rank writes. `files` outlive them.
std::vector<io::TensorBox> kept_boxes(std::vector<KeptFile>& files);

}  // namespace trireme::convert
