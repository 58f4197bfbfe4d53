// LineEditor: on libedit where it was built in, else on the terminal's own editing.
// SPDX-License-Identifier: Apache-2.0
#include "app/line_editor.hpp"

#include <unistd.h>

#include <iostream>

#include "base/output.hpp"
#include "base/terminal.hpp"

#ifdef TRIREME_EDITLINE
#include <histedit.h>
#include <locale.h>

#include <clocale>
#include <cstdio>
#include <cwchar>
#include <utility>
#endif

namespace trireme::app {

#ifdef TRIREME_EDITLINE
namespace {

// Letters are UTF-8 while it lives, whatever the locale of the program is.
class Utf8Here {
 public:
  Utf8Here()
      : utf8_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)),
        before_(utf8_ ? ::uselocale(utf8_) : nullptr) {}
  ~Utf8Here() {
    if (!utf8_) return;
    ::uselocale(before_);
    ::freelocale(utf8_);
  }
  Utf8Here(const Utf8Here&) = delete;
  Utf8Here& operator=(const Utf8Here&) = delete;

 private:
  locale_t utf8_, before_;
};

// Terminals put these around what is pasted, once asked to.
constexpr const char* paste_begins = "\033[200~";
constexpr std::wstring_view paste_ends = L"\033[201~";
// libedit is told that the window has so many rows: where a line takes more of them than
// it has, version 3.1 leaves its own memory as soon as the line is edited above the
// window.
constexpr const char* many_rows = "2000";

// Takes a pasted text into the line, its line ends too.
unsigned char insert_paste(EditLine* editor, int) {
  std::wstring text;
  for (wchar_t letter = 0; el_wgetc(editor, &letter) == 1;) {
    text += letter == L'\r' ? L'\n' : letter;
    if (!text.ends_with(paste_ends)) continue;
    text.resize(text.size() - paste_ends.size());
    while (text.ends_with(L'\n')) text.pop_back();
    return el_winsertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }
  return CC_EOF;
}

}  // namespace

class LineEditor::Keys {
 public:
  Keys() {
    const Utf8Here letters;
    history_ = history_init();
    editor_ = el_init("trireme", stdin, stdout, stderr);
    HistEvent event{};
    history(history_, &event, H_SETSIZE, 1000);
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_PROMPT, &Keys::prompt_of);
    el_set(editor_, EL_HIST, history, history_);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_ADDFN, "trireme-paste", "Takes in a pasted text", insert_paste);
    el_set(editor_, EL_BIND, paste_begins, "trireme-paste", nullptr);
    el_source(editor_, nullptr);  // the user's keys: ~/.editrc
    // Ctrl-C is a key while a line is edited.
    el_set(editor_, EL_SETTY, "-d", "-isig", nullptr);
    el_set(editor_, EL_BIND, "^C", "em-kill-line", nullptr);
  }
  ~Keys() {
    el_end(editor_);
    history_end(history_);
  }
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  std::optional<std::string> read(const std::string& prompt) {
    const Utf8Here letters;
    prompt_ = prompt;
    has_rows_ = false;
    output::write(terminal::ask_for_marks);
    int count = 0;
    const char* text = nullptr;
    {
      const terminal::KeyModes modes;
      text = el_gets(editor_, &count);
    }
    output::write(terminal::no_more_marks);
    if (text == nullptr || count <= 0) {
      output::write("\n");
      return {};
    }
    std::string line(text, static_cast<std::size_t>(count));
    if (line.ends_with('\n')) line.pop_back();
    HistEvent event{};
    if (line.find_first_not_of(" \t\n") != std::string::npos)
      history(history_, &event, H_ENTER, line.c_str());
    return line;
  }

 private:
  static char* prompt_of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return static_cast<Keys*>(self)->prompt();
  }
  // Asked for each time that the line is drawn. Before the first time el_gets() has asked
  // the terminal for its size.
  char* prompt() {
    if (!std::exchange(has_rows_, true))
      el_set(editor_, EL_SETTC, "li", many_rows, nullptr);
    return prompt_.data();
  }

  std::string prompt_;
  bool has_rows_ = false;
  History* history_ = nullptr;
  EditLine* editor_ = nullptr;
};
#else
class LineEditor::Keys {
 public:
  std::optional<std::string> read(const std::string&) { return {}; }
};
#endif

LineEditor::LineEditor() : terminal_(::isatty(0) == 1) {
#ifdef TRIREME_EDITLINE
  if (terminal::has_keys()) keys_ = std::make_unique<Keys>();
#endif
}

LineEditor::~LineEditor() = default;

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  if (keys_) return keys_->read(prompt);
  if (terminal_) output::write(prompt);
  std::string line;
  if (!std::getline(std::cin, line)) return {};
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

}  // namespace trireme::app
