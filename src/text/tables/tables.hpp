// Generated tables of Unicode's properties, as text that is expanded at the first use.
// SPDX-License-Identifier: Apache-2.0
// Words are separated by blanks, numbers in hexadecimal by points. They are written by
// make_tables.py from Unicode 16; see its head for what the `tokenizers` library knows.
#pragma once

namespace trireme::text::tables {

// "count.value": runs of equal values that cover all code points in order. A value of
// category_runs is a Category, with 0x20 for white space, 0x40 for a word's character and
// 0x80 for a mark of Unicode 9.0.
extern const char* const category_runs;
// The same of grapheme clusters: a Cluster, with 0x10 for pictographs and, in 0x60, what
// the character is in an Indic conjunct.
extern const char* const cluster_runs;
// The same of letters: 1 for an alphabetic character that is neither of a category of
// letters nor a letter number, 2 for one of lower case that is no Ll, 4 for one of upper
// case that is no Lu.
extern const char* const other_letter_runs;
// The same of scripts: places in script_names, from 1; 0 for surrogates.
extern const char* const script_names;
extern const char* const script_runs;
// Scripts as the pre-tokenizer UnicodeScripts knows them; 0: any.
extern const char* const older_script_runs;
// The same of canonical combining classes.
extern const char* const combining_runs;

// "first.image" or "first.image.count.step": code points that become one each.
extern const char* const canonical_singles;
extern const char* const compatible_singles;
extern const char* const lower_case;

// "code.first.second...": code points that become several; "!" forbids to compose them.
extern const char* const canonical_pairs;
extern const char* const compatible_longer;

}  // namespace trireme::text::tables
