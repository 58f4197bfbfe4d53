// ReferenceFile: a dataset for each source of pairs, with the digests that it stands for.
// SPDX-License-Identifier: Apache-2.0
#include "train/reference_file.hpp"

#include "base/directory.hpp"
#include "base/log.hpp"
#include "base/temporary_files.hpp"
#include "config/deck_table.hpp"
#include "io/digest.hpp"

namespace trireme::train {
namespace {

std::string dataset_of(const ReferencePart& part) {
  return part.name + "/log_probabilities";
}

std::string digest_of_values(const std::vector<double>& values) {
  return io::digest_of(
      {reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]});
}

// Whether a key has no say in what a model at its start makes of an answer.
bool leaves_values(const io::DeckKey& key) {
  const std::string name = full_name(key);
  if (name == "run.seed" || name == "run.device" || name == "batch.micro") return false;
  for (const std::string_view section :
       {"run", "batch", "train", "optimizer", "recompute", "checkpoint", "metrics",
        "health", "debug"})
    if (key.section == section || key.section.starts_with(std::string(section) + "."))
      return true;
  return false;
}

std::string settings_of(const config::RunConfig& config, const std::string& deck) {
  const auto table = config::deck_table();
  const io::Deck read = io::Deck::parse(deck, "deck", {}, table);
  std::string all = format("data ranks {}\n", config.parallel.mesh.data);
  for (const io::DeckKey& key : table)
    if (!leaves_values(key)) all += full_name(key) + " " + read.value_text(key) + "\n";
  return io::digest_of(all);
}

std::string attribute(const io::Hdf5File& file, const std::string& name,
                      const std::string& key) {
  return file.has_attribute(name, key) ? file.text_attribute(name, key) : "";
}

}  // namespace

ReferenceFile::ReferenceFile(const config::RunConfig& config, const std::string& deck)
    : path_(config.run.directory + "/reference.h5"),
      sequence_(config.model.sequence),
      settings_(settings_of(config, deck)) {}

std::string ReferenceFile::digest_of(const io::SampleSource& source) const {
  io::Digest digest;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequence_) + 1);
  for (std::int64_t i = 0; i < source.samples(); ++i) {
    source.sample(i, tokens);
    const io::SampleMarks marks = source.marks(i);
    digest.add(tokens.data(), tokens.size() * sizeof tokens[0]);
    digest.add(marks.answers.data(), marks.answers.size() * sizeof marks.answers[0]);
  }
  return digest.text();
}

void ReferenceFile::write(const std::vector<ReferencePart>& parts) const {
  const Directory folder(parent_of(path_));
  const std::string name = last_name_of(path_), draft = name + ".tmp";
  folder.require_file(name);
  folder.require_file(draft);
  TemporaryFile unfinished(folder.path_of(draft));
  io::Hdf5File file(folder, draft);
  for (const ReferencePart& part : parts) {
    const std::string dataset = dataset_of(part);
    file.write(dataset, TensorView(const_cast<double*>(part.values.data()), DType::f64,
                                   {std::ssize(part.values)}));
    file.write_attribute(dataset, "data_digest", part.data_digest);
    file.write_attribute(dataset, "values_digest", digest_of_values(part.values));
    file.write_attribute(dataset, "settings_digest", settings_);
    file.write_attribute(dataset, "samples", part.samples);
  }
  file.close();
  unfinished.place([&] { folder.rename(draft, name); });
  folder.sync();
}

io::Hdf5File ReferenceFile::open() const try {
  return io::Hdf5File(path_, io::Hdf5File::Mode::read);
} catch (const Error& error) {
  throw Error(error.status(),
              std::string(error.what()) +
                  ": it holds what the model at the start made of the answers, without "
                  "which train.objective = \"dpo\" cannot go on; if this checkpoint is "
                  "of another run, start from it by model.from",
              error.where());
}

// What keeps the file from holding values of these pairs; "": nothing.
std::string ReferenceFile::why_not(const io::Hdf5File& file, ReferencePart& part) const {
  const std::string name = dataset_of(part);
  if (!file.has(name)) return "holds no " + name;
  const auto [type, shape] = file.describe(name);
  if (part.data_digest.empty()) part.data_digest = digest_of(*part.source);
  return type == DType::f64 && shape == Shape{part.source->answers()} &&
                 attribute(file, name, "data_digest") == part.data_digest
             ? ""
             : name + " is of other pairs of answers than data has now";
}

// Samples of a file without their number, as older programs wrote it, are all.
void ReferenceFile::read_values(const io::Hdf5File& file, ReferencePart& part) const {
  const std::string name = dataset_of(part);
  part.values.resize(static_cast<std::size_t>(part.source->answers()));
  file.read_all(name,
                TensorView(part.values.data(), DType::f64, {std::ssize(part.values)}));
  require(attribute(file, name, "values_digest") == digest_of_values(part.values),
          Status::bad_content,
          "{}: {} was damaged since it was written: copy it from a backup, or start a "
          "new run.directory with model.from = a checkpoint of this run",
          path_, name);
  part.samples = file.has_attribute(name, "samples")
                     ? file.integer_attribute(name, "samples")
                     : part.source->samples();
}

std::vector<double> ReferenceFile::read(const ReferencePart& wanted) const {
  const io::Hdf5File file = open();
  ReferencePart part = wanted;
  require(file.has(dataset_of(part)), Status::bad_content,
          "{}: holds no {}: the data were not there when the run began; start a new "
          "run.directory with model.from = a checkpoint of this run",
          path_, dataset_of(part));
  const std::string other = why_not(file, part);
  require(other.empty(), Status::bad_content,
          "{}: {}: a run keeps its pairs, tokenizer, template, packing and "
          "model.sequence; put them back, or start a new run.directory with model.from = "
          "a checkpoint of this run",
          path_, other);
  read_values(file, part);
  require(part.samples == part.source->samples(), Status::bad_content,
          "{}: {} holds {} of {} samples: it is of a start that was stopped, not of this "
          "run; copy the file from a backup, or start a new run.directory with "
          "model.from = a checkpoint of this run",
          path_, dataset_of(part), part.samples, part.source->samples());
  return part.values;
}

void ReferenceFile::find(std::vector<ReferencePart>& parts) const {
  for (ReferencePart& part : parts) part.data_digest = digest_of(*part.source);
  const auto leave_out = [&](const std::string& why) {
    log::warn("{}: {}; the model at the start is asked for all answers again", path_,
              why);
  };
  try {
    const io::Hdf5File file(path_, io::Hdf5File::Mode::read);
    for (ReferencePart& part : parts) {
      const std::string name = dataset_of(part);
      if (!file.has(name)) continue;
      std::string why = why_not(file, part);
      if (why.empty() && attribute(file, name, "settings_digest") != settings_)
        why = name + " was computed with other settings, or on another mesh";
      if (!why.empty()) {
        leave_out(why);
        continue;
      }
      ReferencePart found = part;
      read_values(file, found);
      if (found.samples < 0 || found.samples > part.source->samples())
        leave_out(name + " holds more samples than there are");
      else
        part = found;
    }
  } catch (const Error& error) {
    if (error.status() != Status::missing_input) leave_out(error.what());
  }
}

}  // namespace trireme::train
