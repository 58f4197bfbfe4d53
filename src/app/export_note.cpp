// A line of the log about models that no Hugging Face folder can hold.
// SPDX-License-Identifier: Apache-2.0
#include "app/export_note.hpp"

#include "base/log.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "convert/folder_config.hpp"

namespace trireme::app {

void tell_of_export(const model::ModelConfig& model) {
  const std::string why = convert::why_not_expressible(model);
  if (!why.empty()) log::line(wrapped("export    " + why, terminal::prose_columns(), 10));
}

}  // namespace trireme::app
