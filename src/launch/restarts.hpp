// A batch job that starts again and again must come further each time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "io/run_status.hpp"

namespace trireme::launch {

// starts: of a run, oldest first; the last is under way. Throws Error(resources), so that
// nobody starts the job once more, when its last three starts by the batch system or the
// job's script went on from the same step as this one: a budget that each newer
// checkpoint or copy renews. TRIREME_MOST_STARTS sets another number; Error(command_line)
// where it is none. Starts outside of a batch job are free.
void require_progress(std::span<const io::RunStart> starts);

// Removes the file that the variable TRIREME_STARTS names, in which the job script counts
// starts that came to nothing: from here on the run's own record counts.
void end_count_of_script();

// Writes checkpoint.partner_directory, as the deck has it, into the file that the
// variable TRIREME_COPIES_NOTE names, so that the job script finds copies to remove. What
// cannot be written is left out.
void note_copies_folder(const std::string& written);

// Adds a host to the file that the variable TRIREME_BAD_HOSTS names, so that the job
// script starts no ranks there again. What cannot be written is left out.
void name_bad_host(const std::string& host);

}  // namespace trireme::launch
