// The body of a request to `tapegrad serve`, for the endpoint that the first byte says. What is
// accepted must be something that the engine can do; what is not must be said as JSON.

#include "tapegrad/apps/serve/api/chat_completions.h"
#include "tapegrad/apps/serve/api/embeddings.h"
#include "tapegrad/apps/serve/api/responses/responses.h"
#include "tapegrad/apps/serve/api/token_calls.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;
using namespace tapegrad::serve;

namespace {

class NoReply : public Reply {
 public:
  void send(http::Response, const Usage&) override {}
  void event(std::string) override {}
  void end(std::string, int, const Usage&) override {}
};

const ServedModel& served() {
  static const run::TextModel model = [] {
    auto tokenizer = data::Tokenizer::of_characters("abcdefghijklmnopqrstuvwxyz []:\n");
    Rng rng(1);
    nn::Params params(rng);
    nn::GPT gpt(params, {.vocab_size = tokenizer.vocab_size(),
                         .block_size = 64,
                         .n_layer = 1,
                         .n_head = 1,
                         .n_embd = 4});
    return run::TextModel{std::move(params), std::move(gpt), std::move(tokenizer)};
  }();
  static run::JsonMasks masks(model.tokenizer);
  static const ServedModel it{
      .model = model,
      .named = {{"m"}, {"poet", 0}},
      .context = 64,
      .created = 0,
      .chat = data::ChatTemplate(
          "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{{ x }}"),
      .answer_ends = {1},
      .json_masks = masks,
      .longest_token = 1};
  return it;
}

void check_job(const Job& job) {
  if (job.texts.size() > kMostTexts || (job.texts.empty() && job.pieces == 0)) {
    fuzz::finding("a job of no texts, or of too many");
  }
  for (const Job::Text& text : job.texts) {
    text.options->validate();
    const std::int64_t tokens = std::ssize(*text.prompt);
    if (tokens == 0 || tokens + text.options->max_new_tokens > served().context) {
      fuzz::finding("a text that does not fit");
    }
    for (const std::int32_t token : *text.prompt) {
      if (token < 0 || token >= served().vocab_size()) fuzz::finding("a token that is none");
    }
  }
}

void ask(int endpoint, const Json& body) {
  const Asked asked{.model = served(),
                    .id = "1",
                    .new_seed = 1,
                    .reply = [] { return std::make_unique<NoReply>(); },
                    .ignored = std::make_shared<IgnoredFields>(),
                    .look = [] {}};
  switch (endpoint) {
    case 0:
      return check_job(*completions(body, asked));
    case 1:
      return check_job(*chat_completions(body, asked));
    case 2:
      return check_job(*embeddings(body, asked));
    case 3:
      return static_cast<void>(tokenize(body, asked));
    case 4:
      return static_cast<void>(detokenize(body, asked));
    case 6:
      return check_job(*responses(body, asked));
    default:
      static_cast<void>(apply_template(body, asked));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  Json body;
  try {
    body = parse_json<Json>(fuzz::text_of(data + 1, size - 1), 64);
  } catch (const Error&) {
    return 0;
  }
  try {
    ask(data[0] % 8, body);
  } catch (const Refused& refused) {
    const Json said = Json::parse(refused.why.response().body);
    if (said["error"]["message"].get<std::string>().empty()) fuzz::finding("no reason is given");
  }
  return 0;
}
