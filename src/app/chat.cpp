// `trireme chat MODEL`: a conversation in the terminal.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "app/generate_batch.hpp"
#include "app/generation_options.hpp"
#include "app/line_editor.hpp"
#include "app/model_text.hpp"
#include "app/placement_options.hpp"
#include "base/directory.hpp"
#include "base/out_of_memory.hpp"
#include "base/output.hpp"
#include "comm/stop_signals.hpp"
#include "data/chat_template.hpp"
#include "infer/generator.hpp"
#include "io/json_fields.hpp"
#include "io/plain_file.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::app {
namespace {

constexpr std::string_view usage =
    "trireme chat MODEL [--system TEXT] [--load FILE] [--chat-template F] [--tokenizer "
    "F] "
    "[--tokens N] [--positions N] [--temperature X] [--top-k N] [--top-p X] [--min-p X] "
    "[--typical-p X] "
    "[--repetition-penalty X] [--seed N] [--pipeline N] "
    "[--weights auto|codes|numbers] [--device auto|cpu|cuda] "
    "[--device-map auto|balanced|balanced_low_0|sequential|FILE] [--max-memory "
    "gpu0=SIZE,cpu=SIZE] [--dry-run]";
constexpr Option options[] = {
    {"--system", true},      {"--load", true},       {"--chat-template", true},
    {"--tokenizer", true},   {"--tokens", true},     {"--positions", true},
    {"--temperature", true}, {"--top-k", true},      {"--top-p", true},
    {"--min-p", true},       {"--typical-p", true},  {"--repetition-penalty", true},
    {"--seed", true},        {"--pipeline", true},   {"--weights", true},
    {"--device", true},      {"--device-map", true}, {"--max-memory", true},
    {"--dry-run", false}};

constexpr std::int64_t usual_answer = 1024;  // tokens, at most

constexpr std::string_view help_lines =
    "/system TEXT  what the system says first; begins again\n"
    "/reset        forgets the conversation, but for the system's words\n"
    "/save FILE    writes the conversation, as a line of JSON\n"
    "/load FILE    goes on from a conversation that was saved\n"
    "/help         these lines\n"
    "/quit         ends the program, as Ctrl-D does\n"
    "A line that ends in a backslash goes on in the next one. Ctrl-C ends an answer, or "
    "empties\n"
    "the line. Up and down bring earlier lines back.\n";

data::ChatTemplate::Json message(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

// What was said, on every rank alike.
class Conversation {
 public:
  explicit Conversation(const std::string& system) { begin(system); }
  void begin(const std::string& system) {
    system_ = system;
    messages_ = data::ChatTemplate::Json::array();
    if (!system.empty()) messages_.push_back(message("system", system));
  }
  void reset() { begin(system_); }
  void say(const char* role, const std::string& text) {
    messages_.push_back(message(role, text));
  }
  // Takes back the last message.
  void unsay() { messages_.erase(messages_.size() - 1); }
  const data::ChatTemplate::Json& messages() const { return messages_; }

  std::string line() const {
    const data::ChatTemplate::Json all = {{"messages", messages_}};
    return all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
           "\n";
  }
  // Throws Error(bad_content), and leaves the conversation as it was.
  void load(const std::string& text, const std::string& source) {
    const io::Json json = io::parse_json(text, 32, source);
    const io::JsonField list = io::JsonField(json, source).at("messages");
    for (std::size_t i = 0; i < list.size(); ++i) {
      static_cast<void>(list.at(i).at("role").text());
      static_cast<void>(list.at(i).at("content").text());
    }
    messages_ = json["messages"];
    const bool has_system = !messages_.empty() && messages_[0]["role"] == "system";
    system_ = has_system ? messages_[0]["content"].get<std::string>() : "";
  }

 private:
  std::string system_;
  data::ChatTemplate::Json messages_;
};

std::string read_text(const std::string& path) {
  std::error_code ignored;
  require(std::filesystem::exists(path, ignored), Status::missing_input,
          "{}: there is no such file", path);
  const Directory folder = Directory::to_read(parent_of(path));
  return io::PlainFile(folder, last_name_of(path), io::Links::followed).text(64 << 20);
}

// Lines of rank 0's standard input, given to all ranks.
class Lines {
 public:
  explicit Lines(comm::World& world) : world_(world) {
    if (world.rank() == 0) editor_.emplace();
  }
  // The next line, or lines joined by backslashes; nothing at the end.
  std::optional<std::string> next() {
    std::string all;
    bool any = false;
    if (editor_) {
      while (std::optional<std::string> line = editor_->read(any ? ". " : "> ")) {
        any = true;
        const bool more = line->ends_with('\\');
        if (more) line->back() = '\n';
        all += *line;
        if (!more) break;
      }
      static_cast<void>(comm::take_interrupts());
    }
    all = world_.broadcast(any ? "+" + all : "");
    if (all.empty()) return {};
    return all.substr(1);
  }

 private:
  comm::World& world_;
  std::optional<LineEditor> editor_;  // on rank 0
};

// Answers, with what earlier turns left in the cache.
class Speaker {
 public:
  Speaker(comm::World& world, const infer::LoadedModel& model, comm::Group& pipeline,
          const ModelText& text, const GenerationDefaults& how, std::int64_t positions)
      : world_(world),
        text_(text),
        how_(how),
        sampler_(how.sampler),
        positions_(positions),
        generator_(model, pipeline, positions) {}

  // Streams the answer to a prompt and returns it. Throws Error(bad_content) where the
  // prompt is empty or no position is left for the answer.
  std::string answer(std::vector<std::int32_t> tokens) {
    require(!tokens.empty(), Status::bad_content,
            "the chat template makes an empty prompt of the conversation: another "
            "--chat-template is needed");
    require(static_cast<std::int64_t>(tokens.size()) < positions_, Status::bad_content,
            "the conversation has {} tokens, and there are {} positions: /reset begins "
            "again",
            tokens.size(), positions_);
    text::StreamDecoder stream(*text_.tokenizer, true);
    std::string all;
    const auto show = [&](const std::string& part) {
      all += part;
      if (world_.rank() == 0) output::write(part);
    };
    for (std::int64_t made = 0; made < how_.tokens; ++made) {
      const auto length = static_cast<std::int64_t>(tokens.size());
      if (length >= positions_ || interrupted()) break;
      const std::int32_t token =
          sampler_.choose(generator_.logits_after(tokens), length, tokens);
      if (std::find(how_.end_tokens.begin(), how_.end_tokens.end(), token) !=
          how_.end_tokens.end())
        break;
      tokens.push_back(token);
      if (text_.tokenizer->token_of(token) != nullptr) show(stream.put(token));
    }
    show(stream.finish());
    if (world_.rank() == 0) output::write("\n");
    return all;
  }

 private:
  bool interrupted() {
    const bool here = world_.rank() == 0 && comm::take_interrupts() > 0;
    return world_.size() > 1 ? world_.max(here ? 1 : 0) > 0 : here;
  }

  comm::World& world_;
  const ModelText& text_;
  const GenerationDefaults& how_;
  infer::Sampler sampler_;
  std::int64_t positions_;  // of the conversation, at most
  infer::Generator generator_;
};

// A line that begins with '/'. False: the program ends.
bool obey(comm::World& world, const std::string& line, Conversation& conversation) {
  const auto blank = line.find_first_of(" \t\n");
  const std::string word = line.substr(0, blank),
                    rest = blank == std::string::npos ? "" : line.substr(blank + 1);
  const auto tell = [&](const std::string& text) {
    if (world.rank() == 0) output::write(text + "\n");
  };
  if (word == "/quit") return false;
  if (word == "/help") {
    if (world.rank() == 0) output::write(help_lines);
  } else if (word == "/system") {
    conversation.begin(rest);
  } else if (word == "/reset") {
    conversation.reset();
  } else if ((word == "/save" || word == "/load") && rest.empty()) {
    tell(word + " needs the name of a file");
  } else if (word == "/save") {
    if (world.rank() == 0)
      replace_text(Directory(parent_of(rest)), last_name_of(rest), conversation.line(),
                   Durability::unsynced);
    tell("saved " + rest);
  } else if (word == "/load") {
    std::string text, why;
    if (world.rank() == 0) {
      try {
        text = "+" + read_text(rest);
      } catch (const Error& error) {
        text = std::string("-") + error.what();
      }
    }
    text = world.broadcast(text);
    require(text.front() == '+', Status::bad_content, "{}", text.substr(1));
    conversation.load(text.substr(1), rest);
    tell(format("loaded {} messages", conversation.messages().size()));
  } else {
    tell("no command '" + word + "': /help lists them");
  }
  return true;
}

// Until the input ends or /quit.
void converse(comm::World& world, Speaker& speaker, const data::ChatTemplate& form,
              const ModelText& text, Conversation& conversation) {
  Lines lines(world);
  comm::keep_on_interrupt();
  while (const auto line = lines.next()) {
    if (line->find_first_not_of(" \t\r\n") == std::string::npos) continue;
    const bool command = line->front() == '/';
    try {
      if (command && !obey(world, *line, conversation)) break;
      if (command) continue;
      conversation.say("user", *line);
      conversation.say("assistant", speaker.answer(text.encode(
                                        form.render(conversation.messages(), true).text,
                                        text::SpecialTokens::leave_out)));
    } catch (const Error& error) {
      // All ranks meet the same error, but for one of rank 0's files.
      if (!command) conversation.unsay();
      if (world.rank() == 0) output::write(std::string(error.what()) + "\n");
    }
  }
}

}  // namespace

int chat(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  OpenedModel opened;
  ModelText text;
  GenerationDefaults how;
  comm::MeshShape shape;
  std::optional<data::ChatTemplate> form;
  Conversation conversation("");
  PlacementRequest placement;
  std::int64_t positions = 0;  // of the conversation, at most
  world.agree([&] {
    arguments.parse(usage, options, 1, 1);
    require(!arguments.has("--system") || !arguments.has("--load"), Status::command_line,
            "--system and --load exclude each other: the file says what the system says");
    placement = placement_request(arguments);
    opened = open_model(world, arguments.words().front());
    text = open_text(arguments, opened.config, TextNeed::always);
    require(text.tokenizer.has_value(), Status::command_line,
            "a model of bytes has no chat template: use generate");
    form = data::open_chat_template(text.tokenizer->folder(),
                                    arguments.text("--chat-template", ""), "");
    require(form.has_value(), Status::bad_content,
            "{}: has no chat template: give --chat-template F",
            arguments.words().front());
    positions = arguments.integer("--positions", opened.config.model.usual_positions(), 1,
                                  opened.config.model.usual_positions());
    how = generation_defaults(arguments, opened.config.model, text, usual_answer);
    shape = inference_mesh(world, arguments, opened.config.model);
    advise_on_memory([] {
      return "keys and values take memory for all positions of the model "
             "(max_position_embeddings) unless --positions N asks for fewer; weights can "
             "lie on a disk (--device-map), or be shared out over more ranks";
    });
    conversation.begin(arguments.text("--system", ""));
    if (arguments.has("--load")) {
      const std::string path = arguments.text("--load", "");
      conversation.load(read_text(path), path);
    }
  });
  const kernels::Runtime runtime(0, world.ranks_on_node());
  const launch::ComputeDevice on = device_of(world, arguments);
  comm::Mesh mesh(world, shape, {}, on.device, on.transport);
  comm::Group& pipeline = mesh.group(comm::Axis::pipeline);
  const ModelUse use{positions, [&](const infer::LoadedModel& meta) {
                       return infer::Generator(meta, pipeline, positions).bytes();
                     }};
  const auto model =
      load_model(world, arguments, placement, opened, mesh, on.device, use);
  if (model == nullptr) return 0;
  Speaker speaker(world, *model, pipeline, text, how, positions);
  converse(world, speaker, *form, text, conversation);
  return 0;
}

}  // namespace trireme::app
